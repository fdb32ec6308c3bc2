"""The app on different terminals: colours, signs, and a terminal that is refused."""

import re
import shutil
import sys

import pytest
from tests.helpers.app.pty_app import REAL_APP, PtyApp

LEAVES = b"\x1b[?1049l"

KINDS = [
    ({"NO_COLOR": "1"}, "none", True),
    ({"TERM": "xterm", "COLORTERM": None}, "16", True),
    ({"TERM": "linux", "COLORTERM": None}, "16", False),
    ({"TERM": "screen.xterm-256color", "STY": "7.pts-0"}, "256", True),
    ({"TERM": "tmux-256color", "COLORTERM": None, "TMUX": "/tmp/t,1,0", "LC_ALL": "C"}, "256", False),
    ({"TERM": "xterm", "COLORTERM": "truecolor"}, "truecolor", True),
]
"""Environment, its colours, and whether it has UTF-8."""


def kinds_of_colour(output):
    """Return the kinds of colour that were written: `16`, `256`, `truecolor`."""
    found = set()
    for parameters in re.findall(rb"\x1b\[([0-9;]*)m", output):
        codes = iter(parameters.decode().split(";"))
        for code in codes:
            if code in ("38", "48"):
                kind = next(codes)
                found.add({"5": "256", "2": "truecolor"}[kind])
                for _ in range(1 if kind == "5" else 3):
                    next(codes)
            elif code and (30 <= int(code) <= 37 or 40 <= int(code) <= 47 or 90 <= int(code) <= 107):
                found.add("16")
    return found


def visit(app):
    """Run a workload, open pages, try two themes and quit; return the screens."""
    app.until_text("ready")
    app.send("r")
    app.until(lambda app: re.search(r"done, \d+ cases", app.text) is not None)
    app.until_text("GPU wins from")
    screens = [app.text]
    for keys, seen in (("?", "Keys of the"), ("T", "esc cancel"), ("Tjj", "esc cancel")):
        app.send(keys)
        app.until_text(seen)
        screens.append(app.text)
        app.send("\x1b")
        app.until(lambda app, seen=seen: seen not in app.text)  # type: ignore[misc]
    app.quit()
    return screens


@pytest.mark.parametrize(("env", "kind", "utf8"), KINDS)
def test_a_terminal_gets_the_colours_and_signs_it_has_and_no_others(tmp_path, env, kind, utf8):
    with PtyApp([sys.executable, REAL_APP, tmp_path, "0"], columns=100, rows=30, env=env) as app:
        screens = visit(app)
        drawn = bytes(app.output[: app.output.find(LEAVES)])
    assert kinds_of_colour(drawn) == ({kind} if kind != "none" else set())
    assert drawn.isascii() is not utf8
    assert ("▼ CPU" if utf8 else "v CPU") in screens[0]
    if kind in ("none", "16"):
        assert re.search(rb"\x1b\[[0-9;]*\b7[;m]", drawn), "the cursor is the reversed row"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_app_inside_tmux(tmp_path):
    """Uses a separate tmux server, which ends with its only window."""
    inside = f"{sys.executable} {REAL_APP} {tmp_path} 0"
    socket = str(tmp_path / "socket")
    command = ["tmux", "-S", socket, "-f", "/dev/null", "new-session", "-x", "120", "-y", "40", inside]
    with PtyApp(command, env={"COLORTERM": None}) as app:
        app.until_text("ready")
        app.send("r")
        app.until(lambda app: re.search(r"done, \d+ cases", app.text) is not None)
        app.until_text("▲ GPU")
        app.bytes_until_quiet()  # a series ends after the run that the table shows
        app.quit()


def test_this_terminal_is_described_before_textual_is_imported():
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
