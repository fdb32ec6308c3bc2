"""`run --python A --python B` and `gate --against` as a person meets them: words, files, history, exit codes."""

import json
import re
import signal
import sys
import time
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from tests.helpers.command_line import FAST, PATIENCE_S, CommandLine
from tests.helpers.machine.fake_interpreters import interpreter

from cpugpu_tui.cli.running import modes
from cpugpu_tui.compare import in_turn
from cpugpu_tui.compare.series import Series
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE
from cpugpu_tui.model import DUET, CaseFinished, RunFinished, RunStarted

SIMULATED = f"{FAST},noise=0.002"
SLOWER = f"{SIMULATED},duet_factor=1.02"
RESTLESS = f"{SLOWER},placebo_factor=1.05"
RUN = ("run", "matmul", "--size", "2048")


@pytest.fixture(scope="module")
def pythons(tmp_path_factory):
    """This interpreter under two names. It runs the agent from here: each start compiles a zip anew, 0.2 s of CPU."""
    folder = tmp_path_factory.mktemp("pythons")
    agent = f'shift; exec {sys.executable} -P -m cpugpu_tui.agent "$@"'
    old, new = (interpreter(folder / name, agent) for name in ("old", "new"))
    return old, new


@pytest.fixture
def both(pythons):
    return "--python", pythons[0], "--python", pythons[1]


def comparison(done):
    found: dict[str, object] = json.loads(done.out.splitlines()[-1])
    assert found["event"] == "Comparison"
    return found


def words_of(told):
    verdicts = told["verdicts"]
    assert isinstance(verdicts, list)
    return {f"{each['device']} {each['metric']}": each["verdict"] for each in verdicts}


# ------------------------------------------------------------------ run


def test_time_with_two_interpreters_is_a_duet_too(cpugpu, both, monkeypatch):
    """The first of two --python was dropped without a word."""
    asked: list[list[str | None]] = []

    def note(_request, _options, sides, *_, **_more):
        asked.append([side.python for side in sides])
        return EXIT_OK

    monkeypatch.setattr(modes, "run_in_turn", note)
    assert cpugpu.here("time", "torch.ones(n)", "--n", "2048", "--simulate", FAST, *both).code == EXIT_OK
    assert asked == [list(both[1::2])]


@pytest.fixture(scope="module")
def told_of_2_percent(pythons, tmp_path_factory):
    """A history with a duet that differs by 2 %, and what `--json` said of it."""
    cpugpu = CommandLine(tmp_path_factory.mktemp("duet") / "history.db")
    return cpugpu, cpugpu.here(*RUN, "--simulate", SLOWER, "--python", pythons[0], "--python", pythons[1], "--json")


def test_two_percent_are_found_and_every_run_is_in_the_history(told_of_2_percent):
    cpugpu, done = told_of_2_percent
    told = comparison(done)
    assert done.code == EXIT_OK, done.err
    assert words_of(told) == {"CPU latency": "SAME", "GPU latency": "SLOWER", "GPU device": "SLOWER"}
    assert told["bands"] == {"latency": 0.007, "device": 0.005}
    assert told["placebo"]["moved"] is False  # type: ignore[index]
    duet = told["duet"]
    assert duet["start_up_s"] > duet["timing_s"] > 0
    started = [event for event in done.events if isinstance(event, RunStarted)]
    assert len(started) == 2 * duet["pairs"]
    keys = [event.environment[DUET] for event in started]
    assert keys[::2] == keys[1::2], "both runs of a pair carry its key"
    assert len(set(keys)) == duet["pairs"]
    assert [event.plan.turns for event in started[:2]] == [3, 2]
    # The saved series belong together, too.
    numbers = (told[side]["numbers"][0] for side in ("base", "new"))  # type: ignore[index]
    saved = comparison(cpugpu.here("compare", *numbers, "--json"))
    assert words_of(saved) == words_of(told)
    assert (saved["bands"], saved["verdicts"]) == (told["bands"], told["verdicts"])


def test_the_events_of_a_run_stay_together(told_of_2_percent):
    events = told_of_2_percent[1].events
    runs, numbers = 0, list[int]()
    for event in events:
        runs += isinstance(event, RunStarted)
        numbers.append(event.seq)
        if isinstance(event, RunFinished):
            assert numbers == list(range(1, len(numbers) + 1))
            numbers = []
    assert runs == 10
    # Only the first pair of agents checks results; each of the others has the same code.
    checked = [event.check is not None for event in events if isinstance(event, CaseFinished)]
    assert checked == [True] * 2 + [False] * 8


def test_equal_cases_are_the_same_and_one_that_kills_its_agent_is_said_once_and_not_tried_again(cpugpu, both, words):
    simulated = f"{SIMULATED},crash_size=64"
    done = cpugpu.here("run", "matmul", "--size", "64,2048", "--simulate", simulated, *both, code=EXIT_CASES_FAILED)
    assert done.err.count("matmul/default/64/") == 2, "once for each side"
    assert "NOT COMPARABLE: crashed in the base series and crashed in the new series" in done.out
    assert done.out.count("SAME") == 4, "three verdicts, and the sentence that explains them"
    assert re.search(r"5 pairs +SAME", done.out)
    words(re.sub(r"\d+:\d\d", "TIME", done.out.splitlines()[-1]))
    words(next(line for line in done.out.splitlines() if line.startswith("SAME means")))
    only = cpugpu.here("run", "matmul", "--size", "64", "--simulate", simulated, *both, code=EXIT_CASES_FAILED)
    words(re.sub(r"/\S+/(old|new)( \(run \d+\))?", r"\1", only.err))


@pytest.mark.usefixtures("agents_here")
def test_max_seconds_ends_it_before_a_pair_that_would_end_too_late(cpugpu, both, monkeypatch):
    begun, run_pair = [], in_turn._run_pair
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 60 * len(begun), sleep=time.sleep)
    monkeypatch.setattr(in_turn, "time", late)
    monkeypatch.setattr(in_turn, "_run_pair", lambda *given: begun.append(given) or run_pair(*given))
    limits = ("--max-seconds", "100", "--band", "latency=4%")
    told = comparison(cpugpu.here(*RUN, "--simulate", SIMULATED, *both, *limits, "--json"))
    assert set(words_of(told).values()) == {"TOO FEW RUNS"}
    assert told["duet"]["pairs"] == 1  # type: ignore[index]
    assert told["bands"] == {"latency": 0.04, "device": 0.005}
    assert "Allow more time with --max-seconds." in cpugpu.here("compare", "1", "2", code=EXIT_OK).out
    in_22_s = in_turn.Played((), Series("", ()), is_cut=True, pairs=1, visits_s=2.0, start_up_s=20.0)
    assert in_22_s.text.endswith("5 are needed: about --max-seconds 110.")


def test_max_seconds_is_obeyed_while_the_agents_start(cpugpu, tmp_path, words):
    """A limit of 3 s let 56 s pass while three agents imported torch."""
    asleep = interpreter(tmp_path / "asleep", "exec sleep 600")
    done = cpugpu.here(*RUN, "--simulate", SIMULATED, "--python", asleep, "--python", asleep, "--max-seconds", "0.5",
                       "--json", code=EXIT_CASES_FAILED)  # fmt: skip
    assert isinstance(done.events[-1], RunFinished)
    words(done.err)


def test_runs_of_a_series_that_would_start_too_late_are_not_tried(cpugpu, tmp_path):
    asleep = interpreter(tmp_path / "asleep", "exec sleep 600")
    done = cpugpu.here(*RUN, "--simulate", SIMULATED, "--python", asleep, "--max-seconds", "1.5", "--repeat", "3")
    assert done.code == EXIT_CASES_FAILED
    assert done.err.count("had not started within the time limit of 0.5 s for a run (--max-seconds)") == 1


def test_ctrl_c_stops_both_and_one_side_is_not_resumed(cpugpu, both, words):
    process = cpugpu.start("run", "matmul", "--size", "2048,4096", "--simulate", f"{FAST},pace=1", *both)
    try:
        while True:
            with cpugpu.store() as store:
                if len(store.runs(2)) == 2:
                    break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == EXIT_INTERRUPTED, err
    words(out.decode().strip())
    with cpugpu.store() as store:
        assert {run.status for run in store.runs(9)} == {"stopped"}
    refused = cpugpu.here("run", "--resume", "1", code=EXIT_USAGE)
    words(refused.err)
    assert cpugpu.here("run", "--resume").code == EXIT_USAGE


@pytest.mark.usefixtures("agents_here")
def test_a_side_that_differs_from_itself_takes_every_word_back(cpugpu, both, words):
    printed = cpugpu.here(*RUN, "--simulate", RESTLESS, *both, code=EXIT_UNFIT)
    assert printed.out.count("UNDECIDED") == 4, "three verdicts, and the sentence that explains them"
    for line in printed.out.splitlines()[-3:-1]:
        words(line)
    with cpugpu.store() as store:
        assert len(store.runs(20)) == 10, "the placebo is not saved"


# ------------------------------------------------------------------ gate


@pytest.mark.usefixtures("agents_here")
def test_a_gate_whose_placebo_moved_neither_passes_nor_fails(cpugpu, pythons, words):
    old, new = pythons
    done = cpugpu.here("gate", "matmul", "--against", old, "--python", new, "--simulate", RESTLESS, "--no-save")
    assert done.code == EXIT_UNFIT
    assert "PASSED" not in done.out
    words(done.out.splitlines()[-2])


@pytest.mark.usefixtures("agents_here")
def test_a_gate_that_is_exceeded_is_1_and_writes_its_reports(cpugpu, pythons, tmp_path):
    old, new = pythons
    files = ("--junit", tmp_path / "gate.xml", "--summary", tmp_path / "gate.md")
    limit = ("--max-slowdown", "latency=50%,kernel-time=1%", "--json", "--no-save")
    done = cpugpu.here("gate", "matmul", "--against", old, "--python", new, "--simulate", SLOWER, *limit, *files)
    assert done.code == EXIT_CHECK_FAILED
    (told,) = done.objects
    assert (told["event"], told["verdict"]) == ("Gate", "SLOWER")
    assert {each["verdict"] for each in told["verdicts"] if each["metric"] == "latency"} == {"PASSED"}
    assert told["duet"]["start_up_s"] > 0
    tests = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert int(tests.get("failures", "-1")) == sum(each["verdict"] == "SLOWER" for each in told["verdicts"]) > 0
    assert f"{old} against {new}" in (summary := (tmp_path / "gate.md").read_text())
    assert "5 pairs" in summary
