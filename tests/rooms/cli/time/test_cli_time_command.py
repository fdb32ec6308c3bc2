"""`cpugpu-tui time -- COMMAND`: whole processes from the command line to the table."""

import shlex
import signal
import sys

import pytest
from tests.helpers.command_line import until

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from cpugpu_tui.machine.processes import is_running
from cpugpu_tui.model import CodeTraced, DeviceSampled

HERE = ("--device", "cpu", "--rounds", "2")
PYTHON = ("env", sys.executable, "-I", "-S", "-c")


@pytest.mark.usefixtures("agents_here")
def test_a_command_becomes_rows_and_its_line_repeats_it(cpugpu, tmp_path):
    command = ("sh", "-c", "printf $1 >> $0-$2", f"{tmp_path}/kept", "{n}", "{k}")
    words = ("time", "--let", "k=a,b", "--n", "2,3", *HERE, "--", *command)
    done = cpugpu.here(*words)
    assert (done.code, done.err) == (EXIT_OK, "")
    assert set((tmp_path / "kept-a").read_text()) == set((tmp_path / "kept-b").read_text()) == {"2", "3"}
    assert "GPUs hidden by an empty CUDA_VISIBLE_DEVICES" in cpugpu.here("show", "1", "--explain").out
    assert shlex.split(done.out.rpartition("Again: cpugpu-tui ")[2]) == list(words)


@pytest.mark.usefixtures("agents_here")
def test_the_receipt_and_at_least_five_rounds_are_events(cpugpu):
    startup = shlex.join((*PYTHON, "pass"))
    done = cpugpu("time", "--device", "cpu", "--startup", startup, "--json", "--no-save", "--", *PYTHON, "pass")
    assert done.code == EXIT_OK, done.err
    (traced,) = (event for event in done.events if isinstance(event, CodeTraced))
    assert traced.used.processes == 1
    assert traced.used.startup_ns is not None
    rounds = [event for event in done.events if isinstance(event, DeviceSampled) and event.round_index]
    assert len(rounds) >= 5
    assert {tuple(event.samples) for event in rounds} == {("latency",)}


@pytest.mark.usefixtures("agents_here")
def test_a_failing_command_is_a_failed_case(cpugpu):
    done = cpugpu("time", *HERE, "--", *PYTHON, "raise SystemExit('no data set here')", code=EXIT_CASES_FAILED)
    said = " ".join(done.out.split())
    assert "exit code 1: no data set here. Its output is in" in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--",), "Missing command"),
        ((), "Missing STATEMENT"),
        (("x", "--", "true"), "STATEMENT"),
        (("--dtype", "float64", "--", "true"), "--dtype"),
        (("--startup", "", "--", "true"), "--startup"),
        (("--startup", "true", "1 + 1"), "--startup"),
        (("--let", "k=1", "--", "true"), "k=1"),
        (("--let", "n=1", "--", "true", "{n}"), "'n'"),
        (("--n", "4", "--", "true", "--on={devcie}", "{n}"), "placeholder {devcie}. Did you mean {device}?"),
        (("--let", "model=a", "--", "true", "{modle}"), "Did you mean {model}?"),
        (("--n", "5", "--", "true"), "{n}"),
        (("--", "true", "{n}"), "Add --n"),
        (("--", "true", "{n}", "--n", "1,5"), "before --, for example: --n 16,64 -- true"),
        (("--", "true", "{k}", "--let", "k=1,2"), "before --, for example: --let k=1,2 -- true"),
        (("--", "true", "{n}", "--size=1,5"), "before --, for example: --size 16,64 -- true"),
        (("--", "no-such-program"), "no-such-program"),
        (("--simulate", "default", "--", "true"), "simulated"),
    ],
)
def test_bad_words_are_a_sentence(cpugpu, words, named):
    done = cpugpu.here("time", *words, code=EXIT_USAGE)
    assert named in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, EXIT_INTERRUPTED), (signal.SIGKILL, -signal.SIGKILL)])
def test_no_process_of_a_command_outlives_the_run(cpugpu, tmp_path, number, code):
    """Even if it left the group of its parent."""
    file = tmp_path / "pid"
    hang = f"import os, time; os.setsid(); open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    run = cpugpu.start("time", *HERE, "--", "sh", "-c", f"{shlex.join((*PYTHON, hang))}; true")
    until(lambda: file.exists() and file.read_text() != "")
    run.send_signal(number)
    assert run.wait(60) == code
    run.communicate()
    pid = int(file.read_text())
    until(lambda: not is_running(pid))


def test_a_command_is_ended_at_the_time_limit_which_says_what_it_would_have_needed(
    cpugpu, tmp_path, words, limits_when_ready
):
    """Its call went on beyond the limit, and 3600 s on each device were asked for."""
    command = ("sh", "-c", f"sleep 20 && touch {tmp_path}/late")
    done = cpugpu.here("time", *HERE, "--max-seconds", "0.5", "--no-save", "--", *command, code=EXIT_CASES_FAILED)
    assert not (tmp_path / "late").exists()
    words("\n".join(line for line in done.out.splitlines() if "skipped" in line or "No size" in line))
