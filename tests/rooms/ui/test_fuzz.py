"""Random keys and sizes: no crash, no lost run, and quitting always works. `make bench ONLY=fuzz` runs more."""

import asyncio
import json
from random import Random

import pytest
from tests.helpers.app.byte_fuzz import Outcome, inputs, prepare, visit
from tests.helpers.app.fuzz import REGISTRY, FuzzError, play, script, shortest

SEED = 14


@pytest.mark.parametrize("keys", [200, pytest.param(1_000, marks=pytest.mark.slow)])
def test_random_keys_and_sizes_do_no_harm(tmp_path, monkeypatch, keys):
    steps = script(SEED, keys, keys // 10)
    assert set(REGISTRY) <= set(steps)
    at_home(tmp_path, monkeypatch)
    try:
        outcome = asyncio.run(play(steps, tmp_path, SEED))
    except FuzzError as error:
        pytest.fail(f"seed {SEED}: {error}\n{json.dumps(shortest_of(steps[: error.steps], tmp_path))}")
    print(outcome)
    assert outcome.quits >= 1
    assert outcome.runs >= keys // 200
    assert len(outcome.screens) >= 4, outcome.screens


def at_home(folder, monkeypatch):
    """Redirect typed file names and all user folders to a temporary folder."""
    monkeypatch.chdir(folder)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder))


def shortest_of(steps, folder):
    """Shrink a failing script for up to a minute; return the shortest one that still fails."""

    def fails(some):
        try:
            asyncio.run(play(some, folder, SEED))
        except FuzzError:
            return True
        return False

    return shortest(steps, fails)


def test_what_is_printed_of_a_failure_is_the_part_that_fails():
    def fails(steps):
        return "T" in steps and "enter" in steps[steps.index("T") :]

    steps = [*script(3, 50, 5), "T", "x", "enter", *"abc"]
    assert shortest(steps, fails, tries=500) == ["T", "enter"]


# ------------------------------------------------------------------ random bytes


SHORT = ("main with a run", "history", "export", "filter of the rows", "fleet", "demo")
"""Keys that lead to a list, a form, a field and each page."""
EACH, RESIZES = 25, 3


@pytest.mark.timeout(900)  # every wait has a deadline of its own; the machine may be busy
def test_random_inputs_end_nothing_and_every_place_can_be_left(tmp_path):
    prepare(tmp_path)
    outcome = Outcome()
    for place in SHORT:
        random = Random(f"{SEED} {place}")
        visit(place, inputs(random, EACH, RESIZES), tmp_path, outcome, random)
    print(outcome)
    assert outcome.inputs > EACH * len(SHORT) / 2
    assert outcome.starts == outcome.quits + sum(outcome.left_by.values())
    assert len(outcome.screens) >= 6
