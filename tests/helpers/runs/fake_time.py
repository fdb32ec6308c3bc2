"""A clock of the scheduler that advances only as a test says."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.helpers.runs.recorder import Recorder, SpiedMachine

from cpugpu_tui.model import Event, Plan
from cpugpu_tui.timing import scheduler, time_shares


@dataclass
class FakeTime:
    """A clock that advances only in calls of the machine and in gaps."""

    now_s: float = 0.0


def faked(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Give the scheduler a fake clock and return it."""
    time = FakeTime()

    class Watch:
        def __init__(self) -> None:
            self.restart()

        def elapsed_s(self) -> float:
            return time.now_s - self.started_s

        def restart(self) -> None:
            self.started_s = time.now_s

    def leave_gap(duration_ms: float) -> None:
        time.now_s += duration_ms / 1000

    for module in (scheduler, time_shares):
        monkeypatch.setattr(module, "Stopwatch", Watch)
    monkeypatch.setattr(scheduler, "leave_gap", leave_gap)
    return time


class TimedMachine(SpiedMachine):
    """A machine whose half-rounds advance a fake clock, or only those of one workload."""

    def __init__(
        self, plan: Plan, recorder: Recorder, time: FakeTime, half_round_s: float, slow: str | None = None
    ) -> None:
        super().__init__(plan, recorder)
        for timer in self._timers.values():
            honest = timer.device_samples

            def samples(op: Any, count: int, honest: Any = honest) -> Any:
                time.now_s += half_round_s if slow in (None, op.case.workload) else 0.0
                return honest(op, count)

            timer.device_samples = samples  # type: ignore[method-assign]


class TimingRecorder(Recorder):
    """Records the time of each event on the fake clock."""

    def __init__(self, time: FakeTime) -> None:
        super().__init__()
        self.time = time
        self.when_s: dict[int, float] = {}

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        self.when_s[self.events[-1].seq] = self.time.now_s
