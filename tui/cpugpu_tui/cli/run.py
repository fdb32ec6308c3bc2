"""`cpugpu-tui run`: run in the same way as the app, and print a table or the events."""

from __future__ import annotations

import typer

from cpugpu_tui.cli import options as opt

commands = typer.Typer()


@opt.takes(
    commands.command(), opt.Given,
    "names resume beside size device parallel dtype threads variant find_crossover max_size full rounds starts repeat "
    "max_seconds case_timeout energy cache scale mnist explain json database no_save worker pythons band simulate "
    "workloads export tensorboard ceilings",
)  # fmt: skip
def run(given: opt.Given) -> None:
    """Run presets or workloads and print a table.

    With --json, print each event of the run as a line of JSON instead.
    """
    from cpugpu_tui.cli.running import in_turn, modes
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.errors import UsageError

    if given.resume:
        raise typer.Exit(modes.resume_run(given))
    if not given.several and "band" in opt.typed(given.context):
        raise UsageError("--band needs two interpreters to compare.", "Repeat --python, or use `cpugpu-tui compare`.")
    request = given.request(names=tuple(given.names or ["quick"]), starts=given.number_of_starts())
    options, outputs = given.run_options(), Outputs.of(given)
    if given.several:
        raise typer.Exit(
            in_turn.run_in_turn(
                request,
                options,
                [in_turn.Side(python, python) for python in given.several],
                outputs,
                as_json=given.json,
                band=given.band,
            )
        )
    raise typer.Exit(modes.run_headless(request, options, as_json=given.json, outputs=outputs))
