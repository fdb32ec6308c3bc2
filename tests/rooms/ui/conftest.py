"""Fixtures of the app's tests."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cpugpu_tui.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty history."""
    with closing(Store.open(tmp_path / "results.db")) as store:
        yield store
