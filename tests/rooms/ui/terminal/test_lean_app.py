"""The guard and the lean widgets on a real pseudo-terminal: what they write, and where."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.app.lean_app import ROWS, TRENDS, cells
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.command_line import ROOT

LEAVES_ALT_SCREEN = b"\x1b[?1049l"
SHOWS_CURSOR = b"\x1b[?25h"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


@pytest.fixture
def app(log: Path) -> Iterator[PtyApp]:
    with PtyApp([sys.executable, "-m", "tests.helpers.app.lean_app", log], columns=120, rows=40, cwd=ROOT) as app:
        app.until_text("size 120x40")
        app.until_text(cells(ROWS - 1, 0)["cpu"])
        app.bytes_until_quiet()
        yield app


def bytes_for(app: PtyApp, keys: str, sign: str) -> int:
    """Press keys until the screen shows `sign`; return the number of bytes written."""
    before = len(app.output)
    app.send(keys)
    app.until_text(sign)
    app.bytes_until_quiet()
    return len(app.output) - before


def test_output_per_update_stays_lean(app: PtyApp) -> None:
    """Textual's own table writes 9641 bytes for each of the first three changes at this size."""
    assert bytes_for(app, "u", cells(3, 1)["cpu"]) <= 250
    assert bytes_for(app, "u", cells(3, 2)["cpu"]) <= 250
    assert bytes_for(app, "a", cells(ROWS - 1, 3)["cpu"]) <= 200 * ROWS
    seen = len(app.output)
    bytes_for(app, "en", "noise made")
    assert b"matmul" not in app.output[seen:]  # the same cells again
    assert bytes_for(app, "t", "█▁") <= (120 * 3 + 60) * TRENDS


def test_noise_past_python_never_reaches_the_screen(app: PtyApp, log: Path) -> None:
    app.send("n")
    app.until_text("noise made")
    app.send("q")
    assert app.exit_code() == 0
    assert b"NOISE" not in app.output
    assert log.read_text() == "NOISE-1NOISE-2"
    assert app.output.rfind(SHOWS_CURSOR) > app.output.rfind(LEAVES_ALT_SCREEN) > 0


def test_the_app_follows_the_size_of_the_terminal(app: PtyApp) -> None:
    app.resize(90, 36)
    app.until_text("size 90x36")


def test_a_child_has_the_terminal_while_the_app_is_suspended(app: PtyApp, log: Path) -> None:
    app.send("s")
    app.until_text("back again")
    assert b"CHILD-SPEAKS" in app.output
    assert log.read_text() == "NOISE-3"


def test_the_process_can_be_stopped_and_comes_back(app: PtyApp, log: Path) -> None:
    seen = len(app.output)
    app.signal(signal.SIGTSTP)
    app.until_stopped()
    app.until_bytes(LEAVES_ALT_SCREEN, since=seen)
    seen = len(app.output)
    app.signal(signal.SIGCONT)
    app.until_bytes(b"\x1b[?1049h", since=seen)
    app.send("n")
    app.until_text("noise made")
    assert log.read_text() == "NOISE-1NOISE-2"


def test_a_crash_shows_its_traceback_on_the_restored_terminal(app: PtyApp, log: Path) -> None:
    app.send("c")
    assert app.exit_code() == 1
    left = app.output.rfind(LEAVES_ALT_SCREEN)
    assert b"the app crashed" in app.output[left:]
    assert "the app crashed" not in log.read_text()


def test_a_closed_terminal_leaves_no_process_behind(app: PtyApp) -> None:
    """SIGHUP without a handler kills at once. This tests that the harness hangs up like a lost connection."""
    app.hang_up()
    assert app.exit_code() == -signal.SIGHUP


def test_this_terminal_is_described_before_textual_is_imported() -> None:
    script = (
        "import sys; from cpugpu_tui.render.capabilities import this_terminal; "
        "from cpugpu_tui.ui.terminal.guard import refuse; found = this_terminal(); "
        "print(found.columns, found.rows, found.colours, found.utf8, refuse(found), 'textual' in sys.modules)"
    )
    env = {"COLORTERM": None, "PYTHONIOENCODING": None}
    with PtyApp([sys.executable, "-c", script], columns=101, rows=31, env=env) as app:
        app.until_text("101 31 256 True None False")
    with PtyApp(["sh", "-c", '"$0" -c "$1" < /dev/null', sys.executable, script], columns=101, rows=31, env=env) as app:
        app.until_text("not a terminal")
