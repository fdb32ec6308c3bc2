"""Fixtures of the app's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str | None]:
    """Folders of this test, without variables that configure the app."""
    folders = {f"XDG_{name}_HOME": str(tmp_path) for name in ("DATA", "STATE", "CONFIG", "CACHE")}
    return {**folders, "CPUGPU_SIMULATE": None, "CPUGPU_DB": None}
