"""What every face says of fixed runs, word for word: the one place where sentences are asserted.

`make golden` renews the files after a change of wording; look at their difference before you commit it.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest
from tests.helpers.runs.golden_faces import FACES

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.mark.parametrize("face", FACES)
def test_a_face_says_what_its_golden_file_says(face: str) -> None:
    file = GOLDEN / f"{face}.txt"
    said = "\n".join(line.rstrip() for line in FACES[face]().splitlines()) + "\n"
    if os.environ.get("RENEW_GOLDEN"):
        file.write_text(said, "utf-8")
    before = file.read_text("utf-8") if file.exists() else ""
    changes = list(difflib.unified_diff(before.splitlines(), said.splitlines(), file.name, "now", lineterm="", n=1))
    assert not changes, "\n".join(["renew with `make golden` if this is meant:", *changes[:200]])
