"""Two sessions whose agents take turns: the order, the case that fails on one side, the side that cannot run."""

import threading
from collections.abc import Callable

import pytest

from cpugpu_tui.machine import procfs
from cpugpu_tui.model import TURN, Case, Progressed, RunFinished
from cpugpu_tui.session.duet import Duet
from cpugpu_tui.session.further_starts import START_BYTES, at_once

PATIENCE_S = 60.0
CASES = (Case("matmul", 64), Case("matmul", 128))


class ScriptedSession:
    """A session whose agent waits at these places, and notes when it works."""

    def __init__(self, name, places, log, status="done"):
        self._name, self._places, self._log, self._status = name, places, log, status
        self._go = threading.Event()
        self.stopped = threading.Event()
        self.on_turn: Callable[[Progressed], None] = lambda _turn: None

    def run(self, _deliver):
        for case, round_index in self._places:
            if self.stopped.is_set():
                return RunFinished(status="stopped", exit_code=130)
            key = CASES[case].key if case < len(CASES) else ""
            self._go.clear()
            self.on_turn(Progressed(case=key, device="", phase=TURN, round_index=round_index))
            assert self._go.wait(PATIENCE_S), "hung"
            self._log.append(f"{self._name}{case}{round_index}")
        return RunFinished(status=self._status, exit_code=0 if self._status == "done" else 4)

    def resume(self):
        self._go.set()

    def stop(self):
        self.stopped.set()
        self._go.set()

    kill = stop


def rounds_of(*cases, count=4):
    return [*((case, index) for case in cases for index in range(count + 1)), (len(CASES), 0)]


def run(*sessions, is_flipped=False):
    return Duet(sessions, CASES, is_flipped=is_flipped).run(lambda _index, _event: None)


@pytest.mark.parametrize(
    ("is_flipped", "order"),
    [
        (False, "A00 B00 A01 B01 B02 A02 A03 B03 B04 A04 A20 B20"),
        (True, "A00 B00 B01 A01 A02 B02 B03 A03 A04 B04 A20 B20"),
    ],
)
def test_agents_work_in_turn_with_the_order_flipped_each_round(is_flipped, order):
    log: list[str] = []
    run(*(ScriptedSession(name, rounds_of(0), log) for name in "AB"), is_flipped=is_flipped)
    assert log == order.split()


def test_three_agents_take_turns_too():
    log: list[str] = []
    run(*(ScriptedSession(name, rounds_of(0, count=2), log) for name in "ABC"))
    assert log == ["A00", "B00", "C00", "A01", "B01", "C01", "C02", "B02", "A02", "A20", "B20", "C20"]


def test_an_agent_waits_until_the_other_is_done_with_a_case_that_it_lost():
    log: list[str] = []
    run(ScriptedSession("A", rounds_of(1, count=2), log), ScriptedSession("B", rounds_of(0, 1, count=2), log))
    assert log == ["B00", "B01", "B02", "A10", "B10", "A11", "B11", "B12", "A12", "A20", "B20"]


def test_a_side_that_cannot_run_stops_the_other():
    log: list[str] = []
    other = ScriptedSession("B", rounds_of(0), log)
    ended = run(ScriptedSession("A", [], log, status="failed"), other)
    assert other.stopped.is_set()
    assert ended[0].status == "failed"


def test_stop_reaches_every_agent_and_is_remembered():
    sessions = [ScriptedSession(name, [], []) for name in "AB"]
    duet = Duet(sessions, CASES)  # type: ignore[arg-type]
    duet.stop()
    assert duet.stopping
    assert all(session.stopped.is_set() for session in sessions)


@pytest.mark.parametrize(("cores", "free", "pairs"), [(16, 100, 5), (16, 7, 2), (10, 100, 3), (2, 100, 1), (16, 0, 1)])
def test_so_many_pairs_of_a_duet_start_at_once(cores, free, pairs, monkeypatch):
    monkeypatch.setattr(procfs, "affinity_cores", lambda: range(cores))
    monkeypatch.setattr(procfs, "available_memory_bytes", lambda: free * START_BYTES)
    assert at_once(5, 3) == pairs
