"""`cpugpu-tui list`: presets and workloads, built-in and of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cpugpu_tui.cli.options import Json, Python, Workloads
from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from cpugpu_tui.session.own_workloads import OwnWorkloads

commands = typer.Typer()


@commands.command("list")
def list_workloads(json: Json = False, workloads: Workloads = None, python: Python = None) -> None:
    """List presets and workloads, including your own."""
    import msgspec

    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.running.options import all_own, say
    from cpugpu_tui.workloads import PRESETS

    own, refused = all_own(map(str, workloads or ()), python)
    if json:
        for preset in (*PRESETS.values(), *own.presets):
            print_json({"kind": "preset", **msgspec.to_builtins(preset)})
        for info in own.infos().values():
            print_json({"kind": "workload", **msgspec.to_builtins(info)})
    else:
        _print_tables(own)
    say(refused)
    raise typer.Exit(EXIT_USAGE if refused else EXIT_OK)


def _print_tables(own: OwnWorkloads) -> None:
    from cpugpu_tui.cli.output.table_style import add_columns, console, new_table, plain
    from cpugpu_tui.workloads import PRESETS

    presets = new_table()
    add_columns(presets, "preset", "runs", "claimed")
    for preset in (*PRESETS.values(), *own.presets):
        presets.add_row(*map(plain, (preset.name, preset.summary, preset.claim or "–")))
    workloads = new_table()
    sources = ("from",) if own.workloads else ()
    add_columns(workloads, "workload", "what", "size is", "variants", *sources)
    for info in own.infos().values():
        source = (info.source or "built in",) if sources else ()
        workloads.add_row(*map(plain, (info.name, info.summary, info.axis, ", ".join(info.variants), *source)))
    out = console()
    out.print(presets)
    out.print(workloads)
