"""The bars of a survey: the parts of each axis, and their cells."""

from itertools import pairwise

import pytest
from tests.helpers.runs.planted_report import LETTERS, planted, with_copies

from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.decide.comparison import GPU_WINS, Comparison, SweepPoint
from cpugpu_tui.report.bars import BOTH, CPU, GAP, OPEN, RESIDENT, cells_of, parts_of


@pytest.mark.parametrize(
    ("letters", "moved", "kinds"),
    [
        ("CCGG", "CCCG", [CPU, OPEN, RESIDENT, BOTH]), ("CCGG", "CCCC", [CPU, OPEN, RESIDENT]),
        ("CCCG", "CCCC", [CPU, OPEN, RESIDENT]), ("CCGGG", "CCCGG", [CPU, OPEN, RESIDENT, BOTH]),
        ("GGG", "GGG", [BOTH]), ("GGG", "CCC", [RESIDENT]), ("GGG", "", [RESIDENT]), ("CCC", "CCC", [CPU]),
        ("C?GG", "", [CPU, OPEN, RESIDENT]), ("CCG?", "", [CPU, OPEN, RESIDENT, OPEN]),
        ("GGCC", "", [RESIDENT, OPEN, CPU]), ("===", "", [OPEN]), ("GG~GG", "GG~GG", [BOTH, OPEN, BOTH]),
        ("GGGGG", "GG~GG", [BOTH, RESIDENT, BOTH]), ("GG?GG", "GG=GG", [BOTH, OPEN, BOTH]), ("G", "", []),
    ],
)  # fmt: skip
def test_an_axis_has_the_parts_in_which_each_device_wins(letters, moved, kinds):
    found = parts_of(with_copies(letters, moved))
    assert [part.kind for part in found] == kinds
    assert not found or (found[0].start, found[-1].end) == (0, 1)
    assert all(before.end == after.start for before, after in pairwise(found))


def test_between_sizes_that_are_won_with_copies_the_bar_does_not_deny_it():
    """`███▓▓▓█` was shown of a GPU that wins from 26 on with copies, by less than the sizes differ."""
    narrow = Comparison(1.3, 1.25, 1.35, 8, GPU_WINS)
    found = planted("GGG", {END_TO_END: [SweepPoint(size, narrow) for size in (10, 20, 40)]})
    assert {part.kind for part in parts_of(found)} == {BOTH, GAP}
    assert "".join("G" if kind == BOTH else "·" for kind in cells_of(found, 9) if kind in (BOTH, GAP)) == "G···G···G"


def test_cells_show_every_size_by_its_own_judgement():
    signs = {CPU: "C", OPEN: "?", RESIDENT: "g", BOTH: "G"}
    assert "".join(signs[kind] for kind in cells_of(with_copies("CC~GG", "CCCCG"), 9)) == "CCC???ggG"
    assert set(cells_of(with_copies("CG", ""), 3)) == {CPU, OPEN, RESIDENT}
    assert cells_of(with_copies("CG", ""), 1) == (OPEN,), "a bracket is seen however narrow it is"
    assert cells_of(with_copies("GG", "CG"), 1) == (RESIDENT,), "the GPU wins at both, so it is not open"
    assert cells_of(with_copies("G", ""), 9) == ()


@pytest.mark.parametrize("letters", ["C?", "?G", "-G"])
def test_a_wide_gap_beside_an_unclear_size_is_unknown(letters):
    """`?` filled a bar from 200 to 512, though its legend calls all over 2.5× to the next size unknown."""
    near, far = ([SweepPoint(size, LETTERS[letter]) for size, letter in zip(sizes, letters, strict=True)]
                 for sizes in ((100, 250), (100, 251)))  # fmt: skip
    assert GAP not in cells_of(planted(near), 9)
    assert cells_of(planted(far), 9)[1:8] == (GAP,) * 7
