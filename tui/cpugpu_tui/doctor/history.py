"""Checks of the database of past runs, by its first 100 bytes: nothing is opened, upgraded or made."""

from __future__ import annotations

from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, fail, ok, unknown, warn

_MAGIC = b"SQLite format 3\0"
_ELSEWHERE = "Name another file with --db, or save nothing with --no-save."

SCARCE_BYTES, NONE_LEFT_BYTES = 200 << 20, 4 << 20
"""Free space below which a run is warned of, and below which a large run (3 MB) is not saved."""


def file(facts: Facts) -> Finding:
    """Judge whether the database can be read and written."""
    history = facts.history
    if history.refusal is not None:
        return fail("The history has no place.", *history.refusal)
    if not history.exists:
        found = f"{history.path} will be made by the first run"
        return ok(found) if history.writable else _unwritable(f"{history.path} cannot be made.", history.why_not)
    version = header_number(history.header, 60)
    if not history.size_bytes:
        return (
            ok(f"{history.path}, empty")
            if history.writable
            else _unwritable(f"{history.path} is empty.", history.why_not)
        )
    if not history.header.startswith(_MAGIC) or version is None:
        return fail(f"{history.path} is no database.", "It does not begin as SQLite files do.", _ELSEWHERE)
    if header_number(history.header, 68) not in (0, history.application_id):
        return fail(f"{history.path} is another program's database.", "It carries another mark than ours.", _ELSEWHERE)
    found = f"{history.path}, version {version}, {_megabytes(history.size_bytes)}"
    if version > history.known_version:
        cause = f"A newer cpugpu-tui wrote it (known here: {history.known_version}); nothing can be saved to it."
        return fail(found, cause, "Update cpugpu-tui, or name another file with --db.")
    return ok(found) if history.writable else _unwritable(found, history.why_not)


def _unwritable(found: str, why_not: str) -> Finding:
    cause = f"No file can be made there ({why_not})" if why_not else "There is no permission to write there"
    return fail(found, f"{cause}, so runs are not saved.", _ELSEWHERE)


def header_number(header: bytes, offset: int) -> int | None:
    """Return a number of SQLite's header (fileformat2.html: user version at 60, application id at 68), or None."""
    return int.from_bytes(header[offset : offset + 4], "big") if len(header) >= offset + 4 else None


def place(facts: Facts) -> Finding:
    """Judge the file system under the database."""
    if not facts.history.network:
        return ok("local file system")
    return warn(
        "network file system",
        "Readers wait for writers there, and saving a case takes as long as the server does.",
        "Put it on a local disk: CPUGPU_DB=/local/path/results.db.",
    )


def space(facts: Facts) -> Finding:
    """Judge what is left on the disk."""
    free_bytes = facts.history.free_bytes
    if free_bytes is None:
        return unknown("not judged: this file system does not say what is left")
    found = f"{_megabytes(free_bytes)} free for the history"
    if free_bytes >= SCARCE_BYTES:
        return ok(found)
    remedy = "Free some space, or put the history elsewhere with CPUGPU_DB."
    if free_bytes < NONE_LEFT_BYTES:
        return fail(found, "The next run cannot be saved.", remedy)
    return warn(found, "Some of the next runs may not be saved.", remedy)


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"
