"""Measures what our own sampler costs a launch-bound loop: blocks without and with it, alternated in short rounds."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from cpugpu_tui.analysis.cost_ratio import ALLOWED, CostRatio, cost_ratio
from cpugpu_tui.doctor.finding import Finding, ok, sentences, warn
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model import Simulation, TelemetryRead
from cpugpu_tui.model.plain_data import to_plain
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.transport.agent_command import agent_command

INTERVAL_S = 1.0
"""The default rate of the app and of `run`."""

BLOCK_S = INTERVAL_S
"""One sweep at least falls into each block with telemetry. The slow tier is due every 5 s of the clock on the wall, so
it is in every third of these blocks, not in every fifth: the cost is rather overstated."""

READY_S, ANSWER_S = 90.0, 20.0
"""Patience with torch's import and the GPU's context, and with a block beyond its own time."""

_ENTRY = "from cpugpu_tui.agent.kernel_launch_loop import main; main()"


@dataclass(frozen=True)
class MeasuredCost:
    """What the rounds gave."""

    label: str
    """The GPU."""
    rounds: int
    ratio: CostRatio | None
    """None for fewer than five rounds."""
    pairs: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    """(off, on), ns a call."""


class Gate:
    """Holds a sampler still between sweeps, without ending its session with the driver (which takes 0.1 s to open).

    A sampler asks before each sweep which processes are ours: here it has to wait for the answer.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open, self._sweeping = False, False

    def before_sweep(self) -> set[int]:
        """Wait until the gate is open. On the sampler's thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._open)
            self._sweeping = True
        return set()

    def after_sweep(self, _event: TelemetryRead) -> None:
        """Take note that a sweep is over. On the sampler's thread."""
        with self._changed:
            self._sweeping = False
            self._changed.notify_all()

    def let_go(self) -> None:
        """Let the sampler go on: it sweeps at once, and then at its rate."""
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def hold(self) -> None:
        """Hold the sampler, and wait until the sweep under way is over."""
        with self._changed:
            self._open = False
            self._changed.wait_for(lambda: not self._sweeping, 2.0)


class LoopProcess:
    """The process with the loop."""

    def __init__(self, python: str | None, simulation: Simulation | None) -> None:
        """Start it and wait until it is warm.

        Raises:
            UsageError: there is no such interpreter.
            UnfitError: there is no GPU, or the process did not come up.
        """
        command, descriptors = agent_command(python)
        self._process = subprocess.Popen(
            loop_command(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            # Of its own session, as an agent: ctrl+c ends us, and we end it.
            start_new_session=True, pass_fds=descriptors, bufsize=0,
        )  # fmt: skip
        for descriptor in descriptors:
            os.close(descriptor)
        self._buffer = b""
        try:
            answer = self._ask({"simulation": None if simulation is None else to_plain(simulation)}, READY_S)
            if "problem" in answer:
                raise UnfitError(*sentences(str(answer["problem"])))
        except BaseException:
            self.close()
            raise
        self.label = str(answer["label"])

    def block(self) -> float:
        """Time one block; return ns a call. The mean, not the median: a stall of the driver is a cost."""
        answer = self._ask({"seconds": BLOCK_S}, BLOCK_S + ANSWER_S)
        return float(answer["elapsed_ns"]) / int(answer["calls"])

    def _ask(self, question: dict[str, Any], within_s: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        ends_s = time.monotonic() + within_s
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            while b"\n" not in self._buffer:
                ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, ends_s - time.monotonic()))
                if not ready:
                    raise UnfitError(f"The process with the GPU has not answered for {within_s:.0f} s.")
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    raise UnfitError("The process with the GPU ended.", "See what `cpugpu-tui run quick` says.")
                self._buffer += chunk
        except BrokenPipeError:
            raise UnfitError("The process with the GPU ended.", "See what `cpugpu-tui run quick` says.") from None
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(5.0)


def loop_command(agent: list[str]) -> list[str]:
    """Return the loop's command for that of an agent, whose last word is our module or the zip that holds it."""
    if agent[-1] == "cpugpu_tui.agent":
        return [*agent[:-1], "cpugpu_tui.agent.kernel_launch_loop"]
    # In place of the current folder, where a stray torch.py would be found first.
    return [*agent[:-1], "-c", f"import sys; sys.path[0] = {agent[-1]!r}; {_ENTRY}"]


def measure_cost(
    python: str | None, simulation: Simulation | None, max_seconds: float, tell: Callable[[str], None]
) -> MeasuredCost:
    """Take rounds until the interval is ±1 % or the time is over; `tell` is told how far it is.

    Raises:
        UsageError: there is no such interpreter.
        UnfitError: there is no GPU, or it stopped answering.
    """
    tell("Starting the loop…")
    loop = LoopProcess(python, simulation)
    gate = Gate()
    sampler = Sampler(INTERVAL_S, gate.after_sweep, gate.before_sweep)
    try:
        sampler.start()
        gate.let_go()  # opens the session with the driver
        loop.block()  # thrown away
        sampler.quiet = True  # as while a run is live
        return _rounds(loop, gate, max_seconds, tell)
    finally:
        loop.close()
        gate.let_go()
        sampler.stop()


def _rounds(loop: LoopProcess, gate: Gate, max_seconds: float, tell: Callable[[str], None]) -> MeasuredCost:
    ends_s = time.monotonic() + max_seconds
    pairs: list[tuple[float, float]] = []
    ratio: CostRatio | None = None
    while time.monotonic() < ends_s and not (ratio is not None and ratio.is_settled):
        first_on = len(pairs) % 2 == 1  # the order is flipped each round: a drift hits both alike
        times_ns = {on: _timed(loop, gate, on=on) for on in (first_on, not first_on)}
        pairs.append((times_ns[False], times_ns[True]))
        ratio = cost_ratio(pairs)
        width = "" if ratio is None else f", ±{ratio.half_width:.2%}"
        tell(f"Round {len(pairs)}{width}, {max(0.0, ends_s - time.monotonic()):.0f} s left")
    return MeasuredCost(loop.label, len(pairs), ratio, tuple(pairs))


def _timed(loop: LoopProcess, gate: Gate, *, on: bool) -> float:
    if on:
        gate.let_go()
    else:
        gate.hold()
    return loop.block()


# -------------------------------------------------------------------- cost


def cost_finding(measured: MeasuredCost, limit_s: float) -> Finding:
    """Return the line for a measured cost."""
    return replace(_finding(measured, limit_s), check="telemetry.cost")


def _finding(measured: MeasuredCost, limit_s: float) -> Finding:
    ratio = measured.ratio
    more = f"Give it more time: --max-seconds {max(120, 2 * limit_s):.0f}."
    if ratio is None:
        return warn(f"{measured.rounds} rounds on {measured.label}", "Five are needed for an interval.", more)
    found = cost_text(ratio, measured.label)
    if ratio.low > ALLOWED:
        return warn(
            found,
            f"Watching costs more than {ALLOWED - 1:.0%} of small kernels' time here.",
            "Ask the driver's supplier; until then trust comparisons of small sizes less.",
        )
    if ratio.is_allowed:
        return ok(found)
    cause = "The interval is wider than ±1 %." if not ratio.is_settled else f"It may be above {ALLOWED - 1:.0%}."
    return warn(found, cause, more)


def cost_text(ratio: CostRatio, label: str) -> str:
    """Return the ratio with its interval, and whether a cost can be told from none."""
    interval = f"{ratio.ratio - 1:+.2%} [{ratio.low - 1:+.2%}, {ratio.high - 1:+.2%}]"
    verdict = "" if ratio.is_cost else ", no cost can be told from none"
    what = f"telemetry at its default rate: {interval} of a launch and synchronise{verdict}"
    return f"{what}; {ratio.rounds} rounds on {label}"
