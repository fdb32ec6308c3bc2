"""What reports say about simulated machines is true. `make bench ONLY=trust` asks 500 of them."""

from __future__ import annotations

from tests.helpers.runs.drawn_machines import CONDITIONS, KINDS, SPOKEN, judged

from cpugpu_tui.report.segments import NOT_DECIDED, UP_TO, WITHIN


def test_always_never_and_from_are_right_under_every_condition() -> None:
    counts, wrong = judged(range(len(KINDS), 2 * len(KINDS)))
    assert {key for key, kind in counts if kind in SPOKEN} == set(CONDITIONS), "each condition has statements"
    assert not wrong
    left_open = sum(count for (_, kind), count in counts.items() if kind in (NOT_DECIDED, UP_TO, WITHIN))
    assert left_open <= 0.4 * counts.total(), "of 420 machines 22 % are left open"
