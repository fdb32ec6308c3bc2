"""The store: every run, with its raw samples, in one SQLite file that only the controller opens."""

from __future__ import annotations

from pathlib import Path

from cpugpu_tui.runs import paths
from cpugpu_tui.runs.store.database import Store
from cpugpu_tui.runs.store.summary import RunSummary

__all__ = ["RunSummary", "Store", "open_store"]


def open_store(override: Path | None = None) -> Store:
    """Open the database that `--db`, `$CPUGPU_DB` or the default place names.

    Only the default place has its folder created: a folder that the person named and that is not there is a typo.

    Raises:
        StoreError: see `Store.open`.
    """
    path = paths.database_path(override)
    return Store.open(path, create_parents=path == paths.default_database_path())
