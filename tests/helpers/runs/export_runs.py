"""Runs to export: two devices, a crossover, and names that would hurt whoever does not escape them."""

from dataclasses import replace

from tests.helpers.app.chart_runs import timed

from cpugpu_tui import model
from cpugpu_tui.export.stream import ExportedRun, exported

HOSTILE = "<script>alert(1)</script>"
UUID = "GPU-8f3a1c52-9d4e-4b7a-a1c0-0123456789ab"
SIZES = (16, 64, 256, 1024)


def stream(
    run_id: str = "20260101-aaaa", name: str = "matmul", sizes: tuple[int, ...] = SIZES, workload: str = "matmul"
) -> list[model.Event]:
    """A finished run, its last size failed; telemetry in between."""
    cases = tuple(model.Case(workload, size) for size in sizes)
    environment = {"hostname": "gpu17.example.org", "torch": "2.13.0", "interpreter": "/home/zoe/venv/bin/python"}
    events: list[model.Event] = [
        model.RunStarted(run_id=run_id, series_id="series-1", plan=model.Plan(name, cases), environment=environment),
        model.DevicesFound(
            devices=(model.Device("cpu", "EPYC"), model.Device("cuda:0", "H200", uuid=UUID, memory_bytes=141 << 30))
        ),
        telemetry(),
    ]
    for case in cases[:-1]:
        events += [*timed(case), model.CaseFinished(case=case.key)]
    events.append(
        model.CaseFailed(case=cases[-1].key, kind="oom", message="Too big | for /home/zoe/x.", device="cuda:0")
    )
    events.append(model.RunFinished(status="done", exit_code=3))
    start_ns = 1_767_225_600 * 10**9  # 2026-01-01
    return [
        replace(event, seq=seq, wall_ns=start_ns + seq * 1_000_001, mono_ns=seq) for seq, event in enumerate(events, 1)
    ]


def telemetry() -> model.TelemetryRead:
    """A reading with a stranger in it."""
    stranger = model.GpuProcess(4711, 1 << 30, "yuki", "python /home/yuki/secret-project/train.py", own=False)
    gpu = model.GpuTelemetry(
        0, UUID, "H200", "00000000:3B:00.0", {"power_mw": model.Reading(1.0)}, processes=(stranger,)
    )
    return model.TelemetryRead(gpus=(gpu,), host={"cpu_pct": model.Reading(None, "not-asked")})


def run(**changes: str) -> ExportedRun:
    """The same, ready for export."""
    return exported(stream(**changes))  # type: ignore[arg-type]


def half_rounds(found: ExportedRun) -> list[model.DeviceSampled]:
    """The raw samples of a run."""
    return [event for event in found.events if isinstance(event, model.DeviceSampled)]
