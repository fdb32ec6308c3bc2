"""Wrong input, missing things, rogue interpreters: one sentence, the right exit code, no traceback, nothing lost."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from tests.helpers.command_line import FAST, Witness, agents_of, events_of
from tests.helpers.machine.fake_interpreters import interpreter

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE
from cpugpu_tui.model import CaseFailed, CaseFinished

RUN = ("run", "--simulate", FAST)


def assert_one_line(err, *words):
    """Cause and remedy, on one line, and no traceback."""
    assert "Traceback" not in err
    (line,) = err.splitlines()
    assert re.fullmatch(r"cpugpu-tui: \S.*[.…]( \S.*)?", line), line
    for word in words:
        assert word in line


# ------------------------------------------------------------------ words that are none


def test_with_json_the_failure_is_an_event_too(cpugpu):
    done = cpugpu.here(*RUN, "--size", "abc", "--json")
    (event,) = events_of(done.out)
    assert (event.status, event.exit_code, done.code) == ("failed", EXIT_USAGE, EXIT_USAGE)
    assert f"{event.message} {event.remedy}" in done.err


def test_nothing_of_a_refused_run_is_in_the_history(cpugpu):
    cpugpu.here(*RUN, "--size", "0")
    cpugpu.here(*RUN, "--python", "/no/such/python")
    assert cpugpu.here("history", "--json").objects == []


# ------------------------------------------------------------------ devices that are not there


@pytest.mark.parametrize(
    "machine", [("--simulate", FAST), pytest.param((), marks=pytest.mark.slow)], ids=["simulated", "real"]
)
def test_a_gpu_that_is_not_there_is_exit_code_4(cpugpu, machine):
    done = cpugpu("run", *machine, "--size", "16,32", "--device", "cuda:77", "--json", code=EXIT_UNFIT)
    assert_one_line(done.err, "cuda:77")
    end = done.events[-1]
    assert (end.status, end.exit_code) == ("failed", EXIT_UNFIT)
    assert done.events == [end], "a run began"


@pytest.mark.slow
def test_what_does_not_fit_is_a_row_with_need_and_free_and_the_rest_goes_on(cpugpu):
    """Two matrices and their product of 10 million rows are 1,200 TB: no machine has that."""
    done = cpugpu("run", "matmul", "--size", "10000000,16", "--device", "cpu", "--rounds", 1, "--json")
    assert done.code == EXIT_CASES_FAILED
    (failure,) = [event for event in done.events if isinstance(event, CaseFailed)]
    assert failure.kind == "oom"
    assert "1,200,000 GB" in failure.message
    assert failure.remedy
    (finished,) = [event for event in done.events if isinstance(event, CaseFinished)]
    assert "/16/" in finished.case


# ------------------------------------------------------------------ interpreters


def script(folder, text):
    """Write an executable shell script."""
    return interpreter(folder / "python", text)


def run_with(cpugpu, python, *more):
    return cpugpu(*RUN, "--size", "64", "--python", python, *more)


def test_an_interpreter_without_torch_is_said_with_the_remedy(cpugpu, bare_python):
    done = cpugpu("run", "--size", "16", "--python", bare_python)
    assert (done.code, done.out) == (EXIT_UNFIT, "")
    assert_one_line(done.err, str(bare_python), "No module named 'torch'", "--python auto")


def test_a_program_that_is_no_python(cpugpu):
    done = run_with(cpugpu, "/bin/true")
    assert (done.code, done.out) == (EXIT_UNFIT, "")
    assert_one_line(done.err, "/bin/true", "exit code 0", "3.10", "--python PATH")


def test_a_program_that_prints_something_else_is_quoted(cpugpu, tmp_path):
    rogue = script(tmp_path, r"printf 'Welcome to the cluster\n\377\000\033[31mred\nnothing\n'; exit 3")
    done = run_with(cpugpu, rogue)
    assert done.code == EXIT_UNFIT
    assert_one_line(done.err, "exit code 3", '"nothing"')


def test_banners_before_the_agent_disturb_nobody(cpugpu, tmp_path):
    """`module load` and friends greet on stdout; a 2 MB line is dropped while it arrives."""
    banners = r"printf 'Welcome\n\377\000{{{\n[1,2]\nnull\n'; head -c 2000000 /dev/zero | tr '\0' x; echo"
    wrapper = script(tmp_path, f'{banners}\nexec {sys.executable} "$@"')
    done = run_with(cpugpu, wrapper, "--json")
    assert (done.code, done.err) == (EXIT_OK, "")
    assert any(isinstance(event, CaseFinished) for event in done.events)


def test_a_line_without_an_end_is_no_agent(cpugpu, tmp_path):
    done = run_with(cpugpu, script(tmp_path, r"head -c 2000000 /dev/zero | tr '\0' x"))
    assert done.code == EXIT_UNFIT
    assert_one_line(done.err, "agent")
    assert len(done.err) < 1000


def test_an_agent_of_another_version_is_named_and_ended(cpugpu, tmp_path):
    hello = '{"event":"Hello","protocol":99,"dreams":[1]}'
    done = run_with(cpugpu, script(tmp_path, f"echo '{hello}'; exec sleep 600"))
    assert (done.code, done.out) == (EXIT_UNFIT, "")
    assert_one_line(done.err, "protocol 99", "same version")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, EXIT_INTERRUPTED), (signal.SIGTERM, 143)], ids=["ctrl+c", "SIGTERM"]
)
def test_a_program_that_never_says_anything_can_be_stopped(cpugpu, tmp_path, number, code):
    started = tmp_path / "started"
    os.mkfifo(started)
    silent = script(tmp_path, f"echo > {started}; exec sleep 600")
    with cpugpu.start(*RUN, "--python", silent) as process:
        started.read_text()
        (agent,) = [Witness(pid) for pid in agents_of(process)]
        process.send_signal(number)
        assert process.stderr.read() == b""
    assert process.returncode == code
    assert agent.sees_the_end()


# ------------------------------------------------------------------ a history that cannot be


def unusable_place(kind, folder):
    if kind == "missing folder":
        return folder / "nope" / "x.db"
    if kind == "a file where the folder should be":
        (folder / "file").touch()
        return folder / "file" / "x.db"
    if kind == "a folder":
        return folder
    if kind == "a folder that takes no files":
        return Path("/proc/history.db")
    diary = folder / "diary.txt"
    diary.write_text("Dear diary, this is no database, and nobody may overwrite it. " * 20)
    return diary


@pytest.mark.parametrize(
    "kind",
    ["missing folder", "a file where the folder should be", "a folder", "another file", "a folder that takes no files"],
)
def test_without_a_history_the_run_goes_on_says_so_and_exits_4(cpugpu, tmp_path, kind):
    place = unusable_place(kind, tmp_path)
    before = place.read_bytes() if place.is_file() else None
    done = cpugpu.here(*RUN, "--size", "64", "--db", place)
    assert done.code == EXIT_UNFIT
    assert done.err.startswith("Not saved: ")
    (said,) = [line for line in done.out.splitlines() if line.startswith("Not saved")]
    assert str(place.parent if kind.endswith(("missing folder", "should be")) else place) in said
    assert "--db" in said
    assert re.search(r"\b(19|20)\d µs", done.out), "the time is shown all the same"
    if before is not None:
        assert place.read_bytes() == before
