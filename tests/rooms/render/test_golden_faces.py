"""The output of every face for fixed runs, word for word."""

import pytest
from tests.helpers.golden import assert_golden
from tests.helpers.runs.golden_faces import FACES


@pytest.mark.parametrize("face", FACES)
def test_golden_face(face):
    assert_golden(face, FACES[face]())
