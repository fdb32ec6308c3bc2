"""`cpugpu-tui run` as a person calls it: what is on stdout, what on stderr, what is saved, how it exits."""

import json
import os
import pty
import shlex
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.helpers.command_line import FAST, PATIENCE_S, agents_of, next_event
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_USAGE
from cpugpu_tui.model import CaseFailed, CaseFinished, CaseStarted, Gap, RunStarted, TelemetryRead
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.render.sentences import heading
from cpugpu_tui.state.folding import folded

RUN = ("run", "--simulate", FAST)
PACED = f"{FAST},pace=0.4"


def statuses(events):
    """Size → status."""
    return {row.case.size: row.status for row in folded(events).rows.values()}


# ------------------------------------------------------------------ a good run


def test_a_run_is_a_table_on_stdout_and_nothing_on_stderr(cpugpu):
    done = cpugpu(*RUN, "--size", "64,2048")
    assert (done.code, done.err) == (EXIT_OK, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("SIMULATED")
    assert "simulated CPU · simulated GPU · 2 CPU threads" in lines[0]
    assert [line.split()[0] for line in lines if line.split() and line.split()[0] in ("64", "2,048")] == ["64", "2,048"]
    assert "The GPU wins" in done.out
    assert "cpugpu-tui show 1" in done.out


def test_json_is_the_events_and_the_answer_before_the_last_and_nothing_else(cpugpu):
    done = cpugpu(*RUN, "--size", "64,128", "--json")
    assert (done.code, done.err) == (EXIT_OK, "")
    events = done.events
    assert len(events) == len(done.out.splitlines()) - 1
    answer = json.loads(done.out.splitlines()[-2])
    assert answer["event"] == "Answer"
    (sweep,) = answer["sweeps"]
    assert (sweep["sweep"], sweep["sentences"]) == ("matmul", list(answer_lines(folded(events))))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    started, finished = events[0], events[-1]
    assert started.number == 1
    assert started.environment["argv"] == ["run", "--simulate", FAST, "--size", "64,128", "--json"]
    assert (finished.status, finished.exit_code) == ("done", EXIT_OK)
    assert statuses(events) == {64: "ok", 128: "ok"}
    assert not [event for event in events if isinstance(event, Gap)]


def test_what_was_shown_is_what_was_saved(cpugpu):
    shown = folded(cpugpu.here(*RUN, "--size", "64,128", "--json").events)
    with cpugpu.store() as store:
        assert integrity_check(store) == []
        saved = folded(store.load(store.find("latest")))
    assert (saved.rows, saved.devices, saved.finished) == (shown.rows, shown.devices, shown.finished)


def test_without_a_terminal_the_app_is_run_quick(cpugpu, words):
    done = cpugpu(CPUGPU_SIMULATE=FAST, code=EXIT_OK)
    words(done.err)
    assert "2,048" in done.out


def test_a_misspelt_theme_is_refused_where_no_app_opens(cpugpu, tmp_path):
    """`quick` ran instead, and nobody was told."""
    done = cpugpu("--theme", "forst", XDG_CONFIG_HOME=str(tmp_path))
    assert (done.code, done.out) == (EXIT_USAGE, "")
    assert done.err == "cpugpu-tui: Unknown theme 'forst'. Did you mean 'forest'?\n"


def test_a_heading_without_a_device_has_no_empty_part(cpugpu):
    started = cpugpu.here("run", "matmul", "--size", "64", "--simulate", FAST, "--json").events[0]
    assert heading(folded([started])) == "SIMULATED: no number here was measured. matmul, float32"


@pytest.mark.usefixtures("agents_here")
def test_nothing_is_written_where_nothing_shall_be_saved(cpugpu):
    """`limited by` was missing without a word. Peak rates are read, or the command that measures them is named."""
    run = (*RUN, "--size", "64", "--no-save")
    done = cpugpu.here(*run, code=EXIT_OK)
    assert not cpugpu.database.exists()
    assert "Saved" not in done.out
    (measure,) = (line for line in done.out.splitlines() if "--measure" in line)
    assert cpugpu.here(*shlex.split(measure.partition("cpugpu-tui ")[2])).code == EXIT_OK
    before = cpugpu.database.read_bytes()
    done = cpugpu.here(*run, code=EXIT_OK)
    assert "limited by" in done.out
    assert "--measure" not in done.out
    code = ("x @ x", "--against", "x @ x", "--setup", "x = torch.rand(n, n)")
    duet = ("time", *code, "--n", "64", *RUN[1:], "--no-save")
    fleet = ("fleet", *run, "-w", "n1", "--launcher", "local", "--python", sys.executable)
    for each in ((*duet, "--no-save", "--max-seconds", "0.01"), fleet):
        plans = [told["plan"] for told in cpugpu.here(*each, "--json").objects if told["event"] == "RunStarted"]
        assert plans
        assert all(plan["ceilings"] for plan in plans[:2]), each
    assert cpugpu.database.read_bytes() == before


def test_repeats_are_runs_of_one_series(cpugpu):
    done = cpugpu.here(*RUN, "--size", "64", "--repeat", 3, "--json")
    started = [event for event in done.events if isinstance(event, RunStarted)]
    assert [event.number for event in started] == [1, 2, 3]
    assert len({event.series_id for event in started}) == 1
    assert len({event.run_id for event in started}) == 3
    with cpugpu.store() as store:
        assert {run.series_id for run in store.runs()} == {started[0].series_id}


def test_a_thread_may_run_the_kernels_and_the_run_says_so(cpugpu):
    done = cpugpu(*RUN, "--size", "64,128", "--worker", "thread", code=EXIT_OK)
    assert "worker: thread" in done.out
    started = cpugpu.here("show", "latest", "--json").events[0]
    assert started.environment["worker"] == "thread"


def test_another_environments_torch_times_the_real_cpu(cpugpu, torch_python, words):
    """The one real run here: another interpreter, real tensors, checked results."""
    done = cpugpu("run", "--device", "cpu", "--size", "16,32", "--rounds", 1, "--python", torch_python, "--json")
    assert (done.code, done.err) == (EXIT_OK, "")
    started = done.events[0]
    assert started.environment["interpreter"] == str(torch_python)
    assert started.environment["torch"]
    for row in folded(done.events).rows.values():
        assert row.status == "ok"
        assert row.check.error < row.check.tolerance
        assert row.cpu.latency_ns
        assert row.cpu.calibrated.threads == started.environment["threads"]
    words(answer_lines(folded(done.events))[0])


# ------------------------------------------------------------------ not all well


def test_a_case_that_hangs_costs_its_own_time_limit(cpugpu):
    machine = f"{FAST},hang_size=64"
    done = cpugpu.here("run", "--simulate", machine, "--size", "32,64,128", "--case-timeout", 0.5, "--json")
    assert done.code == EXIT_CASES_FAILED
    assert statuses(done.events) == {32: "ok", 64: "timeout", 128: "ok"}
    (failure,) = [event for event in done.events if isinstance(event, CaseFailed)]
    assert "0.5 s" in failure.message
    assert "cpu" in failure.message
    assert "--case-timeout" in failure.remedy
    assert "--case-timeout 0.5" in cpugpu.here("show").out  # "Again:"


def test_sizes_are_given_by_the_option_of_time_as_well(cpugpu):
    """`run matmul --n 64` was refused with "Possible options: --band, --json, --mnist"."""
    assert statuses(cpugpu.here("run", "matmul", "--n", "64", "--simulate", FAST, "--json").events) == {64: "ok"}


def test_the_time_limit_begins_with_the_program(cpugpu, monkeypatch):
    """It began with the plan: a run with --max-seconds 4 took up to 8.8 s."""
    earlier = SimpleNamespace(monotonic=lambda: time.monotonic() - 100)
    monkeypatch.setattr("cpugpu_tui.__main__.time", earlier)
    done = cpugpu.here("run", "--simulate", FAST, "--size", "64", "--max-seconds", "100", "--no-save")
    assert done.code == EXIT_CASES_FAILED
    assert "had not started" in done.err


def test_what_time_does_not_reach_is_skipped_and_that_is_no_failure(cpugpu, words, limits_when_ready):
    sizes = ",".join(str(size) for size in range(64, 84))
    done = cpugpu.here("run", "--simulate", PACED, "--size", sizes, "--max-seconds", 0.8, "--json")
    kinds = list(statuses(done.events).values())
    assert done.code == (EXIT_OK if "ok" in kinds else EXIT_CASES_FAILED)
    assert kinds[-1] == "skipped"
    assert set(kinds) <= {"ok", "skipped"}
    (message,) = {event.message for event in done.events if isinstance(event, CaseFailed)}
    words(message)


def test_telemetry_is_part_of_a_run(cpugpu):
    events = cpugpu("run", "--simulate", PACED, "--size", "64,65,66", "--json").events
    readings = [event for event in events if isinstance(event, TelemetryRead)]
    assert readings
    assert readings[0].host["memory_total_bytes"].value
    saved = cpugpu.here("show", "latest", "--json").events
    assert [event for event in saved if isinstance(event, TelemetryRead)] == readings


def test_a_reader_that_goes_away_leaves_no_agent(cpugpu):
    """`cpugpu-tui run --json | head -1`."""
    process = cpugpu.start("run", "--simulate", f"{PACED},hang_size=64", "--size", "32,64", "--json")
    with process:
        next_event(process, lambda event: isinstance(event, CaseStarted))
        (agent,) = agents_of(process)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 128 + signal.SIGPIPE  # docs/commands.md, "Exit codes"
    assert not Path(f"/proc/{agent}").exists()


# ------------------------------------------------------------------ progress


def run_on_a_terminal(cpugpu, *arguments):
    """Run with stderr on a pseudo-terminal and stdout in a pipe; return both."""
    ours, theirs = pty.openpty()
    with cpugpu.start(*arguments, stderr=theirs) as process:
        os.close(theirs)
        painted = b""
        out: list[bytes] = []
        # Meanwhile, because 64 kB of unread events would stop the run.
        reader = threading.Thread(target=lambda: out.append(process.stdout.read()))  # type: ignore[union-attr]
        reader.start()
        try:
            while chunk := os.read(ours, 4096):
                painted += chunk
        except OSError:  # EIO: the last writer closed the terminal
            pass
        reader.join(PATIENCE_S)
    os.close(ours)
    assert process.returncode == EXIT_OK
    return out[0].decode(), painted.decode()


def test_progress_is_one_line_on_a_terminal_and_is_removed(cpugpu):
    out, painted = run_on_a_terminal(cpugpu, *RUN, "--size", "64,128,256", "--rounds", "3", "--json")
    assert painted.endswith("\r\x1b[K")
    assert "3 of 3" in painted
    assert "matmul" in painted
    assert "\n" not in painted
    assert "\x1b" not in out


def test_finished_cases_come_before_the_end(cpugpu):
    """Whoever reads along sees the first result while the rest is still being timed."""
    with cpugpu.start("run", "--simulate", PACED, "--size", "64:74:1", "--json") as process:
        next_event(process, lambda event: isinstance(event, CaseFinished))
        assert process.poll() is None
        process.terminate()
        process.stdout.read()
