"""An app of nothing but the two lean widgets behind the terminal guard; run by tests on a pseudo-terminal.

Keys: u one row, a all rows, e the same again, t trends, n noise past Python, s a child while suspended, c a crash.
"""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from textual.app import App, ComposeResult
from textual.events import Resize
from textual.widgets import Static

from cpugpu_tui.ui.glyphs import UNICODE, trend_text
from cpugpu_tui.ui.panes.timing_table import Column, TimingTable
from cpugpu_tui.ui.terminal.guard import PrivateTerminal, private_terminal
from cpugpu_tui.ui.themes import DEFAULT_THEME, shipped, variable_defaults

COLUMNS = [
    Column("case", "Case", 28),
    Column("cpu", "CPU µs", 9, "right"),
    Column("gpu", "GPU µs", 9, "right"),
    Column("speed", "Speed-up", 8, "right"),
    Column("interval", "±", 6, "right"),
    Column("trend", "Trend", 12),
    Column("limit", "Limit", 12),
]
ROWS, TRENDS = 20, 8


class LeanApp(App[None]):
    """Twenty rows with five live cells each, eight trends, and a line that names the last key handled."""

    CSS = "TimingTable { height: 22; } .trend { height: 1; color: $series-gpu; } .trend.cpu { color: $series-cpu; }"
    BINDINGS = [(key, f"answer('{key}')", "") for key in "uaetnsc"] + [("q", "quit", "")]

    def __init__(self, guard: PrivateTerminal) -> None:
        super().__init__()
        self.animation_level = "none"
        self.error_console = Console(file=guard.stream, markup=False, highlight=False)
        self.guard = guard
        self.ticks = 0

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield TimingTable()
        for index in range(TRENDS):
            yield Static(classes="trend cpu" if index % 2 else "trend", markup=False)
        yield Static(id="size")
        yield Static(id="said")

    def on_mount(self) -> None:
        for theme in shipped().values():
            self.register_theme(theme)
        self.theme = DEFAULT_THEME
        self.app_suspend_signal.subscribe(self, lambda _: self.guard.release(), immediate=True)
        self.app_resume_signal.subscribe(self, lambda _: self.guard.acquire(), immediate=True)
        table = self.query_one(TimingTable)
        table.set_columns(COLUMNS)
        self._fill(range(ROWS))
        table.focus()

    def on_resize(self, event: Resize) -> None:
        self.query_one("#size", Static).update(f"size {event.size.width}x{event.size.height}")

    def _fill(self, rows: range) -> None:
        for row in rows:
            self.query_one(TimingTable).upsert(f"row{row}", cells(row, self.ticks))

    def action_answer(self, key: str) -> None:
        if key in "uat":
            self.ticks += 1
        if key in "ue":
            self._fill(range(3, 4))
        elif key == "a":
            self._fill(range(ROWS))
        elif key == "t":
            for index, trend in enumerate(self.query(".trend").results(Static)):
                values = [(7 + index) * step % 101 for step in range(self.ticks, self.ticks + 120)]
                trend.update(trend_text(values, 120, 0, 100, UNICODE))
        elif key == "n":
            os.write(1, b"NOISE-1")
            os.write(2, b"NOISE-2")
            self.query_one("#said", Static).update("noise made")
        elif key == "s":
            with self.suspend():
                subprocess.run([sys.executable, "-Ec", "print('CHILD-SPEAKS')"], check=True)
            os.write(1, b"NOISE-3")
            self.query_one("#said", Static).update("back again")
        elif key == "c":
            raise ZeroDivisionError("the app crashed")


def cells(row: int, tick: int) -> dict[str, str]:
    """Cells like those of a run: five of seven change with every tick."""
    return {
        "case": f"matmul/default/{64 * (row + 1)}/float32",
        "cpu": f"{100 + row + tick * 0.13:.2f}",
        "gpu": f"{50 + row + tick * 0.07:.2f}",
        "speed": f"{2 + tick * 0.01:.2f}×",
        "interval": f"±{1 + tick % 9}.{tick % 7}",
        "trend": trend_text([10 + tick * step % 83 for step in range(12)], 12, 0, 100, UNICODE),
        "limit": "launch 82 %",
    }


if __name__ == "__main__":
    with private_terminal(Path(sys.argv[1])) as private:
        lean = LeanApp(private)
        lean.run()
    sys.exit(lean.return_code)
