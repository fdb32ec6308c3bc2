"""What a question to the history costs, counted in steps of SQLite: it grows with the answer, not with the history."""

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.helpers.bench.large_history import make_history

from cpugpu_tui.errors import UsageError
from cpugpu_tui.store import Store

FEW, MANY = 40, 400
"""Runs of the histories that are compared."""

TAGGED = "00000000005"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two histories that differ in length alone."""
    paths: list[Path] = [tmp_path_factory.mktemp("history") / f"{runs}.db" for runs in (FEW, MANY)]
    for path, runs in zip(paths, (FEW, MANY), strict=True):
        make_history(path, runs)
    with closing(Store.open(paths[0])) as few, closing(Store.open(paths[1])) as many:
        for store in (few, many):
            store.tag(TAGGED, ["nightly"])
        yield few, many


def steps(store, ask):
    """Return the number of steps of SQLite's virtual machine that a question takes."""
    count = 0

    def step():
        nonlocal count
        count += 1
        return 0

    store._connection.set_progress_handler(step, 1)
    with suppress(UsageError):
        ask(store)
    store._connection.set_progress_handler(None, 1)
    return count


QUESTIONS: dict[str, Callable[[Store], object]] = {
    "the newest run": lambda store: store.find("latest"),
    "a run by its number": lambda store: store.find("7"),
    "a run by its id": lambda store: store.find(TAGGED),
    "a run by the beginning of its id": lambda store: store.find(TAGGED[:-1] + "5"),
    "a run that is not there": lambda store: store.find("nothing"),
    "runs with a tag": lambda store: store.runs(20, tags=["nightly"]),
    "runs with a tag that none has": lambda store: store.runs(20, tags=["weekly"]),
    "the first page": lambda store: store.runs(20),
    "the whole of a run": lambda store: store.load(TAGGED),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_costs_the_same_in_a_history_ten_times_as_long(stores, question):
    few, many = (steps(store, QUESTIONS[question]) for store in stores)
    assert few > 0
    assert many <= few * 1.1


def test_a_tag_selects_the_runs_that_have_it(stores):
    assert [[run.run_id for run in store.runs(tags=["nightly"])] for store in stores] == [[TAGGED], [TAGGED]]
    assert stores[1].runs(tags=["nightly", "weekly"]) == []
