"""`cpugpu-tui list`: presets and workloads, a person's own among them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.own import all_own, say
from cpugpu_tui.cli.tables import add_columns, console, new_table, plain
from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.workloads import PRESETS


def print_catalogue(files: Iterable[str], python: str | None, *, as_json: bool) -> int:
    """Print presets, then workloads; what could not be loaded is said on stderr, and is the exit code.

    Raises:
        UsageError: the config is wrong, or a file ended the agent.
    """
    own, refused = all_own(files, python)
    if as_json:
        for preset in (*PRESETS.values(), *own.presets):
            print_json({"kind": "preset", **msgspec.to_builtins(preset)})
        for info in own.infos().values():
            print_json({"kind": "workload", **msgspec.to_builtins(info)})
    else:
        _print_tables(own)
    say(refused)
    return EXIT_USAGE if refused else EXIT_OK


def _print_tables(own: OwnWorkloads) -> None:
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
