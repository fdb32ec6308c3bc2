"""Hostile input on a real pseudo-terminal is handled, or dropped with a message."""

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.helpers.app.pty_app import REAL_APP, PtyApp

COLOURED = b"red\x1b[31mtext "
LONG_S = 60.0


@pytest.fixture
def app(tmp_path):
    """The app before its first run, with a simulation in which runs take seconds."""
    with PtyApp([sys.executable, REAL_APP, tmp_path, "1.2"], columns=80, rows=24) as started:
        started.until_text("ready", LONG_S)
        yield started


def cpu_s(app):
    fields = Path(f"/proc/{app.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(app):
    return int(Path(f"/proc/{app.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def leaves_on_sigterm(app):
    app.signal(signal.SIGTERM)
    return app.exit_code(LONG_S) == 143


def test_a_long_paste_of_coloured_text_during_a_run_is_cut_and_said(app):
    app.send("r")
    app.until_text("▼ CPU", LONG_S)
    app.send("/")
    app.until_text("esc Show all", LONG_S)
    before_mb = resident_mb(app)
    app.send(b"\x1b[200~" + COLOURED * 8_000 + b"\x1b[201~")
    app.until_text("Dropped 99,904 characters", LONG_S)
    app.until_text("/ redtext redtext", LONG_S)  # may be painted after the sentence
    assert "Commands" not in app.text
    assert resident_mb(app) < before_mb + 30
    assert leaves_on_sigterm(app)


def test_a_megabyte_of_keys_is_cut_and_leaves_the_app_to_its_person(app):
    app.send(":")
    app.until_text("Commands", LONG_S)
    before_s, before_mb = cpu_s(app), resident_mb(app)
    assert app.send(COLOURED * 80_000) == len(COLOURED) * 80_000
    app.until_text("no match", LONG_S)
    app.until(lambda app: not app._read(0.5), LONG_S)
    app.send("\x1b")
    app.until_text("Dropped 1,", LONG_S)
    assert cpu_s(app) - before_s < 10, "it takes 0.2 s; as single keys it took minutes"
    assert resident_mb(app) < before_mb + 50
    app.send("q")
    assert app.exit_code(LONG_S) == 0


def test_a_process_that_was_stopped_and_continued_gives_the_terminal_back(tmp_path):
    with PtyApp([sys.executable, REAL_APP, tmp_path], columns=80, rows=24) as app:
        before = app.modes()
        app.until_text("ready", LONG_S)
        for _ in range(2):
            app.signal(signal.SIGSTOP)
            app.until_stopped(LONG_S)
            seen = len(app.output)
            app.signal(signal.SIGCONT)
            app.until_bytes(b"\x1b[?1049h", seen, LONG_S)
        app.send("q")
        assert (app.exit_code(LONG_S), app.modes()) == (0, before)
