"""Commands and the app over `--worker process` and `--worker thread`; see test_both_workers.py."""

import json
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.command_line import FAST, PATIENCE_S, CommandLine, events_from, next_event

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.model import CaseFailed, CaseFinished, RunFinished, RunStarted

WORKERS = ("process", "thread")
HANGING = ("run", "--simulate", f"{FAST},hang_size=64", "--size", "32,64,128", "--rounds", 1, "--json")
SLOW = f"{FAST},sync_ns=160000,kernel_overhead_ns=40000,cpu_ns_per_flop=0.4,gpu_ns_per_flop=0.001"

HOSTILE = """
import sys
from cpugpu_tui.workloads import Workload, workload

def own(name, step):
    members = dict(
        name=name, axis="elements", sizes=(10,), summary="", __doc__=name, step=step,
        inputs=lambda self, n, dtype, generator: (__import__("torch").rand(n, generator=generator, dtype=dtype),),
        flops=lambda self, n: float(n), bytes_moved=lambda self, n, itemsize_bytes: 2.0 * n * itemsize_bytes,
    )
    workload(type(name, (Workload,), members))

own("exits", lambda self, x: sys.exit(5))
own("interrupts", lambda self, x: (_ for _ in ()).throw(KeyboardInterrupt))
own("good", lambda self, x: x + 1)
"""


def kinds(events):
    """Return workload and size → `ok` or the kind of failure."""
    ended = [event for event in events if isinstance(event, CaseFinished | CaseFailed)]
    names = {event.case: "/".join(event.case.split("/")[0:3:2]) for event in ended}
    return {names[event.case]: getattr(event, "kind", "ok") for event in ended}


@pytest.fixture(params=WORKERS)
def worker(request):
    return str(request.param)


def test_a_run_is_saved_as_it_was_printed(cpugpu, worker):
    machine = f"{FAST},oom_size=32,mismatch_size=64,error_size=128"
    done = cpugpu("run", "matmul", "--simulate", machine, "--size", "32,64,128,256", "--worker", worker, "--json")
    assert done.code == EXIT_CASES_FAILED
    assert kinds(done.events) == {
        "matmul/32": "oom",
        "matmul/64": "mismatch",
        "matmul/128": "error",
        "matmul/256": "ok",
    }
    shown = cpugpu("show", "--json")
    assert kinds(shown.events) == kinds(done.events)
    (started,) = (event for event in shown.events if isinstance(event, RunStarted))
    assert started.environment["worker"] == worker


def test_a_workload_that_exits_spoils_only_its_row_in_a_thread_too(cpugpu, tmp_path):
    """SystemExit ended the thread, and the run waited for ever. For the process see test_hostile_workload.py.

    In a program of its own: a thread loads workloads into this one.
    """
    path = tmp_path / "own.py"
    path.write_text(HOSTILE)
    done = cpugpu("run", "exits", "interrupts", "good", "--workloads", path, "--device", "cpu", "--rounds", 2,
                  "--scale", "small", "--worker", "thread", "--json", PYTHONUNBUFFERED="1")  # fmt: skip
    assert kinds(done.events) == {"exits/10": "error", "interrupts/10": "crashed", "good/10": "ok"}


def test_a_search_finds_the_same_crossover(cpugpu):
    answers: list[Any] = []
    for worker in WORKERS:
        done = cpugpu("run", "matmul", "--find-crossover", "--max-size", "2000", "--simulate", SLOW, "--worker", worker,
                      "--json", code=EXIT_OK)  # fmt: skip
        answers += [json.loads(line) for line in done.out.splitlines() if '"event": "Answer"' in line]
    assert answers[0]["sweeps"] == answers[1]["sweeps"]


def ended_by(process, number):
    """Send a signal until the process ends, as people press ctrl+c: two that come at once are one to the kernel."""
    for _ in range(100):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1 if number == signal.SIGINT else PATIENCE_S)
            return


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_case_that_hangs_is_left_behind_and_the_others_are_saved(cpugpu, worker, number):
    """Nothing can end a thread: the program ends without it."""
    with cpugpu.start(*HANGING, "--worker", worker) as process:
        next_event(process, lambda event: isinstance(event, CaseFinished))
        ended_by(process, number)
        ended = [event for event in events_from(process) if isinstance(event, CaseFailed | RunFinished)]
    assert process.returncode == 128 + number
    assert {event.kind for event in ended if isinstance(event, CaseFailed)} == {"skipped"}
    (run,) = cpugpu("history", "--json").objects
    assert (run["status"], run["cases_ok"], run["cases_skipped"]) == ("stopped", 1, 2)


def test_the_app_runs_pauses_resumes_and_stops(worker, tmp_path):
    command = [sys.executable, "-m", "cpugpu_tui", "--simulate", "pace=1", "--worker", worker]
    env = {"XDG_STATE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with PtyApp([*command, "--db", str(tmp_path / "history.db")], columns=120, rows=40, env=env) as app:
        app.until_text("ready")
        app.send("r")
        app.until_text("▲ GPU")
        app.send(" ")
        app.until_text("paused")
        app.send(" ")
        app.until(lambda app: "paused" not in app.text)
        app.send("x")
        app.until_text("stopped")
        app.quit()
    (run,) = CommandLine(tmp_path / "history.db")("history", "--json").objects
    assert run["status"] == "stopped"
