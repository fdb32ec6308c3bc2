"""What every face says of fixed runs, word for word: the one place where these sentences are asserted."""

from __future__ import annotations

import pytest
from faces import FACES
from golden import assert_golden


@pytest.mark.parametrize("face", FACES)
def test_golden_face(face: str) -> None:
    assert_golden(face, FACES[face]())
