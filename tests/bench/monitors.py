"""Other monitors beside our idle app, each at 120×40 and one reading a second: bytes a second and share of a core.

They take turns, each alone, in an order that is turned round each time. Whatever is not on PATH is said and left out.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.helpers.app.pty_app import PtyApp, TooLateError
from tests.helpers.bench.ratios import cap_seconds, table
from tests.helpers.bench.surroundings import gpu_names

from cpugpu_tui.decide.stats import median

COLUMNS, ROWS = 120, 40
TURNS = 5
SETTLE_S, WINDOW_S = 3.0, 8.0
OURS = "cpugpu-tui"


@dataclass(frozen=True)
class Monitor:
    """One program, at one reading a second."""

    name: str
    command: tuple[str, ...]
    drawn: Callable[[PtyApp], bool]
    """Whether it has drawn what it shows from now on."""
    env: dict[str, str | None]


@dataclass(frozen=True)
class Measured:
    """What one turn of a monitor gave."""

    bytes_per_s: float
    cpu_pct: float
    """Share of a core, children included."""


def main() -> None:
    """Print one row for each monitor."""
    with tempfile.TemporaryDirectory() as folder:
        monitors, missing = monitors_here(Path(folder))
        found: dict[str, list[Measured]] = {monitor.name: [] for monitor in monitors}
        ends_s = time.monotonic() + cap_seconds(300.0)
        for turn in range(TURNS):
            if turn and time.monotonic() > ends_s:
                break
            for monitor in list(monitors if turn % 2 == 0 else reversed(monitors)):
                try:
                    found[monitor.name].append(measured(monitor))
                except TooLateError as error:
                    missing[monitor.name] = "it draws nothing: " + first_line(str(error))
                    monitors.remove(monitor)
        gpus = "with GPUs" if gpu_names() else "no GPU: each shows the host alone, nvitop needs one"
        header = ("monitor", "bytes/s, median (least … most)", "CPU of a core", "load then", "turns")
        load = f"{os.getloadavg()[0]:.1f}"
        title = f"Monitors at {COLUMNS}×{ROWS}, one reading a second, {WINDOW_S:g} s a turn; {gpus}"
        table(title, header, (row(name, turns, load) for name, turns in found.items() if turns))
        for name, why in missing.items():
            print(f"\n{name} is left out: {why}.")


def row(name: str, turns: list[Measured], load: str) -> tuple[str, ...]:
    """Return a row of the table."""
    written = [turn.bytes_per_s for turn in turns]
    share = f"{median([turn.cpu_pct for turn in turns]):.1f} %"
    return (
        name, f"{median(written):.0f} ({min(written):.0f} … {max(written):.0f})", share, load, str(len(turns)),
    )  # fmt: skip


def monitors_here(folder: Path) -> tuple[list[Monitor], dict[str, str]]:
    """Return the monitors of this machine, ours first, and why each of the others is not among them."""
    btop = folder / "btop" / "btop.conf"
    btop.parent.mkdir()
    btop.write_text("update_ms=1000\n")
    own = (sys.executable, "-m", "cpugpu_tui", "--db", str(folder / "results.db"))
    plain: dict[str, str | None] = {"XDG_CONFIG_HOME": str(folder)}
    others = [
        Monitor("nvitop", ("nvitop", "--monitor", "full", "--interval", "1"), lambda a: "NVITOP" in a.text, {}),
        Monitor("htop", ("htop", "--delay=10"), lambda a: "Load average" in a.text, plain),
        Monitor("btop", ("btop",), lambda a: "cpu" in a.text and "mem" in a.text, plain),
    ]
    missing = {each.name: "it is not on PATH" for each in others if shutil.which(each.name) is None}
    ours = Monitor(OURS, own, lambda a: "ready" in a.text and "host" in a.text, {"PYTHONDONTWRITEBYTECODE": None})
    return [ours, *(each for each in others if each.name not in missing)], missing


def measured(monitor: Monitor) -> Measured:
    """Start a monitor, let it draw and settle, and measure it for a while.

    Raises:
        TooLateError: it draws nothing, or ends.
    """
    with PtyApp(monitor.command, columns=COLUMNS, rows=ROWS, env=monitor.env) as app:
        app.until(monitor.drawn)
        app.bytes_during(SETTLE_S)
        before_s, started_s = cpu_s(app.pid), time.monotonic()
        written = app.bytes_during(WINDOW_S)
        spent_s, elapsed_s = cpu_s(app.pid) - before_s, time.monotonic() - started_s
        app.send("q")
        app.exit_code()
    return Measured(written / elapsed_s, 100 * spent_s / elapsed_s)


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that live."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def first_line(text: str) -> str:
    """Return the first line of the screen that says something, from what a deadline said."""
    return next((line.strip().rstrip(".") for line in text.splitlines()[1:] if line.strip()), "nothing was said")
