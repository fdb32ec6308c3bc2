"""How long until something is on the screen, against the least that Textual and typer can do."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.ratios import alternate, table
from tests.ui.pty_app import PtyApp

BARE_TEXTUAL = """
from textual.app import App, ComposeResult
from textual.widgets import Static
class Bare(App):
    def compose(self) -> ComposeResult:
        yield Static("press r")
Bare().run(mouse=False)
"""

BARE_TYPER = """
import typer
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
@app.command()
def main(name: str = "x") -> None: ...
@app.command()
def other(name: str = "x") -> None: ...
app()
"""


def main() -> None:
    """Print both ratios."""
    with tempfile.TemporaryDirectory() as folder:
        bare_app, bare_cli = Path(folder) / "bare_app.py", Path(folder) / "bare_cli.py"
        bare_app.write_text(BARE_TEXTUAL)
        bare_cli.write_text(BARE_TYPER)
        ours = [sys.executable, "-m", "cpugpu_tui"]  # without options, as people start it
        rows = []
        frame, known = alternate(
            lambda: first_frame_s(ours, "ress r", CPUGPU_DB=str(Path(folder) / "results.db")),
            lambda: first_frame_s([sys.executable, str(bare_app)], "press r"),
            half_width_pct=3, cap_s=60,
        )  # fmt: skip
        rows.append(("first frame / bare Textual app", f"{frame.value:.2f}", frame.text(), "≤ 1.5", str(known)))
        help_ratio, known = alternate(
            lambda: run_s([*ours, "--help"]), lambda: run_s([sys.executable, str(bare_cli), "--help"]),
            half_width_pct=3, cap_s=60,
        )  # fmt: skip
        rows.append(("--help / bare typer app", f"{help_ratio.value:.2f}", help_ratio.text(), "≤ 1.5", str(known)))
    table("Start-up, warm file cache", ("what", "ratio", "excess", "budget", "known to 3 %"), rows)


def first_frame_s(command: list[str], text: str, **env: str) -> float:
    """Return the seconds from start to the moment at which the terminal has the text."""
    started = time.monotonic()
    with PtyApp(command, columns=120, rows=40, env=env) as app:
        app.until_bytes(text.encode())
        return time.monotonic() - started


def run_s(command: list[str]) -> float:
    """Return the wall seconds of a command."""
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started
