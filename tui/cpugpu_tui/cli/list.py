"""`cpugpu-tui list`: presets and workloads, built-in and of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import print_json
from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from cpugpu_tui.session.own_workloads import OwnWorkloads

commands = typer.Typer()


@opt.takes(commands.command("list"), opt.Given, "json workloads python")
def list_workloads(given: opt.Given) -> None:
    """List presets and workloads, including your own."""
    import msgspec

    from cpugpu_tui.cli.running.options import all_own, say
    from cpugpu_tui.workloads import PRESETS

    own, refused = all_own(map(str, given.workloads or ()), given.python)
    if given.json:
        for preset in (*PRESETS.values(), *own.presets):
            print_json({"kind": "preset", **msgspec.to_builtins(preset)})
        for info in own.infos().values():
            print_json({"kind": "workload", **msgspec.to_builtins(info)})
    else:
        _print_tables(own)
    say(refused)
    raise typer.Exit(EXIT_USAGE if refused else EXIT_OK)


def _print_tables(own: OwnWorkloads) -> None:
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.workloads import PRESETS

    presets = [(preset.name, preset.summary, preset.claim or "–") for preset in (*PRESETS.values(), *own.presets)]
    workloads = [
        (info.name, info.summary, info.axis, ", ".join(info.variants), info.source or "built in")
        for info in own.infos().values()
    ]
    shown = 5 if own.workloads else 4
    out = console()
    out.print(table_of(("preset", "runs", "claimed"), presets))
    out.print(table_of(("workload", "what", "size is", "variants", "from")[:shown], (row[:shown] for row in workloads)))
