"""`cpugpu-tui claims`: what five publications say, and what this machine says to it."""

from __future__ import annotations

import platform
from pathlib import Path

from rich.table import Table

from cpugpu_tui.analysis.card import newest
from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.tables import add_columns, console, new_table, plain
from cpugpu_tui.compare.claims import JudgedClaim, command, judge_all, numbers_of, stored_points, tally
from cpugpu_tui.config import paths
from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model.quantities import with_micro
from cpugpu_tui.store import open_to_read


def print_claims(database: Path | None, *, simulated: bool, as_json: bool) -> int:
    """Print every claim, judged by the saved runs of this machine, real ones or simulated ones.

    Raises:
        StoreError: the history cannot be read.
    """
    claims = _judged(database, simulated=simulated)
    if as_json:
        for each in claims:
            print_json(with_micro(as_data(each)))
    else:
        print_judged(claims, "SIMULATED: " if simulated else "")
    return EXIT_OK


def print_judged(claims: tuple[JudgedClaim, ...], tag: str = "") -> None:
    """Print a table of claims, `tag` with how many came out how, and what would measure the others."""
    out = console()
    out.print(claims_table(claims))
    out.print(plain(f"{tag}{tally(claims)}."), soft_wrap=True)
    missing = dict.fromkeys(command(each) for each in claims if each.is_open and command(each))
    if missing:
        out.print("What is not measured yet is measured by:")
    for line in missing:
        out.print(f"  {line}", soft_wrap=True)


def _judged(database: Path | None, *, simulated: bool) -> tuple[JudgedClaim, ...]:
    if not paths.database_path(database).exists():  # reading makes no file
        return judge_all(numbers_of((), (), (), simulated=simulated))
    store = open_to_read(database)
    try:
        hostname = platform.node()
        ceilings = newest([found for found in store.ceilings(hostname) if found.simulated == simulated])
        stored = stored_points(store, hostname, (), ceilings, simulated=simulated)
    finally:
        store.close()
    return judge_all(numbers_of((), stored, ceilings, simulated=simulated))


def claims_table(claims: tuple[JudgedClaim, ...]) -> Table:
    """Return one row per claim."""
    table = new_table()
    add_columns(table, "by")
    add_columns(table, "says", ratio=4)
    add_columns(table, "here", ratio=6)
    add_columns(table, "outcome")
    for each in claims:
        here = each.here + (f" ({', '.join(each.sources)})" if each.sources else "")
        table.add_row(*map(plain, (each.claim.publication, each.claim.sentence, here, each.outcome)))
    return table


def as_data(each: JudgedClaim) -> dict[str, object]:
    """Return a claim as JSON values."""
    claim = each.claim
    return {
        "id": claim.id,
        "publication": claim.publication,
        "sentence": claim.sentence,
        "outcome": each.outcome,
        "here": each.here,
        "sources": list(each.sources),
        "outdated": claim.outdated,
        "reason": claim.reason,
        "command": command(each) or None,
    }
