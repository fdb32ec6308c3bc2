"""The bars of a survey: the parts of each axis, and their cells."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.helpers.runs.planted_report import with_copies

from cpugpu_tui.report.bars import BOTH, CPU, OPEN, RESIDENT, cells_of, parts_of


@pytest.mark.parametrize(
    ("letters", "moved", "kinds"),
    [
        ("CCGG", "CCCG", [CPU, OPEN, RESIDENT, BOTH]),
        ("CCGG", "CCCC", [CPU, OPEN, RESIDENT]),
        ("CCCG", "CCCC", [CPU, OPEN, RESIDENT]),
        ("CCGGG", "CCCGG", [CPU, OPEN, RESIDENT, BOTH]),
        ("GGG", "GGG", [BOTH]),
        ("GGG", "CCC", [RESIDENT]),
        ("GGG", "", [RESIDENT]),
        ("CCC", "CCC", [CPU]),
        ("C?GG", "", [CPU, OPEN, RESIDENT]),
        ("CCG?", "", [CPU, OPEN, RESIDENT, OPEN]),
        ("GGCC", "", [RESIDENT, OPEN, CPU]),
        ("===", "", [OPEN]),
        ("GG~GG", "GG~GG", [BOTH, OPEN, BOTH]),
        ("GGGGG", "GG~GG", [BOTH, RESIDENT, BOTH]),
        ("GG?GG", "GG=GG", [BOTH, OPEN, BOTH]),
        ("G", "", []),
    ],
)
def test_an_axis_has_the_parts_in_which_each_device_wins(letters: str, moved: str, kinds: list[str]) -> None:
    found = parts_of(with_copies(letters, moved))
    assert [part.kind for part in found] == kinds
    assert not found or (found[0].start, found[-1].end) == (0, 1)
    assert all(before.end == after.start for before, after in pairwise(found))


def test_cells_show_every_size_by_its_own_judgement() -> None:
    signs = {CPU: "C", OPEN: "?", RESIDENT: "g", BOTH: "G"}
    assert "".join(signs[kind] for kind in cells_of(with_copies("CC~GG", "CCCCG"), 9)) == "CCC???ggG"
    assert set(cells_of(with_copies("CG", ""), 3)) == {CPU, OPEN, RESIDENT}
    assert cells_of(with_copies("CG", ""), 1) == (OPEN,), "a bracket is seen however narrow it is"
    assert cells_of(with_copies("G", ""), 9) == ()
