"""What reports say about simulated machines is true. `make bench ONLY=trust` asks 500 of them."""

from __future__ import annotations

from tests.helpers.runs.drawn_machines import CONDITIONS, KINDS, SPOKEN, judged


def test_always_never_and_from_are_right_under_every_condition() -> None:
    counts, wrong = judged(range(len(KINDS), 2 * len(KINDS)))
    spoken = [key for key, kind in counts.elements() if kind in SPOKEN]
    assert set(spoken) == set(CONDITIONS), "there are statements about each condition"
    assert not wrong
    assert len(spoken) >= 0.45 * counts.total(), "and about half of them can be made"
