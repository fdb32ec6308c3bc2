"""The app with a run of thousands of cases, for a pseudo-terminal: `large_app.py CASES CASES_BETWEEN_GAPS`.

Agents, store and driver are left out; the events go the way of a real run's, through the bridge and the fold.
"""

import inspect
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.helpers.app.fake_run import DEVICES, ENVIRONMENT, FakeBackend

from cpugpu_tui import model
from cpugpu_tui.transport.agent_output import decode, encode
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.live.backend import Backend
from cpugpu_tui.ui.terminal.diff_driver import DiffDriver
from cpugpu_tui.ui.terminal.guard import private_terminal

ROUNDS, BLOCKS = 8, 5
ONCE = {
    model.ENQUEUE: 0.4,
    model.SYNCHRONISE: 0.2,
    model.H2D_PAGEABLE: 0.3,
    model.D2H_PAGEABLE: 0.3,
    model.PAGEABLE: 2.0,
    model.PINNED: 1.5,
    model.DEVICE: 0.6,
}
"""What a half-round of a GPU times beside latency → share of it."""


def plan_of(cases: int) -> model.Plan:
    """A sweep over so many sizes."""
    return model.Plan("matmul", tuple(model.Case("matmul", 16 + index) for index in range(cases)), gaps=True)


def case_events(case: model.Case, random: Random) -> Iterator[model.Event]:
    """One case from its start to its end, as an agent times it."""
    yield model.CaseStarted(case=case.key, flops=2.0 * case.size**3, bytes_moved=12.0 * case.size**2)
    means = {"cpu": 1_000 + 0.04 * case.size**2, "cuda:0": 20_000 + 0.001 * case.size**2}
    for device, ns in means.items():
        yield model.Calibrated(
            case=case.key, device=device, estimate_ns=ns, calls_per_block=40, blocks=BLOCKS, rounds=ROUNDS, threads=16
        )
    for index in range(1, ROUNDS + 1):
        for device, ns in means.items():
            samples = {model.LATENCY: tuple(ns * random.gauss(1, 0.01) for _ in range(BLOCKS))}
            if device != "cpu":
                samples |= {name: (ns * share * random.gauss(1, 0.01),) for name, share in ONCE.items()}
            yield model.DeviceSampled(
                case=case.key, device=device, round_index=index, calls_per_block=40, samples=samples,
                marks=("starved",) if random.random() < 0.01 else (),
            )  # fmt: skip
    yield model.CaseFinished(case=case.key, check=model.Check("float64 on the CPU", 3e-7, 1e-3))


class LargeSession:
    """Delivers the whole run as fast as it is shown: a real one takes hours, and nothing piles up."""

    series_id, notice = "series", None

    def __init__(self, plan: model.Plan, together: int) -> None:
        self._plan, self._together = plan, together
        self.shown = threading.Semaphore(0)

    def run(self, deliver: Callable[[model.Event], None]) -> model.RunFinished:
        random = Random(1)
        deliver(model.RunStarted(run_id="large", series_id="series", plan=self._plan, environment=dict(ENVIRONMENT)))
        deliver(model.DevicesFound(devices=DEVICES))
        for number, case in enumerate(self._plan.cases, 1):
            for event in case_events(case, random):
                # Numbers that came over a wire are objects of their own each, which is what memory is about.
                received = decode(encode(event))
                deliver(received)
            if number % self._together == 0:
                deliver(model.Progressed(case=case.key, device="", phase="gap"))
                deliver(model.Gap(duration_ms=50.0))
                self.shown.acquire(timeout=120.0)
        end = model.RunFinished(status="done")
        deliver(end)
        return end

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class LargeBackend(FakeBackend):
    """Has one session, whatever is asked for."""

    def __init__(self, cases: int, together: int) -> None:
        super().__init__()
        self.large = LargeSession(plan_of(cases), together)

    def session(self, plan: model.Plan, series_id: str | None, case_timeout_s: float | None) -> LargeSession:  # type: ignore[override]
        del plan, series_id, case_timeout_s
        return self.large


class LargeApp(CpuGpuApp):
    """Says when it has shown what came in a gap."""

    CSS_PATH = Path(inspect.getfile(CpuGpuApp)).with_name("app.tcss")
    backend: Backend

    def change(self, **changes: Any) -> None:
        super().change(**changes)
        if "run" in changes and isinstance(self.backend, LargeBackend):
            self.backend.large.shown.release()


def large_app(cases: int, together: int, **options: Any) -> LargeApp:
    """An app whose next run has so many cases."""
    backend = LargeBackend(cases, together)
    app = LargeApp(AppOptions(), backend=backend, **options)
    app.backend = backend
    return app


if __name__ == "__main__":
    with private_terminal(Path(tempfile.mkdtemp()) / "log.txt"):
        large_app(int(sys.argv[1]), int(sys.argv[2]), driver_class=DiffDriver).run(mouse=False)
