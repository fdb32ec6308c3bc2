"""Measure what the app takes while it times: memory, CPU, bytes to the terminal, and its effect on the timed calls.

The app runs as a child on a pseudo-terminal of this process, with a plan of `matmul` and a history of its own. In every
other second it is suspended, with its screen and its telemetry, while its agent goes on timing. Suspended seconds are
compared with their two neighbours, so that a drift affects both sides alike.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cpugpu_tui.analysis.costs import CostRatio, cost_ratio
from cpugpu_tui.decide.stats import median
from cpugpu_tui.doctor.facts import Finding, fail, ok, unknown, worst
from cpugpu_tui.doctor.sampler_cost import added_text, judged
from cpugpu_tui.errors import CpuGpuError, UnfitError
from cpugpu_tui.machine.processes import memory_of, visible_pids
from cpugpu_tui.machine.procfs import read_process
from cpugpu_tui.model import LATENCY, DeviceSampled, Event, Simulation
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.model.quantities import count_of, megabytes, percent
from cpugpu_tui.store import open_read_only

ROWS, COLUMNS = 40, 120
"""Size of the pseudo-terminal: every pane has room."""

WARM_S, LIVE_S = 1.0, 3.0
"""Time of the run until it has warmed up, and time in which its processes and its output are counted."""

WINDOW_S, SETTLE_S = 1.0, 0.15
"""Length of a window, which contains a repaint and a sweep of telemetry; and its start that is left out: a resumed app
first reads what its agent has written meanwhile."""

LEAVE_S = 5.0
"""How long the app may take to save its run and to end its agent."""

NAMES = ("app.usage", "agent.usage", "terminal.bytes", "app.cost")
_ENTRY = "from cpugpu_tui.cli.open_app import open_measured; open_measured()"
_SEE_APP = "Run `cpugpu-tui` and press r to see why."


class Taken(NamedTuple):
    """What some processes take."""

    processes: int
    rss_bytes: int
    pss_bytes: int | None
    """Shared pages divided among their processes; None where the kernel does not tell."""
    cpu: float
    """Share of one core."""

    def finding(self, context: str) -> Finding:
        """Return it as a finding; `context` says when."""
        pss = f"{megabytes(self.pss_bytes)} PSS, " if self.pss_bytes is not None else ""
        found = f"{megabytes(self.rss_bytes)} RSS, {pss}{percent(self.cpu)} % of one core {context}"
        values = {"rss_bytes": self.rss_bytes, "pss_bytes": self.pss_bytes, "cpu_share": round(self.cpu, 5)}
        return ok(found, values=values)


class AppUse(NamedTuple):
    """Everything measured of the app."""

    app: Taken
    agent: Taken
    bytes_per_s: float
    ratios: dict[str, CostRatio | None] | None
    """Device → time of a call with the app over its time without, None with too few windows. None if simulated."""


class Window(NamedTuple):
    """A part of the run with or without the app, in ns of the monotonic clock."""

    is_on: bool
    start_ns: int
    end_ns: int


class AppOnTerminal:
    """The app as a child that owns a pseudo-terminal."""

    def __init__(self, options: dict[str, object]) -> None:
        """Start it.

        Raises:
            UnfitError: the system has no pseudo-terminal left.
        """
        try:
            self._master, terminal = os.openpty()
        except OSError as error:
            remedy = "Close other terminals, or raise /proc/sys/kernel/pty/max. A container needs /dev/pts."
            raise UnfitError(f"Cannot open a pseudo-terminal: {error.strerror}.", remedy) from None
        termios.tcsetwinsize(terminal, (ROWS, COLUMNS))
        kept = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _ENTRY, json.dumps(options)], stdin=terminal, stdout=terminal,
                stderr=terminal, start_new_session=True, env={**kept, "TERM": "xterm-256color"},
            )  # fmt: skip
        except OSError:
            os.close(self._master)
            raise
        finally:
            os.close(terminal)
        self.pid, self.bytes_read = self._process.pid, 0

    def read_until(self, ends_s: float, is_done: Callable[[], bool] = lambda: False) -> None:
        """Read its output until `is_done`, asked every half second, or until the time is over.

        Raises:
            UnfitError: the app ended.
        """
        while (left_s := ends_s - time.monotonic()) > 0 and not is_done():
            step_s = time.monotonic() + min(0.5, left_s)
            while (wait_s := step_s - time.monotonic()) > 0:
                if not self._read(wait_s):
                    with suppress(subprocess.TimeoutExpired):
                        self._process.wait(LEAVE_S)
                    raise UnfitError(f"The app ended with exit code {self._process.returncode}.", _SEE_APP)

    def _read(self, wait_s: float) -> bool:
        """Read once; return False if nothing will come any more."""
        if select.select([self._master], [], [], wait_s)[0]:
            try:
                self.bytes_read += len(os.read(self._master, 65536))
            except OSError:  # EIO: nobody has the terminal open
                return False
        return True

    def press(self, key: str) -> None:
        """Type a key."""
        with suppress(OSError):  # the next read reports that the app has ended
            os.write(self._master, key.encode())

    def suspend(self, wanted: bool) -> None:
        """Suspend or resume the app. Its agent has a session of its own, and goes on."""
        self._process.send_signal(signal.SIGSTOP if wanted else signal.SIGCONT)

    def close(self) -> None:
        """End the app and its agent. It saves its run first, unless that takes too long."""
        self.suspend(False)
        self._process.terminate()
        ends_s = time.monotonic() + LEAVE_S
        while self._process.poll() is None and time.monotonic() < ends_s and self._read(0.1):
            pass
        os.close(self._master)
        try:
            self._process.wait(max(0.1, ends_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()  # the agent's guardian then ends the agent
            self._process.wait()


def measure_app(
    python: str | None, simulation: Simulation | None, ends_s: float, tell: Callable[[str], None]
) -> AppUse:
    """Run the app until `ends_s` (monotonic); `tell` gets the progress.

    Raises:
        UnfitError: there is no pseudo-terminal or no folder for its history, or the run did not start in time.
    """
    try:
        with TemporaryDirectory(prefix="cpugpu-tui-cost-", ignore_cleanup_errors=True) as folder:
            return _measured(Path(folder), python, simulation, ends_s, tell)
    except OSError as error:
        remedy = "Free space in the temporary folder (TMPDIR), or raise the limit on processes (ulimit -u)."
        raise UnfitError(f"Cannot start the app: {error.strerror}.", remedy) from None


def _measured(
    folder: Path, python: str | None, simulation: Simulation | None, ends_s: float, tell: Callable[[str], None]
) -> AppUse:
    made_up = None if simulation is None else to_plain(replace(simulation, pace=simulation.pace or 1.0))
    began_s = time.monotonic()
    tell("Starting the app…")
    app = AppOnTerminal({"folder": str(folder), "python": python, "simulation": made_up, "seconds": ends_s - began_s})
    try:

        def is_live() -> bool:
            if app.bytes_read:
                app.press("r")  # again and again: it is refused once the run is live
            return bool(saved_events(folder))

        app.read_until(ends_s - LIVE_S, is_live)
        if not saved_events(folder):
            raise UnfitError(
                f"The app saved no start of a run within {time.monotonic() - began_s:.0f} s.",
                "Allow more time with --max-seconds, and look for space in the temporary folder.",
            )
        tell("Counting memory, CPU and output of the app…")
        app.read_until(time.monotonic() + WARM_S)
        use = _count(app)
        if simulation is not None:
            return use
        windows = _windows(app, ends_s, tell)
    finally:
        tell("Ending the app…")
        app.close()
    pairs = window_pairs(saved_events(folder), windows)
    return use._replace(ratios={device: cost_ratio(found) for device, found in pairs.items()})


def _count(app: AppOnTerminal) -> AppUse:
    """Count for `LIVE_S` what the app and its agent take, and what it writes."""
    before, bytes_before, began_s = _family_ticks(app.pid), app.bytes_read, time.monotonic()
    app.read_until(began_s + LIVE_S)
    elapsed_s, after = time.monotonic() - began_s, _family_ticks(app.pid)
    pids = before.keys() & after.keys()

    def taken(some: Collection[int]) -> Taken:
        sizes = [found for pid in some if (found := memory_of(pid))[0]]
        pss = [size for _, size in sizes if size is not None]
        ticks = sum(after[pid] - before[pid] for pid in some)
        return Taken(
            len(sizes), sum(rss for rss, _ in sizes), sum(pss) if len(pss) == len(sizes) else None,
            ticks / os.sysconf("SC_CLK_TCK") / elapsed_s,
        )  # fmt: skip

    return AppUse(taken(pids & {app.pid}), taken(pids - {app.pid}), (app.bytes_read - bytes_before) / elapsed_s, None)


def _family_ticks(pid: int) -> dict[int, int]:
    """Return the CPU time so far of a process and of its descendants, in clock ticks."""
    seen = {each: found for each in visible_pids() if (found := read_process(each)) is not None}
    family = {pid}
    while new := {each for each, found in seen.items() if found.parent in family} - family:
        family |= new
    return {each: seen[each].ticks for each in family & seen.keys()}


def _windows(app: AppOnTerminal, ends_s: float, tell: Callable[[str], None]) -> list[Window]:
    """Suspend and resume the app in turn until the time is over, with the app first and last."""
    windows: list[Window] = []
    while time.monotonic() + WINDOW_S < ends_s or len(windows) % 2 == 0:
        is_on = len(windows) % 2 == 0
        app.suspend(not is_on)
        start_ns = time.monotonic_ns()
        app.read_until(start_ns / 1e9 + WINDOW_S)
        windows.append(Window(is_on, start_ns, time.monotonic_ns()))
        tell(f"Suspending the app every other second, {max(0.0, ends_s - time.monotonic()):.0f} s left")
    return windows


def saved_events(folder: Path) -> list[Event]:
    """Return the events of the app's run that are in its history."""
    with suppress(CpuGpuError):  # no file or run yet
        store = open_read_only(folder / "results.db", is_in_use=True)
        try:
            return store.load(store.find("latest"))
        finally:
            store.close()
    return []


def window_pairs(events: Iterable[Event], windows: Sequence[Window]) -> dict[str, list[tuple[float, float]]]:
    """Return device → (ns without, ns with the app), one pair for each window without it.

    Only cases count that were timed in that window and in both of its neighbours. A pair holds their geometric means.
    """
    times: list[dict[tuple[str, str], list[float]]] = [defaultdict(list) for _ in windows]
    for event in events:
        if isinstance(event, DeviceSampled):
            for window, found in zip(windows, times, strict=True):
                if window.start_ns + SETTLE_S * 1e9 <= event.started_mono_ns and event.ended_mono_ns <= window.end_ns:
                    found[event.device, event.case] += event.samples.get(LATENCY, ())
    logs = [{key: math.log(median(samples)) for key, samples in found.items() if samples} for found in times]
    pairs: dict[str, list[tuple[float, float]]] = {}
    for before, without, window, after in zip(logs, logs[1:], windows[1:], logs[2:], strict=False):
        shared = set() if window.is_on else before.keys() & without.keys() & after.keys()
        for device in sorted({device for device, _ in shared}):
            keys = [key for key in shared if key[0] == device]
            off = math.exp(sum(without[key] for key in keys) / len(keys))
            on = math.exp(sum((before[key] + after[key]) / 2 for key in keys) / len(keys))
            pairs.setdefault(device, []).append((off, on))
    return pairs


# ------------------------------------------------------------------ findings


def app_findings(measure: Callable[[], AppUse], limit_s: float) -> tuple[Finding, ...]:
    """Return the findings of the app; those of one that could not be measured say why."""
    try:
        use = measure()
    except CpuGpuError as error:
        rest = [unknown("not measured: see the failure above") for _ in NAMES[1:]]
        found = (fail("Not measured.", error.message, error.remedy), *rest)
    else:
        screen = f"{use.bytes_per_s:,.0f} B/s to a terminal of {COLUMNS}×{ROWS} while a run is live"
        found = (
            use.app.finding("while a run is live, with its telemetry"),
            use.agent.finding(f"in {count_of(use.agent.processes, 'process', 'processes')}, timed calls included"),
            ok(screen, values={"bytes_per_s": round(use.bytes_per_s, 1)}),
            _effect(use.ratios, limit_s),
        )
    return tuple(replace(each, check=name) for each, name in zip(found, NAMES, strict=True))


def _effect(ratios: dict[str, CostRatio | None] | None, limit_s: float) -> Finding:
    """Return the finding of the app's effect on each device's timed calls."""
    if ratios is None:
        return unknown("not measured: simulated times do not depend on the app")
    findings = {}
    for device, ratio in (ratios or {"any device": None}).items():
        found = f"too few timed calls on {device}"
        if ratio is not None:
            found = f"the app adds {added_text(ratio)} to a call on {device}; {ratio.rounds} rounds"
        findings[device] = judged(found, ratio, limit_s, "The app slows timed calls", "and time with `cpugpu-tui run`")
    values = {device: ratio._asdict() for device, ratio in ratios.items() if ratio is not None}
    return replace(worst(findings), values=values)
