"""`compare`, `baseline`, `gate` and interleaved interpreters as a person meets them: words, files, exit codes."""

import json
import re
import sqlite3
from contextlib import closing
from xml.etree import ElementTree

import pytest
from tests.helpers.command_line import FAST, PATIENCE_S, CommandLine

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_FAILED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE

SIMULATED = f"{FAST},noise=0.01"
SLOW = f"{SIMULATED},gpu_ns_per_flop=0.002"
"""A GPU whose latency is 25 % longer at 256, and the same as before at 16."""
RUN = ("run", "matmul", "--size", "16,256", "--rounds", "5")


def make_series(cpugpu, simulated=SIMULATED, runs=5):
    cpugpu.here(*RUN, "--simulate", simulated, "--repeat", runs, code=EXIT_OK)


@pytest.fixture(scope="module")
def five_runs(tmp_path_factory):
    """A history with five runs that are the baseline main; only copied."""
    made = CommandLine(tmp_path_factory.mktemp("five-runs") / "history.db")
    make_series(made)
    assert made.here("baseline", "main", "latest").code == EXIT_OK
    return made


def test_other_work_than_the_baseline_s_is_refused_before_anything_is_timed(based):
    for command in (("gate",), ("fleet", "gate", "-w", "n1", "--launcher", "local")):
        done = based.here(*command, "softmax", "--simulate", SIMULATED, code=EXIT_USAGE)
        assert "Baseline main (runs 1-5) of matmul has no timed case of softmax." in done.err
    based.here("run", "softmax", "--size", "16", "--simulate", SIMULATED, "--repeat", "5", code=EXIT_OK)
    assert based.here("gate", "quick", "--baseline", "latest", code=EXIT_USAGE).err.count("quick") == 2, "a search"
    assert len(based.here("history", "--json").objects) == 10


def test_a_new_baseline_is_shown_with_its_runs_also_as_json(based, words):
    words(based.here("baseline", "other", "latest").out)
    (made,) = based.here("baseline", "other", "latest", "--json").objects
    assert made == {**based.here("baseline", "main", "--json").objects[0], "name": "other"}


@pytest.mark.usefixtures("agents_here")
def test_a_size_that_one_run_of_a_baseline_skipped_is_said_at_once_and_by_the_gate(based, words):
    """Each gate was undecided, because a baseline of five runs had four of one size."""
    with closing(sqlite3.connect(based.database)) as database, database:
        database.execute("UPDATE case_result SET status = 'skipped' WHERE run_number = 3 AND case_key LIKE '%/256/%'")
    words(based.here("baseline", "other", "1").out)
    (told,) = based.here("gate", "--json").objects
    words(sorted({each["why"] for each in told["verdicts"] if each["why"]}))


@pytest.fixture(scope="module")
def ten_runs(five_runs, tmp_path_factory):
    """The same and five runs of a slower GPU after them; only copied."""
    made = CommandLine(tmp_path_factory.mktemp("ten-runs") / "history.db")
    made.take_over(five_runs)
    make_series(made, SLOW)
    return made


@pytest.fixture
def based(cpugpu, five_runs):
    """A history of this test's own with five runs that are the baseline main."""
    cpugpu.take_over(five_runs)
    return cpugpu


@pytest.fixture
def slowed(cpugpu, ten_runs):
    """The same with runs 6 to 10 of a slower GPU."""
    cpugpu.take_over(ten_runs)
    return cpugpu


# ------------------------------------------------------------------ compare


def test_differences_come_first_then_a_verdict_for_every_case(slowed, words):
    done = slowed.here("compare", "main", "latest")
    assert (done.code, done.err) == (EXIT_OK, "")
    out = done.out
    words(out.splitlines()[0])
    assert out.index("gpu_ns_per_flop=0.002") < out.index("verdict")
    slow = [line for line in out.splitlines() if "matmul 256" in line and "GPU" in line]
    assert ["GPU kernels" in line for line in slow] == [False, True]
    assert all(line.rstrip().endswith("SLOWER") for line in slow)
    words(re.sub(r"[+-]?\d+\.\d+", "N", next(line for line in out.splitlines() if "geometric mean" in line)))


def test_the_same_in_json_keeps_every_digit(slowed):
    (told,) = slowed.here("compare", "1", "10", "--json").objects
    assert (told["event"], told["simulated"], told["base"]["numbers"]) == ("Comparison", True, [1, 2, 3, 4, 5])
    assert told["bands"] == {"latency": 0.02, "device": 0.005}
    large = [each for each in told["verdicts"] if "/256/" in each["cases"][0]["case"]]
    assert [(each["device"], each["metric"], each["verdict"]) for each in large] == [
        ("CPU", "latency", "SAME"), ("GPU", "latency", "SLOWER"), ("GPU", "device", "SLOWER"),
    ]  # fmt: skip
    for each in large[1:]:
        (case,) = each["cases"]
        assert len(case["base_ns"]) == len(case["new_ns"]) == 5
        assert 1 < each["low"] < each["ratio"] < each["high"]
    assert told["differences"] == [
        {"what": "simulation", "base": told["differences"][0]["base"], "new": told["differences"][0]["new"]}
    ]


def test_one_run_against_one_says_too_few_and_never_no_change(cpugpu, words):
    for _ in range(2):
        make_series(cpugpu, runs=1)
    out = cpugpu.here("compare", "1", "2").out
    assert out.count("TOO FEW RUNS") == 6
    words(out.splitlines()[-1])
    assert "SAME" not in out


def test_a_band_decides_what_is_the_same_for_each_time(slowed):
    def verdicts(*band):
        (told,) = slowed.here("compare", "main", "latest", "--json", *band).objects
        return [f"{each['device']} {each['metric']} {each['verdict']}" for each in told["verdicts"]
                if "/16/" in each["cases"][0]["case"]]  # fmt: skip

    # 8,192 FLOPs of 0.002 ns are 0.8 % of this kernel, and nothing of its launch.
    assert verdicts() == ["CPU latency SAME", "GPU latency SAME", "GPU device SLOWER"]
    assert verdicts("--band", "kernel-time=9%") == ["CPU latency SAME", "GPU latency SAME", "GPU device SAME"]
    assert "SAME" not in " ".join(verdicts("--band", "0%"))


def test_a_case_that_failed_on_one_side_is_not_comparable_and_says_why(based):
    based.here(*RUN, "--simulate", f"{SIMULATED},mismatch_size=16", "--repeat", 3, code=EXIT_CASES_FAILED)
    out = based.here("compare", "main", "latest").out
    assert "NOT COMPARABLE: mismatch" in out


@pytest.mark.parametrize(
    "arguments", [("compare", "1", "2"), ("baseline", "12", "1"), ("gate", "--new", "1", "matmul")], ids=" ".join
)
def test_wrong_arguments_are_one_line_and_exit_code_2(based, arguments, words):
    done = based.here(*arguments, code=EXIT_USAGE)
    words(done.err)


# ------------------------------------------------------------------ the gate


@pytest.mark.usefixtures("agents_here")
def test_it_runs_the_baselines_plan_five_times_saves_that_and_passes(based, words):
    done = based.here("gate")
    assert (done.code, done.err) == (EXIT_OK, "")
    words(done.out.splitlines()[-1])
    with based.store() as store:
        assert [run.number for run in store.runs()][:5] == [10, 9, 8, 7, 6]
        assert len(store.runs_of(store.series_of(store.find("10")))) == 5


@pytest.mark.usefixtures("agents_here")
def test_a_gate_that_differs_from_itself_neither_passes_nor_fails(based, tmp_path, words):
    summary = tmp_path / "gate.md"
    done = based.here("gate", "--simulate", f"{SLOW},placebo_factor=1.2", "--summary", summary, code=EXIT_UNFIT)
    assert not {"PASSED", "SLOWER"} & set(done.out.split())
    words("\n".join(done.out.splitlines()[-3:]))
    assert "The placebo moved" in summary.read_text()


@pytest.mark.usefixtures("agents_here")
def test_what_is_slower_by_more_than_the_limit_does_not_pass(based, tmp_path, words):
    junit, summary = tmp_path / "gate.xml", tmp_path / "gate.md"
    files = ("--junit", junit, "--summary", summary)
    done = based.here("gate", "--simulate", SLOW, *files, code=EXIT_CHECK_FAILED)
    verdict = done.out.splitlines()[-1]
    words(verdict)
    suite = ElementTree.parse(junit).getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "6", "failures": "2", "errors": "0",
    }  # fmt: skip
    assert [failure.get("type") for failure in suite.iter("failure")] == ["SLOWER", "SLOWER"]
    names = [(test.get("classname"), test.get("name")) for test in suite.iter("testcase")]
    assert ("cpugpu-tui.GPU kernels", "matmul 256") in names
    assert len(set(names)) == 6
    assert summary.read_text().splitlines()[0] == f"## {verdict}"
    assert "matmul 256" in summary.read_text()
    assert all("SIMULATED" in text for text in (done.out, junit.read_text(), summary.read_text()))
    # The same series again, with a limit that its latencies keep. The kernel takes 18 times as long.
    again = based.here("gate", "--new", "latest", "--max-slowdown", "latency=60%")
    assert (again.code, again.out.count("SLOWER")) == (EXIT_CHECK_FAILED, 1)
    kernel_slow = "latency=60%,kernel-time=1000%"
    assert "(kernel time: 1000 %)" in based.here("gate", "--new", "latest", "--max-slowdown", kernel_slow).out


@pytest.mark.usefixtures("agents_here")
def test_too_few_runs_are_4_and_never_0(based, tmp_path):
    junit = tmp_path / "gate.xml"
    make_series(based, f"{SIMULATED},seed=50", runs=4)
    done = based.here("gate", "--new", "latest", "--junit", junit)
    assert (done.code, done.out.count("TOO FEW RUNS")) == (EXIT_UNFIT, 6)
    assert ElementTree.parse(junit).getroot().get("errors") == "6"


@pytest.mark.parametrize("command", [("gate",), ("fleet", "gate", "-w", "n1", "--launcher", "local")])
def test_a_series_that_could_never_pass_is_not_run(based, command):
    short = based.here(*command, "--repeat", 4)
    assert (short.code, short.out) == (EXIT_USAGE, "")
    assert "--repeat 5" in short.err
    make_series(based, f"{SIMULATED},seed=50", runs=2)
    old = based.here(*command, "--baseline", "latest")
    assert (old.code, old.out) == (EXIT_UNFIT, "")
    assert "--repeat 5" in old.err
    assert len(based.here("history", "--json").objects) == 7


@pytest.mark.slow
def test_cases_that_time_ran_out_for_are_4_and_those_that_were_not_asked_for_are_counted(cpugpu, words):
    make_series(cpugpu)
    make_series(cpugpu, f"{SIMULATED},seed=50")
    with closing(sqlite3.connect(cpugpu.database)) as other, other:
        # As --max-seconds leaves a run that took too long.
        other.execute("UPDATE case_result SET status = 'skipped' WHERE run_number > 5 AND case_key LIKE '%/256/%'")
    late = cpugpu.here("gate", "--baseline", "1", "--new", "latest", "--json", code=EXIT_UNFIT)
    (told,) = late.objects
    (why,) = {each["why"] for each in told["verdicts"] if each["verdict"] == "UNDECIDED"}
    assert "skipped" in why
    words(told["says"])
    assert cpugpu.here("run", "matmul", "--size", "16", "--rounds", "5", "--simulate", f"{SIMULATED},seed=70",
                       "--repeat", 5).code == EXIT_OK  # fmt: skip
    fewer = cpugpu.here("gate", "--baseline", "1", "--new", "latest", code=EXIT_OK)
    words(fewer.out.splitlines()[-1])


def test_a_case_that_fails_where_the_baseline_has_times_is_3(based):
    done = based.here("gate", "--simulate", f"{SIMULATED},error_size=16", code=EXIT_CASES_FAILED)
    assert "FAILED: error" in done.out


@pytest.mark.slow
@pytest.mark.usefixtures("agents_here")
def test_a_baseline_of_another_machine_is_4_after_one_run_unless_that_is_wanted(based, words):
    done = based.here("gate", "--simulate", f"{SIMULATED},gpus=0", code=EXIT_UNFIT)
    words(done.err)
    with based.store() as store:
        assert len(store.runs()) == 6
    done = based.here("gate", "--simulate", f"{SIMULATED},gpus=0", "--any-machine")
    assert "PASSED" in done.out


@pytest.mark.slow
@pytest.mark.usefixtures("agents_here")
def test_the_verdict_as_json(based):
    (told,) = based.here("gate", "--json", "--simulate", SLOW).objects
    assert (told["event"], told["simulated"], told["verdict"], told["limit"]) == ("Gate", True, "SLOWER", 0.05)
    assert sorted(each["verdict"] for each in told["verdicts"]) == [*["PASSED"] * 4, "SLOWER", "SLOWER"]
    json.dumps(told, allow_nan=False)


@pytest.mark.slow
@pytest.mark.usefixtures("agents_here")
def test_of_a_search_only_the_sizes_are_run_that_every_run_of_the_baseline_has(cpugpu):
    made = cpugpu.here("run", "matmul", "--find-crossover", "--size", "16,256", "--simulate", SIMULATED, "--repeat", 5)
    assert made.code == EXIT_OK, made.err
    assert cpugpu.here("baseline", "main", "1").code == EXIT_OK
    cpugpu.here("gate", code=EXIT_OK)
    with cpugpu.store() as store:
        plan = store.load(store.find("latest"))[0].plan  # type: ignore[attr-defined]
    assert plan.search is None


@pytest.mark.slow
def test_interrupted_it_says_nothing_of_passing(based):
    import signal

    process = based.start("gate", "--simulate", f"{SIMULATED},pace=1,hang_size=16")
    try:
        # It hangs in the first case, whose run is in the history by then.
        while True:
            with based.store() as store:
                if store.runs(1)[0].status == "running":
                    break
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (130, 143)
    assert b"assed" not in out
