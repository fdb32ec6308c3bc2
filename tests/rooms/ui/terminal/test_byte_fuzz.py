"""Random bytes and sizes on a pseudo-terminal do no harm. `make bench ONLY=fuzz` tries many more, at every place."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.helpers.app.byte_fuzz import Outcome, inputs, prepare, visit

SHORT = ("main with a run", "history", "export", "filter of the rows", "fleet", "demo")
"""Places with a list, a form, a field and each of the programs."""
EACH, RESIZES, SEED = 50, 5, 14


@pytest.mark.timeout(900)  # every wait has a deadline of its own; the machine may be busy
def test_three_hundred_inputs_end_nothing_and_every_place_can_be_left(tmp_path: Path) -> None:
    prepare(tmp_path)
    outcome = Outcome()
    for place in SHORT:
        random = Random(f"{SEED} {place}")
        visit(place, inputs(random, EACH, RESIZES), tmp_path, outcome, random)
    print(outcome)
    assert outcome.inputs > EACH * len(SHORT) / 2
    assert outcome.starts == outcome.quits + sum(outcome.left_by.values())
    assert len(outcome.screens) >= 6
