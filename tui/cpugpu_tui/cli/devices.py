"""`cpugpu-tui devices`: the devices that torch can use, with their NVML index."""

from __future__ import annotations

import typer

from cpugpu_tui.cli.options import Json, Python, Simulate

PATIENCE_S = 5.0
"""How long to wait for the driver's list of GPUs. Without persistence mode it must wake each GPU first."""

commands = typer.Typer()


@commands.command()
def devices(json: Json = False, python: Python = None, simulate: Simulate = None) -> None:
    """List the CPU and the GPUs that torch can use.

    Each GPU is listed with its memory, NVML index and UUID.
    """
    import msgspec

    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import add_columns, console, new_table, plain
    from cpugpu_tui.cli.running.options import found_python, simulation
    from cpugpu_tui.session.devices import DeviceSurvey

    simulated = simulation(simulate)
    found = DeviceSurvey(found_python(python, simulation=simulated), simulated).ask()
    assert found is not None  # None only after a stop, which nobody requests here
    nvml_index = nvml_indices()
    if json:
        for device in found.devices:
            print_json({**msgspec.to_builtins(device), "nvml_index": nvml_index.get(device.uuid or "")})
        if found.no_gpu:
            print_json({"no_gpu": found.no_gpu})
        return
    table = new_table()
    add_columns(table, "device", "what", "memory", "NVML", "UUID")
    for device in found.devices:
        memory = "–" if device.memory_bytes is None else f"{device.memory_bytes / 2**30:.1f} GiB"
        index = str(nvml_index.get(device.uuid or "", "–"))
        table.add_row(*map(plain, (device.name, device.label, memory, index, device.uuid or "–")))
    out = console()
    out.print(table)
    if found.no_gpu:
        out.print(plain(found.no_gpu), soft_wrap=True)


def nvml_indices() -> dict[str, int]:
    """Return NVML's index by UUID, of GPUs and MIG instances. Empty if the driver does not answer."""
    from cpugpu_tui.telemetry.driver import Asker

    asker = Asker()
    asker.start()
    asker.ask(set())
    answer = asker.answer(PATIENCE_S)
    asker.end()
    if answer is None:  # an NVML call hangs: abandon its thread
        return {}
    asker.join(PATIENCE_S)
    gpus = answer.gpus
    whole = {gpu.uuid: gpu.index for gpu in gpus if gpu.uuid}
    return whole | {each.uuid: gpu.index for gpu in gpus for each in gpu.instances if each.uuid}
