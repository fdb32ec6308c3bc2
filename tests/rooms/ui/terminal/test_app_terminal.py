"""The app on a real pseudo-terminal: its output, its end, and the terminal afterwards."""

import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.helpers.app.pty_app import REAL_APP, PtyApp

from cpugpu_tui.model import CaseFinished, RunFinished
from cpugpu_tui.store import Store

ALTERNATE_SCREEN_OFF = b"\x1b[?1049l"
BYTES_PER_S = 3600
"""Most output while `quick` is live at 120×40: a repaint a second of all rows that changed. 1,400 are the budget."""

Start = Callable[..., PtyApp]


@pytest.fixture
def start(tmp_path):
    """Starts the app on a simulated machine; `pace` is real seconds per virtual second."""
    with ExitStack() as stack:

        def started(pace=0.0, columns=120, rows=40, **env):
            command = [sys.executable, REAL_APP, tmp_path, str(pace)]
            app = stack.enter_context(PtyApp(command, columns=columns, rows=rows, env=env))
            app.until_text("ready")
            return app

        yield started


def test_a_key_typed_at_the_first_frame_is_obeyed(tmp_path):
    command = [sys.executable, REAL_APP, tmp_path, "0"]
    with PtyApp(command) as app:
        app.until_text("Press r")
        app.send("r")
        until_done(app)


def run_slowly(app, until=r"\d of 6"):
    """Start a run and wait until rounds are timed."""
    app.send("r")
    app.until(lambda app: re.search(until, app.text) is not None)


def until_done(app):
    """Wait for the end of a run."""
    app.until(lambda app: re.search(r"done, \d+ cases", app.text) is not None)


def all_agents(pid):
    """Return the pids of the app's children, of all its threads."""
    tasks = Path(f"/proc/{pid}/task")
    return {int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()}


def saved(folder):
    with closing(Store.open(folder / "results.db")) as store:
        return list(store.load(store.find("latest")))


def test_a_whole_visit_leaves_the_terminal_as_it_was_and_the_result_on_it(start, tmp_path):
    app = start()
    app.send("r")
    until_done(app)
    app.until_text("GPU wins")
    app.quit()
    end = bytes(app.output[app.output.find(ALTERNATE_SCREEN_OFF) :])
    assert re.search(rb"left with done, run 1, 1\d rows", end)
    assert b"\x1b[?25h" in end
    assert any(isinstance(event, RunFinished) and event.status == "done" for event in saved(tmp_path))


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGQUIT, 131), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow)],
)
def test_a_signal_ends_it_in_order(start, tmp_path, number, code):
    app = start(pace=1.2)
    run_slowly(app, r"[1-9]\d? of at most")
    agents = all_agents(app.pid)
    assert agents
    app.signal(number)
    assert app.exit_code() == code
    assert ALTERNATE_SCREEN_OFF in app.output
    assert not [pid for pid in agents if Path(f"/proc/{pid}").exists()]
    events = saved(tmp_path)
    assert any(isinstance(event, CaseFinished) for event in events)
    assert any(isinstance(event, RunFinished) and event.status == "stopped" for event in events)


def test_a_closed_terminal_ends_it_in_order(start, tmp_path):
    app = start(pace=1.2)
    run_slowly(app, r"[1-9]\d? of at most")
    agents = all_agents(app.pid)
    app.hang_up()
    assert app.exit_code() == 129
    assert not [pid for pid in agents if Path(f"/proc/{pid}").exists()]
    assert any(isinstance(event, CaseFinished) for event in saved(tmp_path))


def test_quitting_during_a_run_stops_it_and_saves_what_was_finished(start, tmp_path):
    app = start(pace=1.2)
    run_slowly(app, r"[1-9]\d? of at most")
    app.send("q")
    app.until_text("stop and quit")
    app.send("y")
    assert app.exit_code() == 0
    assert b"left with stopped, run 1" in app.output
    assert any(isinstance(event, CaseFinished) for event in saved(tmp_path))


def test_suspended_and_back_the_run_goes_on(start):
    app = start(pace=0.5)
    run_slowly(app)
    agents = all_agents(app.pid)
    app.send("\x1a")
    app.until_stopped()
    assert {Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for pid in agents} == {"T"}
    app.blank()
    os.kill(app.pid, signal.SIGCONT)
    for part in ("Workload", "speedup", "Telemetry", "? Help"):
        app.until_text(part)
    until_done(app)
    app.quit()


def test_output_stays_within_the_budget_while_a_run_is_live(start):
    app = start(pace=2.0)
    run_slowly(app)
    seconds = 3
    assert app.bytes_during(seconds) / seconds <= BYTES_PER_S


def test_nothing_is_written_while_paused(start):
    app = start(pace=1.2)
    run_slowly(app)
    app.send(" ")
    app.until_text("paused")
    app.bytes_until_quiet(1.2)
    assert app.bytes_during(1.5) == 0


def test_resized_during_a_run_it_lays_itself_out_anew(start):
    app = start(pace=1.2)
    run_slowly(app)
    app.resize(50, 10)
    app.until_text("Needs 40x12")
    app.resize(80, 24)
    app.until_text("Workload 1/")


def is_whole(app):
    """Whether a finished run is on the screen: each pane once, and the footer in the last line."""
    rows = ("\n matmul 16  ", "\n matmul 200  ", "\n matmul 2,048  ")
    parts = ("done", "Workload", "Timings", *rows, "The GPU wins", "Telemetry")
    text = app.text.replace("▸", " ")  # the cursor stands on whichever row came last when it was painted
    return all(text.count(part) == 1 for part in parts) and "Run again" in app.lines[-1]


SLOW = pytest.mark.slow


@pytest.mark.parametrize("between", [pytest.param((60, 16), marks=SLOW), pytest.param((120, 40), marks=SLOW), None])
def test_resized_there_and_back_nothing_is_missing_and_nothing_is_left_over(start, between):
    app = start(columns=100, rows=30)
    app.send("r")
    until_done(app)
    app.until(is_whole)
    if between is not None:
        app.resize(*between)
        at = len(app.output)
        app.until(lambda app: len(app.output) > at)
    else:
        app.resize(60, 16)  # and back before anybody looked
    app.blank()
    app.resize(100, 30)
    app.until(is_whole)


def test_a_scrollbar_is_dragged_and_no_other_movement_is_asked_for(start):
    app = start(columns=80, rows=24)
    app.send("?")
    app.until_text("back")
    app.send("?")
    app.until_text("Presets and workloads")
    column = 79  # the bar's

    def is_scrolled(app):
        app.send(f"\x1b[<0;{column};3M\x1b[<32;{column};12M")  # what comes before the bar is there is dropped
        return "Presets and workloads" not in app.text

    app.until(is_scrolled)
    app.send(f"\x1b[<0;{column};12m")
    assert b"\x1b[?1002h" in app.output
    assert b"\x1b[?1003h" not in app.output
    app.send("\x1b")
    app.until_text("ready")
    app.quit()
    assert app.output.rfind(b"\x1b[?1002l") > app.output.rfind(b"\x1b[?1002h")


def test_the_status_line_names_an_interpreter_that_does_not_answer_and_x_ends_the_wait(silent_python):
    database = silent_python.with_name("h.db")
    command = [sys.executable, "-m", "cpugpu_tui", "--python", silent_python, "--db", database]
    with PtyApp(command, columns=200, env={"CPUGPU_SIMULATE": None}) as app:
        app.until_text(f"cpugpu-tui Waiting for {silent_python} to answer, at most 120 s.")
        app.send("r")
        app.until_text(f"quick Waiting for {silent_python} to answer, at most 120 s.")
        app.send("x")
        app.until_text("quick · stopped, 0 cases")
        app.quit()
