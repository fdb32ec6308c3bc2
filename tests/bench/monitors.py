"""Bytes per second and CPU use of our idle app and of other monitors, at 120×40 with one reading per second.

They run one at a time, in alternating order. Monitors that are not on PATH are left out with a message.
"""

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
    """A program, set to one reading per second."""

    name: str
    command: tuple[str, ...]
    drawn: Callable[[PtyApp], bool]
    """Returns whether its first screen is complete."""
    env: dict[str, str | None]


@dataclass(frozen=True)
class Measured:
    """Result of one turn of a monitor."""

    bytes_per_s: float
    cpu_pct: float
    """Use of one core in percent, including child processes."""


def main() -> None:
    """Print one row per monitor."""
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
                    missing[monitor.name] = "it drew nothing: " + first_line(str(error))
                    monitors.remove(monitor)
        gpus = "with GPUs" if gpu_names() else "without GPU: they show only the host, and nvitop needs a GPU"
        header = ("monitor", "bytes/s, median (least … most)", "CPU, % of a core", "load", "turns")
        load = f"{os.getloadavg()[0]:.1f}"
        title = f"Monitors at {COLUMNS}×{ROWS}, one reading per second, {WINDOW_S:g} s per turn; {gpus}"
        table(title, header, (row(name, turns, load) for name, turns in found.items() if turns))
        for name, why in missing.items():
            print(f"\n{name} is left out: {why}.")


def row(name: str, turns: list[Measured], load: str) -> tuple[str, ...]:
    """Return a row of the table."""
    written = [turn.bytes_per_s for turn in turns]
    share = f"{median([turn.cpu_pct for turn in turns]):.1f} %"
    return (name, f"{median(written):.0f} ({min(written):.0f} … {max(written):.0f})", share, load, str(len(turns)))


def monitors_here(folder: Path) -> tuple[list[Monitor], dict[str, str]]:
    """Return the monitors on this machine, ours first, and the reasons why others are missing."""
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
    """Start a monitor, wait until it has settled, and measure it.

    Raises:
        TooLateError: it draws nothing, or exits.
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
    """Return the CPU seconds of a process and its living children."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def first_line(text: str) -> str:
    """Return the first non-empty line of the screen in the text of a `TooLateError`."""
    return next((line.strip().rstrip(".") for line in text.splitlines()[1:] if line.strip()), "empty screen")
