"""Pictures of the history: the list, and a saved run in the panes. Look at them before you renew them."""

import time
from contextlib import closing
from dataclasses import replace

import pytest
from tests.helpers.app.fake_run import new_app, settled
from tests.helpers.app.looking import text_of
from tests.helpers.app.saved_runs import HOUR_NS, SWEEP, HistoryBackend, begin, list_runs, open_newest, stream

from cpugpu_tui.model import Simulation
from cpugpu_tui.store import Store

SIZES = pytest.mark.parametrize("size", [(40, 12), (80, 24), (120, 40)], ids="{0[0]}x{0[1]}".format)


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Runs of every kind, in a fixed time zone."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("cpugpu_tui.ui.screens.run_line.hostname", lambda: "elsewhere")
    with closing(Store.open(tmp_path / "results.db")) as store:
        for number in range(40):
            store.import_run(stream(f"id{number:02}", age_ns=(60 - number) * 24 * HOUR_NS))
        store.import_run(stream("stopped", age_ns=30 * HOUR_NS, status="stopped"))
        store.import_run(stream("failed", age_ns=26 * HOUR_NS, status="failed"))
        store.import_run(stream("made-up", replace(SWEEP, simulation=Simulation()), age_ns=25 * HOUR_NS))
        store.tag("failed", ["driver-580", "nightly"])
        store.commit_cases("live", [begin(store, stream("live", age_ns=HOUR_NS // 12))[0]])
        store.import_run(stream("newest", replace(SWEEP, name="matmul+a-long-name-of-ones-own")))
        store.tag("newest", ["base"])
        yield new_app(backend=HistoryBackend(store))
    monkeypatch.undo()
    time.tzset()


async def listed(pilot):
    """List the runs, and wait until no visible one is just `done` for want of its outcome."""
    await list_runs(pilot)
    await settled(pilot, lambda: " done " not in text_of(pilot, "#list"))


@SIZES
def test_list(snap_compare, app, size):
    assert snap_compare(app, terminal_size=size, run_before=listed)


@SIZES
def test_saved_run(snap_compare, app, size):
    assert snap_compare(app, terminal_size=size, run_before=open_newest)
