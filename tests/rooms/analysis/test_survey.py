"""A survey: the parts of each axis, and the order of the workloads."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.rooms.decide.test_crossover import sweep

from cpugpu_tui.analysis.answer import Evidence
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.analysis.survey import BOTH, CPU, DEPENDS, OPEN, RESIDENT, UNCLEAR, by_kind, parts, place
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, crossover


def evidence(letters: str, moved: str = "") -> Evidence:
    """Return a sweep over sizes 10, 20, …; `moved` are its results with copies. Letters as in `test_crossover`."""
    worlds = {END_TO_END: crossover(sweep(moved))} if moved else {}
    return Evidence(crossover(sweep(letters)), 4, worlds, axis="n")


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
        ("C?GG", "", [OPEN, RESIDENT]),
        ("CCG?", "", [CPU, OPEN]),
        ("GGCC", "", [RESIDENT, OPEN, CPU]),
        ("===", "", [OPEN]),
        ("GG?GG", "GG?GG", [BOTH, OPEN, BOTH]),
        ("GGGGG", "GG=GG", [BOTH, RESIDENT, BOTH]),
        ("G", "", []),
    ],
)
def test_an_axis_has_the_parts_in_which_each_device_wins(letters: str, moved: str, kinds: list[str]) -> None:
    found = parts(evidence(letters, moved))
    assert [part.kind for part in found] == kinds
    assert not found or (found[0].start, found[-1].end) == (0, 1)
    assert all(before.end == after.start for before, after in pairwise(found))


def test_the_earlier_the_gpu_wins_the_earlier_a_workload_stands() -> None:
    ordered = ["GGG", "CGGG", "CCCG", "GGCC", "===", "CCC"]
    assert sorted(ordered[::-1], key=lambda letters: place(evidence(letters))) == ordered


def test_a_workload_belongs_to_one_kind_and_to_none_without_times() -> None:
    told = {"a": "GGG", "b": "CCC", "c": "CGG", "d": "GG?GG", "e": "===", "f": ""}
    found = by_kind((name, crossover(sweep(letters))) for name, letters in told.items())
    assert found == {ALWAYS: ["a"], NEVER: ["b"], DEPENDS: ["c", "d"], UNCLEAR: ["e"]}
