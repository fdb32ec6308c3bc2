"""Run a process from start to exit and time it from outside."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from time import monotonic, perf_counter_ns, sleep, time_ns
from typing import Any, NamedTuple

from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.machine.processes import MARK, exit_descriptor, kill_marked, marked, memory_bytes
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Case, CodeTraced, CommandUse, Device, OwnCode, Reading
from cpugpu_tui.timing.timers import CaseError, DeviceSamples, FirstCall, HostTimer, Readiness, Stopped
from cpugpu_tui.workloads.own_code import startup_words, words_for

LOOK_MS = 20
"""Interval of looks at a process while it runs. They do not delay the notice of its end."""

TAIL_BYTES = 8192
"""How much of the end of a process's stderr is read for its last line."""

_READ, _WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_RESET = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class Ended(NamedTuple):
    """How a process ended."""

    elapsed_ns: int
    """From before it was started until it had exited."""
    exit_code: int
    """Negative: the number of the signal that killed it."""

    @property
    def manner(self) -> str:
        """Return how it ended, as the end of a sentence."""
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        return f"was killed by {signal.Signals(-self.exit_code).name}"


def run_process(
    words: list[str], environment: Mapping[str, str], output: str, look: Callable[[int], bool]
) -> Ended | None:
    """Run a program, with stdout in `output`.out and stderr in `output`.err; None if it was abandoned and still runs.

    It stays in this process's group, so that what kills this process also kills it. `look(pid)` is called every
    `LOOK_MS`, and returns True to abandon it.

    Raises:
        OSError: the program cannot be started.
    """
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, _READ, 0),
        (os.POSIX_SPAWN_OPEN, 1, f"{output}.out", _WRITE, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, f"{output}.err", _WRITE, 0o600),
    ]
    started_ns = time.perf_counter_ns()
    pid = os.posix_spawnp(words[0], words, environment, file_actions=files, setsigdef=_RESET)
    exited = exit_descriptor(pid)
    try:
        while not _has_ended(pid, exited):
            if look(pid):
                return None
        elapsed_ns = time.perf_counter_ns() - started_ns
    finally:
        if exited is not None:
            os.close(exited)
    _, status = os.waitpid(pid, 0)
    return Ended(elapsed_ns, os.waitstatus_to_exitcode(status))


def _has_ended(pid: int, exited: int | None) -> bool:
    """Wait up to `LOOK_MS`, and return whether the process has ended; it is not reaped."""
    if exited is not None:
        ends = select.poll()
        ends.register(exited, select.POLLIN)
        return bool(ends.poll(LOOK_MS))
    until_s = time.monotonic() + LOOK_MS / 1e3
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until_s:
            return False
        time.sleep(0.0005)
    return True


def last_line(path: str) -> str:
    """Return the last line with text of a file, at most 200 characters; empty without one."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return printable(next((line.strip() for line in reversed(lines) if line.strip()), ""), 200)


STARTUPS = 3
"""Timed runs of the start-up command on each device, after one that is not counted."""

STARTUP_EXCESS = 1.2
"""The usual start-up command is not that of a command which takes less than its time by this factor."""

GRACE_S = 1.0
"""How long helpers of a command may take to notice its end, such as the resource tracker of multiprocessing."""

_DEVICE = "{device}"


@dataclass
class CommandOperation:
    """A command at one size on one device."""

    case: Case
    code: OwnCode
    words: list[str]
    environment: dict[str, str]
    output: str
    """Path of its output, without suffix."""
    traced: CodeTraced | None = None
    """What its first run did."""


@dataclass
class Seen:
    """What was seen of the processes of one run."""

    processes: int = 0
    host_bytes: int = 0
    gpus: dict[str, dict[int, int]] = field(default_factory=dict)
    """GPU → driver's process id → most memory, bytes."""
    utilisation_pct: float | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    """GPU → why it is unknown whether the command used it."""


class CommandTimer(HostTimer):
    """Runs commands for one device, on the clock of this process."""

    def __init__(
        self, device: Device, codes: Mapping[str, OwnCode], folder: str, probes: Mapping[str, GpuProbe],
        threads: int, should_stop: Callable[[], bool], announce: Callable[[Case, str, str], None],
    ) -> None:  # fmt: skip
        """`announce(case, device, phase)` tells that a step takes place, so that it is not taken for a hang."""
        self.device = device
        self._codes = codes
        self._folder = folder
        self._probes = probes
        self._all_threads = self._threads = threads
        self._should_stop = should_stop
        self._announce = announce
        self._startup_ns: dict[tuple[str, ...], float] = {}

    def load(self, case: Case, inputs: Any) -> CommandOperation:
        """Return the command with its words and environment for this device."""
        code = self._codes[case.workload]
        place = self.device.name
        self._threads = case.threads or self._all_threads
        file = re.sub(r"[^\w.,-]", "_", f"{case.workload}-{case.size}-{place}")
        environment = environment_for(code, place, case.threads)
        return CommandOperation(
            case, code, words_for(code, case.size, place), environment, os.path.join(self._folder, file)
        )

    def first_call(self, op: CommandOperation) -> FirstCall:
        """Run the command once outside the clock of its row, look at its processes, and time its start-up."""
        before = {name: probe.pids() for name, probe in self._probes.items()}
        seen, strangers, began_us = Seen(), set[int](), time_ns() // 1000

        def look(pid: int) -> None:
            self._look(seen, [pid, *marked(os.getpid(), strangers)], before, began_us)

        ended = self._run(op, op.words, look)
        op.traced = self._traced(op, seen, self._startup(op, ended.elapsed_ns))
        return FirstCall(float(ended.elapsed_ns), {}, None)

    def _look(self, seen: Seen, pids: list[int], before: Mapping[str, frozenset[int]], began_us: int) -> None:
        pids = list(dict.fromkeys(pids))
        seen.processes = max(seen.processes, len(pids))
        seen.host_bytes = max(seen.host_bytes, memory_bytes(pids))
        for name, probe in self._probes.items():
            held = probe.held_by(pids, before[name])
            if isinstance(held, Reading):
                seen.reasons[name] = held.reason or "unknown"
                continue
            known = seen.gpus.setdefault(name, {})
            for pid, held_bytes in held.items():
                known[pid] = max(known.get(pid, 0), held_bytes or 0)
            if held and name == self.device.name:
                used = probe.utilisation_pct(known, began_us)
                seen.utilisation_pct = max(filter(None, (used, seen.utilisation_pct)), default=used)

    def _traced(self, op: CommandOperation, seen: Seen, startup_ns: float | None) -> CodeTraced:
        """Return the receipt.

        Raises:
            CaseError: `refused`: it ran on another device than this one.
        """
        name, is_cpu = self.device.name, self.device.is_cpu
        used = {gpu: held for gpu, held in seen.gpus.items() if held}
        if is_cpu and used:
            raise CaseError("refused", f"The run for the CPU had a context on {next(iter(used))}.",
                            "Let the command obey {device}, or remove it: this run then sees no GPU.")  # fmt: skip
        if not is_cpu and name not in used and name not in seen.reasons:
            raise CaseError("refused", "Never used the GPU: no process of the command had a context there.",
                            "Let the command use CUDA, or pass it {device}.")  # fmt: skip
        return CodeTraced(
            case=op.case.key, device=name, operators=0,
            peak_bytes=sum(used[name].values()) or None if name in used else None,
            peak_host_bytes=seen.host_bytes or None,
            used=CommandUse(
                processes=max(1, seen.processes), startup_ns=startup_ns, utilisation_pct=seen.utilisation_pct,
                hides_gpus=is_cpu and op.environment.get("CUDA_VISIBLE_DEVICES") == "",
                gpu_reason=None if is_cpu else seen.reasons.get(name),
            ),
        )  # fmt: skip

    def _startup(self, op: CommandOperation, elapsed_ns: float) -> float | None:
        """Return the median time of the start-up command, timed once on this device; None without one.

        The usual one imports torch. It may fail, or take longer than a command that does not.
        """
        words, is_named = startup_words(op.code, self.device.name), bool(op.code.startup)
        longest_ns = float("inf") if is_named else STARTUP_EXCESS * elapsed_ns
        if not words or self._startup_ns.get(tuple(words), 0.0) > longest_ns:
            return None
        if tuple(words) not in self._startup_ns:
            times_ns: list[float] = []
            for _ in range(1 + STARTUPS):
                self._announce(op.case, self.device.name, "start-up")
                try:
                    times_ns.append(self._run(op, words, output=f"{op.output}-startup").elapsed_ns)
                except CaseError:
                    if is_named:
                        raise
                    return None
                if times_ns[-1] > longest_ns:
                    return None
            self._startup_ns[tuple(words)] = median(times_ns[1:])
        return self._startup_ns[tuple(words)]

    def _run(
        self, op: CommandOperation, words: list[str], look: Callable[[int], None] | None = None, output: str = ""
    ) -> Ended:
        """Run a process to its exit.

        Raises:
            CaseError: it cannot be started, fails, or leaves processes behind.
            Stopped: the run must end; its processes were killed.
        """

        def should_abandon(pid: int) -> bool:
            if look is not None:
                look(pid)
            return self._should_stop()

        output = output or op.output
        try:
            ended = run_process(words, op.environment, output, should_abandon)
        except OSError as error:
            raise CaseError("error", f"Cannot run {words[0]!r}: {error.strerror}.", "Give its path.") from None
        until_s = monotonic() + (GRACE_S if ended is not None else 0.0)
        while marked(os.getpid()) and monotonic() < until_s and not self._should_stop():
            sleep(LOOK_MS / 1e3)
        left = kill_marked(os.getpid())
        if ended is None:
            raise Stopped
        if ended.exit_code:
            said = last_line(f"{output}.err").rstrip(".")
            what = "command" if words == op.words else "start-up command"
            raise CaseError("error", f"The {what} {ended.manner}{said and f': {said}'}. "
                            f"Its output is in {self._folder}.", f"See {output}.err and .out.")  # fmt: skip
        if left:
            raise CaseError("refused", f"The command leaves a process at work ({left[0]}), which no clock waits for.",
                            "Let the command wait for its processes.")  # fmt: skip
        return ended

    def ready(self, op: CommandOperation, calls: int) -> Readiness:
        """Do nothing: every process starts afresh."""
        return Readiness()

    def latency_block(self, op: CommandOperation, calls: int) -> float:
        """Return the mean wall time of processes from start to exit, ns."""
        return fmean(self._run(op, op.words).elapsed_ns for _ in range(calls))

    def singles(self, op: CommandOperation, count: int) -> dict[str, tuple[float, ...]]:
        """Return nothing: a block has one process."""
        return {}

    def device_samples(self, op: CommandOperation, count: int) -> DeviceSamples:
        """Return nothing: kernels of other processes cannot be timed."""
        return DeviceSamples(())

    def threads(self) -> int:
        """Return the number of threads that the command of the last case was told to use, or that of all cores."""
        return self._threads

    def on_one_thread(self, op: CommandOperation) -> None:
        """Return None: the command chooses its threads."""

    def clock_ns(self) -> float:
        """Return the clock of these times, ns."""
        return float(perf_counter_ns())


def environment_for(code: OwnCode, device: str, threads: int) -> dict[str, str]:
    """Return the environment of a command. Without `{device}` in its words, it sees this GPU alone, or none."""
    found = {**os.environ, MARK: str(os.getpid())}
    if threads:
        found |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    if any(_DEVICE in word for word in code.argv):
        return found
    if device == "cpu":
        return {**found, "CUDA_VISIBLE_DEVICES": ""}
    visible = [each.strip() for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
    index = int(device.partition(":")[2])
    return {**found, "CUDA_VISIBLE_DEVICES": visible[index] if index < len(visible) else str(index)}
