"""Signals and ctrl+c end the app even if its event loop is blocked, and the terminal is restored."""

import os
import signal
import sys
import termios
import time

import psutil
import pytest
from tests.helpers.app.pty_app import REAL_APP, PtyApp
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui.model import CaseFinished
from cpugpu_tui.store import Store

SHOWN = b"\x1b[?25h"
NORMAL_SCREEN = b"\x1b[?1049l"
PASTE_PLAIN = b"\x1b[?2004l"
GONE_WITHIN_S = 60.0


class Visit:
    """The app on a simulated machine, with a help page that never returns."""

    def __init__(self, folder, wedge, *, ignore=None):
        command = [sys.executable, REAL_APP, folder, "0.5", wedge]
        if ignore is not None:
            command = ["sh", "-c", f'trap "" {ignore.name[3:]}; exec "$@"', "sh", *command]
        self.app = PtyApp(command, columns=120, rows=40)
        self.before = termios.tcgetattr(self.app._master)
        self.folder = folder

    def run_and_wedge(self):
        """Finish a case, then press the key that blocks; return the pids of all processes."""
        self.app.until_text("ready")
        self.app.send("r")
        self.app.until_text("▲ GPU")
        self.wedge()
        return psutil.Process(self.app.pid).children(recursive=True)

    def wedge(self):
        self.app.send("?")
        ends_s = time.monotonic() + GONE_WITHIN_S
        while not (self.folder / "wedged").exists() and time.monotonic() < ends_s:
            self.app.bytes_during(0.05)  # whoever does not read stops the app's writing

    def check_the_end(self, code, started):
        assert self.app.exit_code(GONE_WITHIN_S) == code
        for written in (NORMAL_SCREEN, SHOWN, PASTE_PLAIN):
            assert written in self.app.output
        assert termios.tcgetattr(self.app._master)[3] == self.before[3]
        assert not psutil.wait_procs(started, GONE_WITHIN_S)[1]


@pytest.mark.parametrize(
    ("wedge", "number"), [("busy", signal.SIGTERM), pytest.param("blocked", signal.SIGHUP, marks=pytest.mark.slow)]
)
def test_a_signal_ends_an_app_that_never_looks_up(tmp_path, wedge, number):
    visit = Visit(tmp_path, wedge)
    with visit.app as app:
        started = visit.run_and_wedge()
        assert len(started) >= 2, "an agent and its guardian"
        app.signal(number)
        visit.check_the_end(128 + number, started)
    store = Store.open(tmp_path / "results.db")
    assert integrity_check(store) == []
    assert any(isinstance(event, CaseFinished) for event in store.load(store.find("latest")))
    store.close()


def test_ctrl_c_twice_ends_an_app_that_never_looks_up(tmp_path):
    visit = Visit(tmp_path, "busy")
    with visit.app as app:
        started = visit.run_and_wedge()
        app.send(b"\x03\x03")
        visit.check_the_end(130, started)


def test_ctrl_c_twice_in_an_app_that_looks_up_is_two_keys(tmp_path):
    """The first closes the form and the second quits, both in the event loop."""
    visit = Visit(tmp_path, "never")
    with visit.app as app:
        app.until_text("ready")
        app.send("\x03")
        app.send("\x03")
        assert app.exit_code(GONE_WITHIN_S) == 0


def test_a_suspended_app_obeys_when_it_is_continued(tmp_path):
    visit = Visit(tmp_path, "never")
    with visit.app as app:
        app.until_text("ready")
        app.send("r")
        app.until_text("▲ GPU")
        started = psutil.Process(app.pid).children(recursive=True)
        app.send("\x1a")
        app.until_stopped()
        app.signal(signal.SIGTERM)
        app.signal(signal.SIGCONT)
        visit.check_the_end(143, started)


def test_a_signal_that_was_ignored_before_is_ignored(tmp_path):
    """`nohup` and a shell's `trap ""` are inherited."""
    visit = Visit(tmp_path, "never", ignore=signal.SIGHUP)
    with visit.app as app:
        app.until_text("ready")
        os.kill(app.pid, signal.SIGHUP)
        app.send("?")
        app.until_text("Help")
        app.send("q")
        assert app.exit_code(GONE_WITHIN_S) == 0
