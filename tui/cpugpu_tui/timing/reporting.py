"""What a long operation says about itself while it runs, and how it learns that it is to end."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter_ns

from cpugpu_tui.model import Case, EpochFinished, Progressed
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.timers import CaseError, Stopped

TELL_EVERY_NS = 1e9
"""A long operation says how far it is once a second: writing an event costs it about 30 µs."""


class Reporter:
    """Hands on what one `Workload.written` reports; implements `workloads.Report`."""

    def __init__(self, case: Case, device: str, emit: Emit, over: Callable[[], bool]) -> None:
        """`over` tells whether the run is to end: a stop was asked for, or its time is up."""
        self._case = case
        self._device = device
        self._emit = emit
        self._over = over
        self._started_ns = self._told_ns = self.stopwatch_ns()

    def __call__(self, done: int, of: int, note: str = "") -> None:
        """Say that `done` of `of` parts are over.

        Raises:
            Stopped: the run is to end.
        """
        if self._over():
            raise Stopped
        now_ns = self.stopwatch_ns()
        if now_ns - self._told_ns < TELL_EVERY_NS:
            return
        self._told_ns = now_ns
        elapsed_s = (now_ns - self._started_ns) / 1e9
        self._emit(
            Progressed(
                case=self._case.key,
                device=self._device,
                phase="as written",
                elapsed_s=elapsed_s,
                estimate_s=elapsed_s * of / done if done else None,
                note=note,
            )
        )
        self._emit.flush()

    def epoch(
        self, epoch: int, epochs: int, loss: float, accuracy: float | None, elapsed_ns: float, steps: int
    ) -> None:
        """Hand on how an epoch went.

        Raises:
            CaseError: the training has diverged.
        """
        if not math.isfinite(loss):
            raise CaseError(
                "mismatch",
                f"The training diverged in epoch {epoch}: its loss is {loss}.",
                "Do not trust a time of this case; try another dtype.",
            )
        self._emit(
            EpochFinished(
                case=self._case.key,
                device=self._device,
                epoch=epoch,
                epochs=epochs,
                loss=loss,
                accuracy=accuracy,
                elapsed_ns=elapsed_ns,
                steps=steps,
            )
        )
        self._emit.flush()

    def stopwatch_ns(self) -> float:
        """Return the harness's monotonic clock."""
        return float(perf_counter_ns())
