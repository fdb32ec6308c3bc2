"""Measure how much our sampler slows a launch-bound loop: blocks with and without it, in alternating order."""

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

from cpugpu_tui.analysis.costs import ALLOWED, CostRatio, cost_ratio
from cpugpu_tui.doctor.facts import Finding, ok, sentences, warn
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model import Simulation, TelemetryRead
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.transport.agent_command import agent_command

INTERVAL_S = 1.0
"""The default rate of the app and of `run`."""

BLOCK_S = INTERVAL_S
"""Long enough for at least one sweep per block with telemetry. The slow tier is due every 5 s of wall time, so every
third such block contains it instead of every fifth; the cost is slightly overstated."""

READY_S, ANSWER_S = 90.0, 20.0
"""Limits for the import of torch with the GPU's context, and for a block beyond its own time."""

_CHECK_RUN = "Run `cpugpu-tui run quick` to see why."
_ENTRY = "from cpugpu_tui.agent.kernel_launch_loop import main; main()"


@dataclass(frozen=True)
class MeasuredCost:
    """The result of all rounds."""

    label: str
    """Name of the GPU."""
    rounds: int
    ratio: CostRatio | None
    """None with fewer than six rounds."""
    pairs: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    """(without, with telemetry), ns per call."""


class Gate:
    """Pause a sampler between sweeps, without closing its session with the driver (0.1 s to open).

    A sampler calls `own_pids` before each sweep; `before_sweep` takes that place and blocks while the gate is shut.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open, self._sweeping = False, False

    def before_sweep(self) -> set[int]:
        """Wait until the gate is open (sampler's thread)."""
        with self._changed:
            self._changed.wait_for(lambda: self._open)
            self._sweeping = True
        return set()

    def after_sweep(self, _event: TelemetryRead) -> None:
        """Note that a sweep has ended (sampler's thread)."""
        with self._changed:
            self._sweeping = False
            self._changed.notify_all()

    def let_go(self) -> None:
        """Resume the sampler, which sweeps at once and then at its rate."""
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def hold(self) -> None:
        """Pause the sampler and wait for the end of the current sweep."""
        with self._changed:
            self._open = False
            self._changed.wait_for(lambda: not self._sweeping, 2.0)


class LoopProcess:
    """The child process that runs the loop."""

    def __init__(self, python: str | None, simulation: Simulation | None) -> None:
        """Start the process and wait for its warm-up.

        Raises:
            UsageError: `python` does not exist.
            UnfitError: the machine has no GPU, or the process did not start.
        """
        command, descriptors = agent_command(python)
        self._process = subprocess.Popen(
            loop_command(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            # A session of its own, as for an agent: ctrl+c ends this process, which then ends the child.
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
        """Time one block; return the mean in ns per call, because the median would hide stalls of the driver."""
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
                    raise UnfitError(f"The process on the GPU did not answer within {within_s:.0f} s.", _CHECK_RUN)
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    raise UnfitError("The process on the GPU ended.", _CHECK_RUN)
                self._buffer += chunk
        except BrokenPipeError:
            raise UnfitError("The process on the GPU ended.", _CHECK_RUN) from None
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(5.0)


def loop_command(agent: list[str]) -> list[str]:
    """Return the command of the loop, given that of an agent (ends with our module or its zip)."""
    if agent[-1] == "cpugpu_tui.agent":
        return [*agent[:-1], "cpugpu_tui.agent.kernel_launch_loop"]
    # The zip replaces the current folder, where a stray torch.py would be found first.
    return [*agent[:-1], "-c", f"import sys; sys.path[0] = {agent[-1]!r}; {_ENTRY}"]


def measure_cost(
    python: str | None, simulation: Simulation | None, max_seconds: float, tell: Callable[[str], None]
) -> MeasuredCost:
    """Run rounds until the interval is ±1 % or the time is over; `tell` gets the progress.

    Raises:
        UsageError: `python` does not exist.
        UnfitError: the machine has no GPU, or the process stopped answering.
    """
    tell("Starting the loop…")
    loop = LoopProcess(python, simulation)
    gate = Gate()
    sampler = Sampler(INTERVAL_S, gate.after_sweep, gate.before_sweep)
    try:
        sampler.start()
        gate.let_go()  # opens the session with the driver
        loop.block()  # warm-up
        sampler.quiet = True  # as during a run
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
        first_on = len(pairs) % 2 == 1  # alternate the order, so that a drift affects both alike
        times_ns: dict[bool, float] = {}
        for on in (first_on, not first_on):
            (gate.let_go if on else gate.hold)()
            times_ns[on] = loop.block()
        pairs.append((times_ns[False], times_ns[True]))
        ratio = cost_ratio(pairs)
        width = "" if ratio is None else f", ± {ratio.half_width * 100:.2f} %"
        tell(f"Round {len(pairs)}{width}, {max(0.0, ends_s - time.monotonic()):.0f} s left")
    return MeasuredCost(loop.label, len(pairs), ratio, tuple(pairs))


# -------------------------------------------------------------------- cost


def cost_finding(measured: MeasuredCost, limit_s: float) -> Finding:
    """Return the finding for a measured cost."""
    return replace(_finding(measured, limit_s), check="telemetry.cost")


def _finding(measured: MeasuredCost, limit_s: float) -> Finding:
    ratio = measured.ratio
    more = f"Allow more time: --max-seconds {max(120, 2 * limit_s):.0f}."
    if ratio is None:
        return warn(f"{measured.rounds} rounds on {measured.label}", "An interval needs at least six rounds.", more)
    found = cost_text(ratio, measured.label)
    if ratio.low > ALLOWED:
        return warn(
            found,
            f"Telemetry slows small kernels by more than {(ALLOWED - 1) * 100:.0f} %.",
            "Trust comparisons of small sizes less, and try another driver version.",
        )
    if ratio.is_allowed:
        return ok(found)
    limit = f"{(ALLOWED - 1) * 100:.0f} %"
    cause = f"The cost may be above {limit}." if ratio.is_settled else "The interval is wider than ± 1 %."
    return warn(found, cause, more)


def cost_text(ratio: CostRatio, label: str) -> str:
    """Return the ratio with its interval, and whether the cost differs from zero."""
    low, middle, high = (f"{(each - 1) * 100:+.2f} %" for each in (ratio.low, ratio.ratio, ratio.high))
    verdict = "" if ratio.is_cost else ", no cost detected"
    cost = f"telemetry at its default rate adds {middle} ({low} to {high}) to a launch with synchronise{verdict}"
    return f"{cost}; {ratio.rounds} rounds on {label}"
