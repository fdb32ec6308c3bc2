"""What tests ask of rows and databases, and the program does not."""

from cpugpu_tui.model import AS_WRITTEN, SYNCED
from cpugpu_tui.state.row import Row
from cpugpu_tui.store import Store


def naive_factor(row: Row) -> float | None:
    """How many times longer the same calls take on the GPU when the publication's clock waits for it."""
    if row.gpu is None:
        return None
    written, true = row.gpu.median_ns(AS_WRITTEN), row.gpu.median_ns(SYNCED)
    return true / written if written and true else None


def integrity_check(store: Store) -> list[str]:
    """The defects inside the file, a line each; empty if there are none."""
    with store._reading() as connection:
        findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        orphans = [f"{row[0]} row {row[1]} has no {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")]
    return [finding for finding in findings if finding != "ok"] + orphans
