"""`run --resume` times missing cases only, and only in the same environment."""

import signal
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from tests.helpers.command_line import FAST, CommandLine, events_from, next_event

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE, UsageError
from cpugpu_tui.machine.procfs import hostname
from cpugpu_tui.session.resume import device_differences, differences, unfinished
from cpugpu_tui.workloads.own_code import own_code

SIZES = (64, 96, 128)


@pytest.fixture(scope="module", params=["process", "thread"])
def whole(tmp_path_factory, request):
    """A run of three cases; only copied."""
    made = CommandLine(tmp_path_factory.mktemp("whole") / "history.db")
    words = ("--worker", request.param, "--simulate", FAST)
    assert made("run", "matmul", "--size", "64,96,128", "--rounds", "3", *words).code == 0
    return made


@pytest.fixture
def cut_short(cpugpu, whole):
    """A run of three cases of which only the first is there, as kill -9 leaves it."""
    cpugpu.take_over(whole)
    with closing(sqlite3.connect(cpugpu.database)) as other, other:
        other.execute("PRAGMA foreign_keys = ON")
        other.execute("DELETE FROM case_result WHERE case_key NOT LIKE 'matmul/default/64/%'")
        other.execute("DELETE FROM run_event WHERE name = 'CeilingsMeasured'")
        other.execute("DELETE FROM ceilings")
        other.execute("UPDATE run SET status = 'interrupted', finished = NULL, finished_wall_ns = NULL")
    return cpugpu


def cases(events, kind):
    return [event.case for event in events if isinstance(event, kind)]


def test_what_is_missing_is_measured_and_the_rest_told_again(cut_short):
    before = cut_short.here("show", "--json").events
    done = cut_short("run", "--resume", "--json")
    assert (done.code, done.err) == (0, "")
    keys = [model.Case("matmul", size).key for size in SIZES]
    assert cases(done.events, model.CaseStarted) == keys
    assert done.events[: len(before)] == before
    saved = cut_short.here("show", "--json").events
    assert cases(saved, model.CaseFinished) == keys
    assert [type(event) for event in saved].count(model.CeilingsMeasured) == 2, "as after a first run"
    assert isinstance(saved[-1], model.RunFinished)
    (run,) = cut_short.here("history", "--json").objects
    assert (run["number"], run["status"], run["cases_ok"]) == (1, "done", 3)


def test_its_table_is_that_of_the_whole_run(cut_short):
    assert "\nResume: cpugpu-tui run --resume 1" in cut_short.here("show", code=0).out
    done = cut_short("run", "--resume", "1", code=0)
    sizes = [
        line.split()[0] for line in done.out.splitlines() if line.split() and line.split()[0] in ("64", "96", "128")
    ]
    assert sizes == ["64", "96", "128"]
    (run,) = cut_short.here("history", "--json").objects
    assert (run["number"], run["cases_ok"]) == (1, 3)


def test_a_whole_run_is_not_begun_again(cut_short, words):
    assert cut_short("run", "--resume").code == 0
    for names in ((), ("1",)):
        done = cut_short.here("run", "--resume", *names)
        assert (done.code, done.out) == (EXIT_USAGE, "")
        words(done.err)


def test_a_run_that_its_time_limit_cut_goes_on_with_a_longer_one(cut_short):
    """With the limit of the run, a sweep of 200 sizes got four more each time."""
    with closing(sqlite3.connect(cut_short.database)) as other, other:
        other.execute("UPDATE run SET plan = json_set(plan, '$.max_seconds', 0.001)")
    assert cut_short("run", "--resume", code=None).code != 0
    assert cut_short.here("history", "--json").objects[0]["cases_ok"] < 3
    done = cut_short("run", "--resume", "--max-seconds", "600")
    for told in (done, cut_short.here("show")):  # show repeated the limit that had been too short
        assert (told.code, "--max-seconds 600" in told.out.split("Again: ")[1]) == (0, True)
    assert cut_short.here("history", "--json").objects[0]["cases_ok"] == 3


@pytest.mark.parametrize("whole", ["process"], indirect=True)
@pytest.mark.parametrize(("setting", "signal_sent"), [("pace", signal.SIGINT), ("hang_size", signal.SIGTERM)])
def test_a_case_that_a_stop_cut_gets_its_rounds_and_keeps_those_it_had_until_then(cut_short, setting, signal_sent):
    """Two rounds of eight stayed for good, and with them `no winner`. Also if the agent ends at once or hangs."""
    first = model.Case("matmul", 64).key
    with closing(sqlite3.connect(cut_short.database)) as other, other:
        other.execute("DELETE FROM measurement WHERE round_index > 1")
        other.execute(f"UPDATE run SET plan = json_set(plan, '$.simulation.{setting}', 64)")
    with cut_short.start("run", "--resume", "--json") as process:
        next_event(process, lambda event: isinstance(event, model.Progressed) and event.case == first)
        process.send_signal(signal_sent)
        told = list(events_from(process))
    assert first in cases(told, model.CaseFinished)
    assert rounds_of(cut_short, first) == {1}
    with closing(sqlite3.connect(cut_short.database)) as other, other:
        other.execute(f"UPDATE run SET plan = json_remove(plan, '$.simulation.{setting}')")
    cut_short("run", "--resume", code=0)
    assert rounds_of(cut_short, first) == {1, 2, 3}


def test_a_kill_in_a_long_case_costs_none_of_its_rounds(cpugpu):
    """A server vanished in the 18th minute of its only case, and nothing was in the history."""
    words = ("run", "--json", "--simulate", "pace=0.003", "--size", 30_000, "--rounds", 3)
    key = model.Case("matmul", 30_000).key
    with cpugpu.start(*words, "--starts", 1) as process:
        for device in ("cpu", "cuda:0"):
            next_event(process, lambda event, device=device: (
                isinstance(event, model.DeviceSampled) and event.round_index == 1 and event.device == device
            ))  # fmt: skip
        process.kill()
    assert 1 in rounds_of(cpugpu, key)
    assert cases(cpugpu.here("show", "--json").events, model.CaseFinished) == [key]
    cpugpu("run", "--resume", code=None)  # on a busy machine the run may have ended before the kill
    assert rounds_of(cpugpu, key) == {1, 2, 3}


def rounds_of(cpugpu, case):
    sampled = [each for each in cpugpu.here("show", "--json").events if isinstance(each, model.DeviceSampled)]
    return {each.round_index for each in sampled if each.case == case} - {0}


@pytest.mark.parametrize(
    "arguments", [("99",), ("1", "2"), ("1", "--size", "64"), ("--repeat", "2")],
    ids=["unknown", "several", "with a size", "with a number of runs"],
)  # fmt: skip
def test_what_cannot_be_resumed_is_refused(cut_short, arguments, words):
    done = cut_short.here("run", "--resume", *arguments)
    assert (done.code, done.out) == (EXIT_USAGE, "")
    words(done.err)
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(("change", "told", "prints"), [
    ("environment SET facts = json_set(facts, '$.threads', 99, '$.kernel', '2.4')",
     ("kernel 2.4, now ", "threads 99, now "), False),
    ("run SET devices_found = replace(devices_found, 'GPU-SIM0', 'GPU-OTHER')", ("GPU-OTHER",), True),
], ids=["environment", "gpu"])  # fmt: skip
def test_another_machine_is_refused_with_the_list_and_changes_nothing(cut_short, change, told, prints):
    with closing(sqlite3.connect(cut_short.database)) as other, other:
        other.execute(f"UPDATE {change}")
    done = cut_short("run", "--resume")
    assert (done.code, bool(done.out)) == (EXIT_UNFIT, prints), "the devices are known only after the start"
    assert all(text in done.out + done.err for text in told)
    (run,) = cut_short.here("history", "--json").objects
    assert (run["status"], run["cases_ok"], run["cases_skipped"]) == ("interrupted", 1, 0)


@pytest.mark.parametrize("words", [("run", "matmul", "--size", "64"), ("time", "n", "--n", "64")], ids=["run", "time"])
def test_a_run_whose_gpu_is_missing_is_refused_and_not_saved(cpugpu, words):
    done = cpugpu.here(*words, "--device", "cuda:7", "--simulate", FAST, code=EXIT_UNFIT)
    assert (done.out, len(done.err.splitlines())) == ("", 1)
    assert "cuda:7" in done.err, "cause"
    assert "cuda:0" in done.err, "remedy"
    assert cpugpu.here("history", "--json").out == ""


def test_a_run_whose_gpu_is_missing_says_the_same_each_time_it_is_resumed(cut_short):
    with closing(sqlite3.connect(cut_short.database)) as other, other:
        other.execute("UPDATE run SET plan = json_set(plan, '$.devices', json('[\"cuda:7\"]'))")
    for which in ((), ("1",)):
        again = cut_short.here("run", "--resume", *which, "--json", code=EXIT_UNFIT)
        end = again.events[-1]
        skipped = [event for event in again.events if isinstance(event, model.CaseFailed)]
        assert {(each.kind, each.message, each.remedy) for each in skipped} == {("skipped", end.message, end.remedy)}
        assert "cuda:7" in end.message
        assert "cuda:0" in end.remedy
    (run,) = cut_short.here("history", "--json").objects
    assert (run["cases_ok"], run["cases_skipped"]) == (1, 0)


def test_an_interpreter_that_nobody_named_is_not_started(cut_short, words):
    """The run may come from a stranger's export."""
    with closing(sqlite3.connect(cut_short.database)) as other, other:
        other.execute("UPDATE run SET environment = json_set(environment, '$.python_option', '/tmp/evil')")
    done = cut_short.here("run", "--resume")
    assert (done.code, done.out) == (EXIT_USAGE, "")
    words(done.err)


def test_a_run_of_another_machine_or_one_that_failed_as_a_whole_is_not_chosen(cut_short):
    with cut_short.store() as store:
        begun(store, "r8", model.RunFinished(status="failed"), plan=PLAN, hostname=hostname())
        begun(store, "r9", plan=PLAN)
    assert cut_short.here("history", "--json").objects[0]["status"] == "interrupted"
    assert cut_short("run", "--resume").code == 0
    runs = {run["number"]: run["cases_ok"] for run in cut_short.here("history", "--json").objects}
    assert runs[1] == 3


def test_a_run_whose_gpu_has_gone_is_passed_over_for_an_older_one(cut_short, words):
    gone = model.Device("cpu", "Xeon"), model.Device("cuda:0", "NVIDIA H200", "GPU-gone")
    with cut_short.store() as store:
        begun(store, "r9", model.DevicesFound(devices=gone), plan=PLAN, hostname=hostname())
    done = cut_short("run", "--resume")
    assert (done.code, "Saved as run 1" in done.out) == (0, True)
    words(done.err)
    with words.of(UsageError), cut_short.store() as store:
        unfinished(store, None)


@pytest.mark.usefixtures("agents_here")
def test_a_run_stopped_in_its_further_starts_gets_all_of_them(cpugpu):
    """Ctrl+c after the last size had a time left 1 of 5 starts, and the run was said to be complete."""
    assert cpugpu("run", "matmul", "--size", "64,96", "--starts", 3, "--simulate", FAST).code == 0
    with closing(sqlite3.connect(cpugpu.database)) as other:
        by_start = "SELECT start, count(*) FROM measurement GROUP BY start"
        whole = other.execute(by_start).fetchall()
        with other:  # the second start was cut off, the third had not begun
            other.execute("DELETE FROM measurement WHERE start = 2 OR (start = 1 AND round_index > 1)")
            other.execute("""UPDATE run SET status = 'stopped', finished = replace(finished, '"done"', '"stopped"')""")
        assert "Resume: cpugpu-tui run --resume 1" in cpugpu.here("show", "1").out
        for names in ((), ("1",)):
            assert cpugpu("run", "--resume", *names).code == (EXIT_USAGE if names else 0)
        assert other.execute(by_start).fetchall() == whole
        assert "Resume:" not in cpugpu.here("show", "1").out
        assert [start for start, _ in whole] == [0, 1, 2]


# ------------------------------------------------------------------ what counts as missing


def begun(store, run_id, *events, plan, **environment):
    started = model.RunStarted(run_id=run_id, series_id="s", plan=plan, environment=environment)
    store.import_run([started, *events])


PLAN = model.Plan("matmul", (model.Case("matmul", 64), model.Case("matmul", 128)))
FIRST, SECOND = (case.key for case in PLAN.cases)


@pytest.mark.parametrize(
    ("events", "plan", "is_missing"),
    [
        ((), PLAN, True),
        ((model.CaseFinished(case=FIRST),), PLAN, True),
        ((model.CaseFinished(case=FIRST), model.CaseFailed(case=SECOND, kind="oom", message="")), PLAN, False),
        ((model.CaseFinished(case=FIRST), model.CaseFailed(case=SECOND, kind="crashed", message="")), PLAN, False),
        (
            (model.CaseFinished(case=FIRST), model.CaseFailed(case=SECOND, kind="skipped", message=""),
                model.RunFinished(status="done")),
            PLAN, True,
        ),
        ((model.CaseFinished(case=FIRST), model.CaseFinished(case=SECOND)), model.Plan("m", PLAN.cases,
            search=model.Search()), True),
        (
            (model.CaseFinished(case=FIRST), model.CaseFinished(case=SECOND), model.RunFinished(status="done")),
            model.Plan("m", PLAN.cases, search=model.Search()), False,
        ),
    ],
)  # fmt: skip
def test_what_is_missing(cpugpu, events, plan, is_missing, words):
    with cpugpu.store() as store:
        begun(store, "r1", *events, plan=plan)
        if is_missing:
            assert not any(isinstance(event, model.RunFinished) for event in unfinished(store, "r1").events)
        else:
            with words.of(UsageError):
                unfinished(store, "r1")


def test_typed_code_is_not_run_and_its_run_is_named(cpugpu):
    with cpugpu.store() as store:
        begun(store, "r1", plan=replace(PLAN, codes=(own_code("x + 1"),)))
    done = cpugpu.here("run", "--resume", "1")
    assert (done.code, done.out) == (EXIT_USAGE, "")
    assert "Run 1 timed typed code" in done.err
    assert "`cpugpu-tui show 1`" in done.err


def test_facts_that_differ_from_start_to_start_are_no_difference(words):
    then = {"torch": "2.6", "threads": 8, "argv": ["run"], "torch_import_s": 1.0, "old fact": 1, "gone": None}
    now = {"torch": "2.7", "threads": 8, "argv": ["x"], "torch_import_s": 2.0, "new fact": 2, "gone": "here"}
    words(differences(then, now))


def test_devices_are_told_apart_by_uuid(words):
    cpu, one, other = (
        model.Device("cpu", "CPU"),
        model.Device("cuda:0", "H200", "GPU-1"),
        model.Device("cuda:0", "H200", "GPU-2"),
    )
    assert device_differences(model.DevicesFound(devices=(cpu, one)), model.DevicesFound(devices=(cpu, one))) == []
    words(device_differences(model.DevicesFound(devices=(cpu, one)), model.DevicesFound(devices=(cpu, other))))
    words(device_differences(model.DevicesFound(devices=(cpu, one)), model.DevicesFound(devices=(cpu,))))
