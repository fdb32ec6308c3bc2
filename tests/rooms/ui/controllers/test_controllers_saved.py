"""Saved runs, exports and comparisons, without the app."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.app.fake_port import FakeBridge, FakePort
from tests.helpers.app.saved_runs import HOUR_NS, NOW_NS, begin, stream

from cpugpu_tui.model import RunFinished
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.state.folding import folded
from cpugpu_tui.store import RunSummary, Store
from cpugpu_tui.ui.controllers.comparing import Comparing, Repeating
from cpugpu_tui.ui.controllers.exporting import Exporting
from cpugpu_tui.ui.controllers.history import History
from cpugpu_tui.ui.controllers.live import Live
from cpugpu_tui.ui.controllers.own_code import Consent
from cpugpu_tui.ui.controllers.running import Running
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.live.messages import SavedRunChosen, SeriesEnded
from cpugpu_tui.ui.live.saved_runs import BASELINE, QuietReader, SavedRuns
from cpugpu_tui.ui.screens.claims import ClaimsScreen
from cpugpu_tui.ui.screens.compare import CompareScreen
from cpugpu_tui.ui.screens.history import HistoryScreen


class Shelf:
    """A store with two runs of one plan, the bridge to it, and a port."""

    def __init__(self, **state: Any) -> None:
        self.store = Store.in_memory()
        for run_id, hours in (("old", 5), ("new", 3)):
            self.store.import_run(stream(run_id, age_ns=hours * HOUR_NS))
        self.port = FakePort(request=PlanRequest(("matmul",)), **state)
        self.bridge = FakeBridge(SavedRuns(self.store, now_ns=lambda: NOW_NS))
        self.reader = QuietReader(self.bridge.between_runs)
        self.history = History(self.port, self.bridge.history)

    @property
    def newest(self) -> RunSummary:
        return self.store.runs(1)[0]

    def shown(self) -> str:
        started = self.port.state.run.run
        return started.run_id if started is not None else ""


# ------------------------------------------------------------------ history


def test_the_list_opens_and_closes_with_the_same_key() -> None:
    shelf = Shelf()
    shelf.history.toggle()
    assert isinstance(shelf.port.screen, HistoryScreen)
    shelf.history.toggle()
    assert shelf.port.screen is shelf.port.main


def test_a_saved_run_is_shown_and_the_present_comes_back() -> None:
    shelf = Shelf()
    shelf.history.toggle()
    shelf.history.show(shelf.newest)
    past = shelf.port.state.past
    assert (shelf.shown(), past.age, past.is_live) == ("new", "3 h ago", False)
    assert shelf.port.screen is shelf.port.main
    assert shelf.port.state.situation.past
    shelf.history.toggle()
    assert (shelf.shown(), shelf.port.state.past) == ("", None)
    assert shelf.port.timers[0][2].stopped


def test_what_was_read_is_not_shown_once_a_run_has_begun() -> None:
    shelf = Shelf(situation=Situation(live=True))
    shelf.history.show(shelf.newest)
    assert shelf.port.state.past is None


def test_a_run_that_is_gone_is_said() -> None:
    shelf = Shelf()
    gone = shelf.newest
    shelf.store.delete(gone.run_id)
    shelf.history.show(gone)
    assert shelf.port.state.past is None
    assert shelf.port.state.problem is not None


def test_a_run_of_another_terminal_is_followed() -> None:
    shelf = Shelf()
    cases = begin(shelf.store, stream("live", age_ns=HOUR_NS))
    shelf.history.show(shelf.newest)
    assert shelf.port.state.run.settled == 0
    shelf.store.commit_cases("live", [cases[0]])
    follow = shelf.port.timers[0][1]
    follow()
    assert shelf.port.state.run.settled == 1


def test_a_saved_run_is_run_again_with_its_plan() -> None:
    shelf = Shelf()
    repeating = Repeating(shelf.port, shelf.reader)
    live = Live(shelf.port, shelf.bridge, None, repeating.compared)
    running = Running(shelf.port, shelf.bridge, live, shelf.history, repeating, Consent(shelf.port))
    running.choose_saved(SavedRunChosen(shelf.newest, again=True))
    shelf.port.threads[-1][1]()
    name, plan, *_ = shelf.bridge.asked[-1]
    assert (name, [case.size for case in plan.cases]) == ("run_series", [64, 256, 1024])
    assert shelf.port.state.again == plan
    shelf.port.situate(live=False)
    running.choose_saved(SavedRunChosen(shelf.newest, again=False))
    assert shelf.shown() == "new"


# ------------------------------------------------------------------ exports


class Copied(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.exporting = Exporting(self.port, self.bridge.history, self.texts.append)
        self.port.change(run=folded(stream("new")))


def test_a_row_and_the_command_are_copied() -> None:
    copied = Copied()
    copied.exporting.copy_row()
    assert copied.texts == []
    copied.port.change(cursor=next(iter(copied.port.state.run.rows)))
    copied.exporting.copy_row()
    copied.exporting.copy_command()
    table, command = copied.texts
    assert table.startswith("|")
    assert command.startswith("cpugpu-tui run matmul")
    assert len(copied.port.said) == 3


def test_a_run_is_written_and_a_folder_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    copied = Copied()
    copied.exporting.ask()
    write = copied.port.callbacks[-1]
    assert write is not None
    write(tmp_path / "run.json")
    assert (tmp_path / "run.json").read_text().startswith("{")
    assert str(tmp_path / "run.json") in copied.port.said[-1]
    write(tmp_path / "none" / "run.json")
    assert copied.port.state.problem is not None


# ------------------------------------------------------------------ comparisons


def comparing(shelf: Shelf) -> Comparing:
    return Comparing(shelf.port, shelf.bridge, shelf.reader)


def test_pages_of_comparisons_open_and_close() -> None:
    shelf = Shelf()
    compare = comparing(shelf)
    for toggle, kind in ((compare.toggle, CompareScreen), (compare.toggle_claims, ClaimsScreen)):
        toggle()
        assert isinstance(shelf.port.screen, kind)
        toggle()
        assert shelf.port.screen is shelf.port.main


def test_the_run_on_the_screen_becomes_the_baseline_and_the_next_is_compared_with_it() -> None:
    shelf = Shelf()
    shelf.port.change(run=folded(stream("old")))
    comparing(shelf).name_baseline(BASELINE)
    assert shelf.store.baseline(BASELINE) == "of-old"
    assert shelf.port.state.baseline[0] == "of-old"
    shelf.port.change(run=folded(stream("new")))
    comparing(shelf).compare_with_baseline(SeriesEnded())
    series, text = shelf.port.state.baseline
    assert series == "of-new"
    assert BASELINE in text


@pytest.mark.parametrize("state", [{"quitting": True}, {}])
def test_without_a_run_nothing_is_compared(state: dict[str, Any]) -> None:
    shelf = Shelf(**state)
    if state:
        shelf.port.change(run=folded([*stream("new")[:-1], replace(RunFinished(status="stopped"), seq=99)]))
    comparing(shelf).compare_with_baseline(SeriesEnded())
    assert shelf.port.state.baseline == ("", "")
    assert shelf.port.threads == []
