"""A history that takes nothing: the run goes on, stderr says why it is not saved, and the exit code is 4."""

import pytest
from tests.helpers.bench.history_attempt import locked
from tests.helpers.command_line import FAST, CommandLine, next_event

from cpugpu_tui.cli.running import saving
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_FAILED, EXIT_OK, EXIT_UNFIT
from cpugpu_tui.model import CaseFinished, RunFinished

SMALL = ("--size", "16,64", "--rounds", "5", "--simulate", FAST)
RUN = ("run", "matmul", *SMALL)


@pytest.fixture
def nowhere(cpugpu):
    """A history in a folder that is not there."""
    cpugpu.database = cpugpu.database.parent / "nowhere" / "history.db"
    return cpugpu


@pytest.mark.parametrize(
    "words",
    [
        RUN,
        (*RUN, "--json"),
        (*RUN, "--repeat", "2"),
        ("fleet", "run", "matmul", "-w", "n[1-2]", "--launcher", "local", *SMALL),
        ("machine", "--measure", "--simulate", FAST),
    ],
    ids=["run", "json", "repeat", "fleet", "machine"],
)
@pytest.mark.usefixtures("agents_here")
def test_whatever_runs_says_in_the_end_that_it_is_not_saved(nowhere, words):
    done = nowhere(*words, code=EXIT_UNFIT)
    (said,) = [line for line in done.err.splitlines() if line.startswith("Not saved: ")]
    assert str(nowhere.database.parent) in said
    assert "--db" in said
    assert "Traceback" not in done.err
    assert "simulated CPU" in done.out or words[0] == "fleet", "what was timed is shown"
    if words[0] == "run":
        cases = 4 if "--repeat" in words else 2
        assert f" {cases} cases " in said


def test_a_code_that_tells_of_the_results_stays(nowhere):
    done = nowhere.here("run", "matmul", "--size", "16,64", "--rounds", "5", "--simulate", f"{FAST},error_size=64")
    assert done.code == EXIT_CASES_FAILED
    assert "Not saved: " in done.err


def test_what_is_not_to_be_saved_is_no_failure(nowhere):
    done = nowhere.here(*RUN, "--no-save")
    assert (done.code, done.err) == (EXIT_OK, "")


def test_a_lock_that_ends_costs_nothing_and_one_that_stays_costs_exit_4(cpugpu):
    slow = (*RUN[:-1], f"{FAST},pace=1", "--json")
    for stays in (False, True):
        with cpugpu.start(*slow) as process:
            next_event(process, lambda event: isinstance(event, CaseFinished))
            with locked(cpugpu.database):
                next_event(process, lambda event: isinstance(event, RunFinished))
                said = process.stderr.read() if stays else b""
            said += process.stderr.read()
        assert process.returncode == (EXIT_UNFIT if stays else EXIT_OK)
        assert (b"Not saved: " in said) is stays
        assert b"locked by another program" in said or not stays, "a lock that ends at once is not worth a word"
    with cpugpu.store() as store:
        assert [(run.status, run.cases_ok) for run in store.runs()] == [("interrupted", 1), ("done", 2)]  # newest first


@pytest.fixture(scope="module")
def based(tmp_path_factory):
    """A history with five runs that are the baseline main; only copied."""
    made = CommandLine(tmp_path_factory.mktemp("based") / "history.db")
    assert made.here(*RUN, "--repeat", "5").code == EXIT_OK
    assert made.here("baseline", "main", "latest").code == EXIT_OK
    return made


@pytest.mark.parametrize(("simulated", "code"), [(FAST, EXIT_UNFIT), (f"{FAST},gpu_ns_per_flop=0.2", 1)])
@pytest.mark.usefixtures("agents_here")
def test_a_gate_that_passes_unsaved_exits_4_and_one_that_fails_exits_1(cpugpu, based, monkeypatch, simulated, code):
    monkeypatch.setattr(saving, "LAST_TRY_S", 0.1)
    cpugpu.take_over(based)
    with locked(cpugpu.database):
        done = cpugpu.here("gate", "--baseline", "main", "--simulate", simulated)
    assert done.code == code, done.out
    assert code in (EXIT_UNFIT, EXIT_CHECK_FAILED)
    assert "Not saved: " in done.err
    assert "PASSED" in done.out.upper() or code == EXIT_CHECK_FAILED
