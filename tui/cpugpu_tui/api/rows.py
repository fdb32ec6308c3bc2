"""Rows of a result as plain dictionaries, and as a DataFrame where pandas is installed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from cpugpu_tui.errors import UnfitError


class Rows:
    """A result with `rows`, each a dataclass."""

    rows: tuple[Any, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain dictionaries."""
        return [asdict(row) for row in self.rows]

    def frame(self) -> Any:
        """Return the rows as a DataFrame.

        Raises:
            UnfitError: pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError as error:
            raise UnfitError(
                "A DataFrame needs the package pandas, which is not installed.",
                f"Use records(), or install it with: {sys.executable} -m pip install pandas",
            ) from error
        return pandas.DataFrame(self.records())
