"""Measure what our sampler takes, and how much it slows a launch-bound loop: blocks with and without it in turn."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cpugpu_tui.analysis.costs import ALLOWED, CostRatio, cost_ratio
from cpugpu_tui.doctor.facts import Finding, fail, ok, sentences, unknown, warn
from cpugpu_tui.errors import CpuGpuError, UnfitError
from cpugpu_tui.machine.processes import memory_of
from cpugpu_tui.model import Simulation, TelemetryRead
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.model.quantities import megabytes
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.transport.agent_command import agent_command

INTERVAL_S = 1.0
"""The default rate of the app and of `run`."""

BLOCK_S = INTERVAL_S
"""Long enough for at least one sweep per block with telemetry. Slow readings are due every 5 s of wall time, and every
other block is without telemetry. So every third block with it has slow readings: the cost is slightly overstated."""

READY_S, ANSWER_S = 90.0, 20.0
"""Limits for the import of torch with the GPU's context, and for a block beyond its own time."""

USE_SWEEPS = 5
"""Sweeps over which the sampler's CPU time is counted: at the default rate, one of them contains the slow readings."""

_CHECK_RUN = "Run `cpugpu-tui run quick` to see why."
_MORE_TIME = "Allow more time with --max-seconds, or run `cpugpu-tui run quick` to see why."
_ENTRY = "from cpugpu_tui.agent.telemetry_cost_loop import main; main()"


class NoGpuError(UnfitError):
    """The loop cannot run, because torch cannot use a GPU here."""


class SamplerUse(NamedTuple):
    """What the sampler takes in its process."""

    cpu_share: float
    """Of one core, at the default rate."""
    memory_bytes: int
    """By how much the process grew."""


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
        self._sweeps = 0

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
            self._sweeps += 1
            self._changed.notify_all()

    def await_sweeps(self, count: int) -> int:
        """Wait until so many sweeps have ended, or for as long as they take at most; return their number."""
        with self._changed:
            self._changed.wait_for(lambda: self._sweeps >= count, 5.0 + count * INTERVAL_S)
            return self._sweeps

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

    def __init__(self, python: str | None, simulation: Simulation | None, within_s: float = READY_S) -> None:
        """Start the process and wait for its warm-up, at most `within_s`.

        Raises:
            UsageError: `python` does not exist.
            NoGpuError: torch cannot use a GPU here.
            UnfitError: the process did not start.
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
            answer = self._ask({"simulation": None if simulation is None else to_plain(simulation)}, within_s)
            if "problem" in answer:
                raise NoGpuError(*sentences(str(answer["problem"])))
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
                    raise UnfitError(f"The process on the GPU did not answer within {within_s:.0f} s.", _MORE_TIME)
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
        return [*agent[:-1], "cpugpu_tui.agent.telemetry_cost_loop"]
    # The zip replaces the current folder, where a stray torch.py would be found first.
    return [*agent[:-1], "-c", f"import sys; sys.path[0] = {agent[-1]!r}; {_ENTRY}"]


def measure_cost(
    python: str | None, simulation: Simulation | None, ends_s: float, tell: Callable[[str], None],
    told: Callable[[SamplerUse], object] = lambda _: None,
) -> MeasuredCost:  # fmt: skip
    """Run rounds until the interval is ±1 % or until `ends_s` (monotonic); `tell` gets the progress.

    `told` gets what the sampler takes, also without a GPU: it is counted while the process of the loop starts.

    Raises:
        UsageError: `python` does not exist.
        NoGpuError: torch cannot use a GPU here.
        UnfitError: the process did not start, or stopped answering.
    """
    tell("Starting the loop, and counting what telemetry takes…")
    gate = Gate()
    size_bytes = _own_size_bytes()
    sampler = Sampler(INTERVAL_S, gate.after_sweep, gate.before_sweep)
    try:
        sampler.start()
        gate.let_go()
        first, cpu_ns = gate.await_sweeps(1), _sampler_cpu_ns()  # the first one opens the session with the driver
        sampler.quiet = True  # as during a run

        def count() -> None:
            sweeps = max(1, gate.await_sweeps(first + USE_SWEEPS) - first)
            share = (_sampler_cpu_ns() - cpu_ns) / (sweeps * INTERVAL_S * 1e9)
            told(SamplerUse(share, max(0, _own_size_bytes() - size_bytes)))

        try:
            loop = LoopProcess(python, simulation, max(1.0, ends_s - time.monotonic()))
        except CpuGpuError:
            count()
            raise
        try:
            count()
            loop.block()  # warm-up
            return _rounds(loop, gate, ends_s, tell)
        finally:
            loop.close()
    finally:
        gate.let_go()
        sampler.stop()


def _own_size_bytes() -> int:
    rss_bytes, pss_bytes = memory_of(os.getpid())
    return rss_bytes if pss_bytes is None else pss_bytes


def _sampler_cpu_ns() -> int:
    """Return the CPU time of the sampler's threads so far."""
    threads = [each.ident for each in threading.enumerate() if each.name.startswith("telemetry")]
    return sum(time.clock_gettime_ns(time.pthread_getcpuclockid(ident)) for ident in threads if ident is not None)


def _rounds(loop: LoopProcess, gate: Gate, ends_s: float, tell: Callable[[str], None]) -> MeasuredCost:
    pairs: list[tuple[float, float]] = []
    ratio: CostRatio | None = None
    while time.monotonic() + 2 * BLOCK_S < ends_s and not (ratio is not None and ratio.is_settled):
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


# -------------------------------------------------------------------- findings


def telemetry_findings(
    measure: Callable[[Callable[[SamplerUse], object]], MeasuredCost], limit_s: float
) -> Iterator[Finding]:
    """Yield the findings of a measurement, or why there are none.

    `measure` calls `measure_cost`, and passes on its own argument as `told`.
    """
    uses: list[SamplerUse] = []
    try:
        cost = cost_finding(measure(uses.append), limit_s)
    except NoGpuError as error:
        cost = unknown("not measured: this needs a GPU", error.message, error.remedy)
    except CpuGpuError as error:
        cost = fail("Not measured.", error.message, error.remedy)
    for use in uses:
        memory = megabytes(use.memory_bytes)
        found = f"{use.cpu_share * 100:.2f} % of one core at its default rate, {memory} of the app's memory"
        yield ok(found, check="telemetry.usage", values=use._asdict())
    yield replace(cost, check="telemetry.cost")


def cost_finding(measured: MeasuredCost, limit_s: float) -> Finding:
    """Return the finding for a measured cost."""
    ratio, rounds = measured.ratio, f"{measured.rounds} rounds on {measured.label}"
    if ratio is None:
        return judged(rounds, ratio, limit_s)
    found = f"telemetry at its default rate adds {added_text(ratio)} to a launch with synchronise; {rounds}"
    return judged(found, ratio, limit_s, "Telemetry slows small kernels", "and try another driver version")


def judged(found: str, ratio: CostRatio | None, limit_s: float, slows: str = "", remedy: str = "") -> Finding:
    """Return the finding of a ratio, None with too few rounds; `slows` and `remedy` say what too large a ratio does."""
    more = f"Stop other programs, or allow more time: --max-seconds {max(120, 2 * limit_s):.0f}."
    if ratio is None:
        return warn(found, "An interval needs at least six rounds.", more)
    limit, values = f"{(ALLOWED - 1) * 100:.0f} %", ratio._asdict()
    if ratio.low > ALLOWED:
        less = f"Trust comparisons of small sizes less, {remedy}."
        return warn(found, f"{slows} by more than {limit}.", less, values=values)
    if ratio.is_allowed:
        return ok(found, values=values)
    cause = f"The cost may be above {limit}." if ratio.is_settled else "The interval is wider than ± 1 %."
    return warn(found, cause, more, values=values)


def added_text(ratio: CostRatio) -> str:
    """Return a cost with its interval, and whether it differs from zero: `+0.30 % (−0.20 % to +0.80 %), …`."""
    low, middle, high = (f"{(each - 1) * 100:+.2f} %" for each in (ratio.low, ratio.ratio, ratio.high))
    return f"{middle} ({low} to {high}{', within noise' if ratio.low <= 1 <= ratio.high else ''})"
