"""Which sizes verify a threshold, and when its choices cost too much."""

from __future__ import annotations

import pytest

from cpugpu_tui.analysis.regret import Choice, Regret, answered, held_out

PARTS = (("cpu", 16, 162), ("cuda", 177, 2048))


def test_sizes_lie_beside_each_bracket_and_over_the_range() -> None:
    sizes = held_out(PARTS)
    assert {147, 195} <= set(sizes)
    assert sum(size < 147 for size in sizes) >= 1
    assert sum(size > 195 for size in sizes) >= 1
    assert not [size for size in sizes if 162 <= size <= 177 or not 16 < size < 2048]
    assert len(held_out((("cpu", 16, 2048),))) == 4


@pytest.mark.parametrize("parts", [(("cpu", 5, 5),), (("cpu", 1, 1), ("cuda", 2, 2))])
def test_a_range_without_other_sizes_has_none_to_verify(parts: tuple[tuple[str, int, int], ...]) -> None:
    assert held_out(parts) == []
    assert answered(parts) == 1


def test_what_lies_in_a_bracket_is_not_answered() -> None:
    assert answered((("cpu", 10, 20), ("cuda", 500, 1000))) == pytest.approx(0.3, abs=0.05)
    assert answered((("cpu", 150, 162), ("cuda", 200, 250))) < 0.7


@pytest.mark.parametrize(("first", "last"), [(16, 2048), (150, 200), (162, 177)])
def test_a_bracket_that_no_search_narrows_further_does_not_count(first: int, last: int) -> None:
    """It took 31 % of the range 150 to 200, so `verify` failed a file without fault."""
    assert answered((("cpu", first, 162), ("cuda", 177, last))) == 1


def test_the_regret_is_what_the_other_device_would_have_saved() -> None:
    assert Choice(1, "cpu", 100.0, 200.0).regret == 0
    assert Choice(1, "cuda", 100.0, 125.0).regret == pytest.approx(0.25)
    right, wrong = Choice(1, "cuda", 200.0, 100.0), Choice(2, "cpu", 119.0, 100.0)
    assert Regret((right, wrong), 1.0).mean == pytest.approx(0.095)
    assert Regret((right, wrong), 1.0).worst == pytest.approx(0.19)


@pytest.mark.parametrize(
    ("regrets", "share", "is_kept"),
    [([0.0, 0.09], 1.0, True), ([0.0, 0.11], 1.0, False), ([0.0] * 9 + [0.21], 1.0, False), ([0.0], 0.94, False),
     ([], 1.0, False)],
)  # fmt: skip
def test_all_three_limits_count(regrets: list[float], share: float, is_kept: bool) -> None:
    assert Regret(tuple(Choice(1, "cpu", 100 + 100 * each, 100.0) for each in regrets), share).is_kept is is_kept
