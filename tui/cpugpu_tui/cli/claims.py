"""`cpugpu-tui claims`: the claims of five publications, judged by this machine's runs."""

from __future__ import annotations

import platform
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json

if TYPE_CHECKING:
    from cpugpu_tui.compare.claims import JudgedClaim

commands = typer.Typer()


@opt.takes(commands.command(), opt.Given, "json database simulate")
def claims(given: opt.Given) -> None:
    """Compare the claims of five publications with your runs.

    For claims that are undecided or not measured yet, print the commands that measure them.
    """
    simulated = given.simulation is not None
    judged = _judged(given.database, simulated=simulated)
    if given.json:
        for each in judged:
            print_json({**as_data(each, given.simulate), "simulated": simulated})
    else:
        print_judged(judged, "SIMULATED: " if simulated else "", given.simulate)


def print_judged(claims: tuple[JudgedClaim, ...], tag: str = "", simulate: str | None = None) -> None:
    """Print the claims as a table, then `tag` with the count of each outcome, then the commands for the others.

    The commands run on the machine that `simulate` names.
    """
    from cpugpu_tui.analysis.claim_numbers import UNDECIDED
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.compare.claims import command, tally

    rows = [
        (each.claim.publication, each.claim.sentence,
         each.here + (f" ({', '.join(each.sources)})" if each.sources else ""), each.outcome)
        for each in claims
    ]  # fmt: skip
    table = table_of(("by", "says", "here", "outcome"), rows)
    table.columns[1].ratio, table.columns[2].ratio = 4, 6
    out = console()
    out.print(table)
    out.print(plain(f"{tag}{tally(claims)}."), soft_wrap=True)
    left = (each for each in claims if each.is_open or each.outcome == UNDECIDED)
    missing = dict.fromkeys(filter(None, (command(each, simulate) for each in left)))
    if missing:
        out.print(f"To measure the others{'' if simulate else ' on a machine with a GPU'}, run:")
    for line in missing:
        out.print(f"  {line}", soft_wrap=True)


def _judged(database: Path | None, *, simulated: bool) -> tuple[JudgedClaim, ...]:
    from cpugpu_tui.analysis.ceilings import newest
    from cpugpu_tui.compare.claims import judge_all, numbers_of, stored_points
    from cpugpu_tui.config import paths
    from cpugpu_tui.store import open_to_read

    if not paths.database_path(database).exists():  # reading must not create a file
        return judge_all(numbers_of((), (), (), simulated=simulated))
    hostname = platform.node()
    with closing(open_to_read(database)) as store:
        ceilings = newest([found for found in store.ceilings(hostname) if found.simulated == simulated])
        stored = stored_points(store, hostname, (), ceilings, simulated=simulated)
    return judge_all(numbers_of((), stored, ceilings, simulated=simulated))


def as_data(each: JudgedClaim, simulate: str | None = None) -> dict[str, object]:
    """Return a claim as JSON values."""
    from cpugpu_tui.compare.claims import command

    claim = each.claim
    return {
        "id": claim.id, "publication": claim.publication, "sentence": claim.sentence, "outcome": each.outcome,
        "here": each.here, "sources": list(each.sources), "outdated": claim.outdated, "reason": claim.reason,
        "command": command(each, simulate) or None,
    }  # fmt: skip
