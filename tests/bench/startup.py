"""Start-up time, relative to minimal apps with Textual and typer."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.helpers.app.pty_app import PtyApp
from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import Ratio, alternate, cap_seconds, table

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


START_RATIO, KEYS_RATIO = 1.15, 1.3
"""Budgets, as multiples of the start-up time of the minimal apps."""


class Starts:
    """Starts our app and command, and minimal ones to compare with.

    All write byte code to a folder of this bench. With PYTHONDONTWRITEBYTECODE, only ours would be compiled at each
    start, because installed packages have byte code already.
    """

    def __init__(self, folder: Path) -> None:
        self._bare_app, self._bare_cli = folder / "bare_app.py", folder / "bare_cli.py"
        self._bare_app.write_text(BARE_TEXTUAL)
        self._bare_cli.write_text(BARE_TYPER)
        self._ours = [sys.executable, "-m", "cpugpu_tui"]  # without options
        self._env = {
            "CPUGPU_DB": str(folder / "results.db"),
            "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
            "PYTHONDONTWRITEBYTECODE": None,
        }

    def frame(self) -> tuple[Ratio, bool]:
        """Return the ratio of the times to the first frame, and whether it is known to 3 %."""
        return self._ratio(
            lambda: first_frame_s(self._ours, "ress r", self._env),
            lambda: first_frame_s([sys.executable, str(self._bare_app)], "press r", self._env),
        )

    def keys(self) -> tuple[Ratio, bool]:
        """Return the ratio of the times until a key has moved the cursor here, and until the first frame there."""
        return self._ratio(
            lambda: first_frame_s(self._ours, "ress r", self._env, moved="▸survey"),
            lambda: first_frame_s([sys.executable, str(self._bare_app)], "press r", self._env),
        )

    def help(self) -> tuple[Ratio, bool]:
        """Return the ratio of the times of `--help`, and whether it is known to 3 %."""
        return self._ratio(
            lambda: run_s([*self._ours, "--help"], self._env),
            lambda: run_s([sys.executable, str(self._bare_cli), "--help"], self._env),
        )

    def _ratio(self, ours: Callable[[], float], bare: Callable[[], float]) -> tuple[Ratio, bool]:
        for start in (ours, bare):
            start()  # warms the file cache
        return alternate(ours, bare, half_width_pct=3, cap_s=cap_seconds(60.0))


def main() -> None:
    """Print both ratios."""
    with tempfile.TemporaryDirectory() as folder:
        starts = Starts(Path(folder))
        rows = []
        for what, measure, budget in (
            ("Time to the app's first frame, against a bare Textual app's", starts.frame, START_RATIO),
            ("Time until a key has moved the cursor, against a bare app's first frame", starts.keys, KEYS_RATIO),
            ("Time of `--help`, against a bare typer app's", starts.help, START_RATIO),
        ):
            ratio, known = measure()
            rows.append((what, f"{ratio.value:.2f}", ratio.text(), f"≤ {budget:g}", str(known)))
    table("Start-up, warm file cache", ("what", "ratio", "excess", "budget", "known to 3 %"), rows)
    for what, ratio_text, _, most, _ in rows:
        record(what, f"{ratio_text}× (budget {most}×)")


def first_frame_s(command: list[str], text: str, env: Mapping[str, str | None], moved: str = "") -> float:
    """Return the seconds from the start until the terminal has received the text, or `moved` after a key down."""
    started_s = time.monotonic()
    with PtyApp(command, columns=120, rows=40, env=env) as app:
        app.until_bytes(text.encode())
        if moved:
            app.send("j")
            app.until_bytes(moved.encode())
        return time.monotonic() - started_s


def run_s(command: list[str], env: Mapping[str, str | None]) -> float:
    """Return the wall seconds of a command."""
    kept = {**os.environ, **env}
    environment = {name: value for name, value in kept.items() if value is not None}
    started_s = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.monotonic() - started_s
