"""Saved runs are read back unchanged: events, numbers, names, the list of runs."""

import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui import model
from cpugpu_tui.errors import LostRunError, NoSuchRunError, ReplacedError, StoreError, UsageError
from cpugpu_tui.machine import procfs
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import Store
from cpugpu_tui.store.reading import FinishedCases

CASES = tuple(model.Case("matmul", size, variant="out") for size in (16, 64, 256, 1024))
PLAN = model.Plan(name="quick", cases=CASES, simulation=model.Simulation(seed=3))
DEVICES = (model.Device("cpu", "Xeon"), model.Device("cuda:0", "H200", uuid="GPU-1", memory_bytes=141 << 30))


def started(run_id="20260101-aaaa", plan=PLAN, wall_ns=1_000):
    environment = {"torch": "2.11", "threads": 16, "nested": {"physical": 16}, "limits": [7.65, None], "name": "Zoë\n"}
    return model.RunStarted(seq=1, wall_ns=wall_ns, run_id=run_id, series_id="s1", plan=plan, environment=environment)


def save(store, stream):
    """Save events as a session does: each case once settled, telemetry with the next commit."""
    first = stream[0]
    assert isinstance(first, model.RunStarted)
    number = store.begin_run(first)
    cases: dict[str, list[model.Event]] = {}
    telemetry: list[model.TelemetryRead] = []
    for event in stream[1:]:
        match event:
            case model.DevicesFound():
                store.add_devices(first.run_id, event)
            case model.TelemetryRead():
                telemetry.append(event)
            case model.RunFinished():
                store.finish_run(first.run_id, event, telemetry)
            case model.CaseFinished() | model.CaseFailed():
                store.commit_cases(first.run_id, [[*cases.pop(event.case, []), event]], telemetry)
                telemetry.clear()
            case model.CaseStarted() | model.Calibrated() | model.DeviceSampled() | model.Progressed():
                cases.setdefault(event.case, []).append(event)
    return number


# ------------------------------------------------------------------ streams

finite = st.floats(allow_nan=False, allow_infinity=False)
nanoseconds = st.integers(0, 2**63 - 1)
devices = st.sampled_from(["cpu", "cuda:0"])
metrics = st.sampled_from(["latency", "device", "as_written", "as_written_synced", "cold_start"])
times = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
samples = st.dictionaries(metrics, st.lists(times, max_size=4).map(tuple), max_size=3)
marks = st.lists(st.text(max_size=5), max_size=2).map(tuple)
readings = st.dictionaries(
    st.text(max_size=5), st.builds(model.Reading, st.none() | finite, st.none() | st.text(), finite)
)
processes = st.none() | st.lists(
    st.builds(model.GpuProcess, nanoseconds, st.none() | nanoseconds, st.none() | st.text(), st.none(), st.booleans()),
    max_size=2,
).map(tuple)
gpus = st.builds(
    model.GpuTelemetry, index=st.integers(0, 7), uuid=st.none() | st.text(), name=st.text(), pci_bus_id=st.none(),
    readings=readings, throttle=marks, processes=processes, problem=st.none() | st.text(),
)  # fmt: skip
telemetry_reads = st.builds(
    model.TelemetryRead, gpus=st.lists(gpus, max_size=2).map(tuple), host=readings, problem=st.none() | st.text()
)


@st.composite
def case_streams(draw, case):
    counts = ("calls_per_block", "blocks", "rounds", "threads")
    calibrated = st.builds(
        model.Calibrated, case=st.just(case), device=devices, estimate_ns=finite, stable=st.booleans(),
        **dict.fromkeys(counts, nanoseconds),
    )  # fmt: skip
    clocks = ("calls_per_block", "started_wall_ns", "ended_wall_ns", "started_mono_ns", "ended_mono_ns")
    half_round = st.builds(
        model.DeviceSampled, case=st.just(case), device=devices, round_index=st.integers(0, 40), samples=samples,
        marks=marks, **dict.fromkeys(clocks, nanoseconds),
    )  # fmt: skip
    check = st.none() | st.builds(model.Check, st.text(), finite, finite)
    kinds = st.sampled_from(["oom", "mismatch", "crashed", "skipped"])
    failed = st.builds(
        model.CaseFailed,
        case=st.just(case),
        kind=kinds,
        message=st.text(),
        remedy=st.text(),
        device=st.none() | devices,
    )
    beginning = draw(st.sampled_from([[], [model.CaseStarted(case=case)]]))
    middle = draw(st.lists(calibrated | half_round, max_size=5)) if beginning else []
    return [*beginning, *middle, draw(st.builds(model.CaseFinished, case=st.just(case), check=check) | failed)]


@st.composite
def streams(draw):
    """A run with several cases active at once and telemetry in between, as a session numbers it."""
    waiting: list[list[model.Event]] = [draw(case_streams(case.key)) for case in CASES]
    waiting.append(draw(st.lists(telemetry_reads, max_size=3)))
    events: list[model.Event] = [started(), model.DevicesFound(devices=DEVICES, no_gpu=draw(st.none() | st.text()))]
    while any(waiting):
        events.append(draw(st.sampled_from([queue for queue in waiting if queue])).pop(0))
    if draw(st.booleans()):
        events.append(model.RunFinished(status="failed", message=draw(st.text()), exit_code=3))
    times = draw(st.lists(nanoseconds, min_size=len(events), max_size=len(events)))
    return [replace(e, seq=i, wall_ns=t, mono_ns=t) for i, (e, t) in enumerate(zip(events, times, strict=True), 1)]


# Shrinking a stream takes minutes and a gigabyte; a failing one is short enough to read.
@settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.generate])
@given(stream=streams())
def test_a_run_comes_back_event_by_event(stream):
    with tempfile.TemporaryDirectory() as folder, closing(Store.open(Path(folder) / "results.db")) as store:
        number = save(store, stream)
        # What follows the last commit is telemetry that a dead controller had not saved yet.
        while isinstance(stream[-1], model.TelemetryRead):
            stream.pop()
        assert store.load("20260101-aaaa") == [replace(stream[0], number=number), *stream[1:]]
        assert integrity_check(store) == []


def half_round(case, device, round_index, *latency):
    timed = {"latency": latency}
    return model.DeviceSampled(case=case.key, device=device, round_index=round_index, calls_per_block=9, samples=timed)


def test_a_stored_run_looks_like_the_live_one_did(store):
    first, second = CASES[0], CASES[1]
    stream: list[model.Event] = [
        started(),
        model.DevicesFound(devices=DEVICES),
        model.CaseStarted(case=first.key),
        model.Progressed(case=first.key, device="cpu", phase="round"),
        half_round(first, "cpu", 1, 666.0),  # its agent died after this
        model.CaseStarted(case=first.key),
        half_round(first, "cpu", 1, 10.0, 11.0),
        model.Gap(duration_ms=50),
        model.CaseStarted(case=second.key),
        half_round(first, "cuda:0", 1, 30.0),
        model.CaseFailed(case=second.key, kind="oom", message="Too big.", device="cuda:0"),
        model.CaseFinished(case=first.key, check=model.Check("float64 on the CPU", 1e-7, 1e-3)),
        model.RunFinished(status="done", exit_code=3),
    ]
    stream = [replace(event, seq=seq) for seq, event in enumerate(stream, 1)]
    number = save(store, stream)
    live = stored = RunState()
    for event in [replace(stream[0], number=number), *stream[1:]]:
        live = live.apply(event)
    for event in store.load("20260101-aaaa"):
        stored = stored.apply(event)
    assert (stored, stored.rows[first.key].times["cpu"].samples["latency"]) == (live, (10.0, 11.0))


def test_a_case_committed_twice_counts_once(store):
    key = CASES[0].key
    store.begin_run(started())
    store.commit_cases("20260101-aaaa", [[model.CaseFailed(case=key, kind="crashed", message="")]], [])
    store.commit_cases("20260101-aaaa", [[model.CaseStarted(case=key), model.CaseFinished(case=key)]], [])
    assert store.load("20260101-aaaa")[1:] == [model.CaseStarted(case=key), model.CaseFinished(case=key)]


def test_a_case_that_is_not_over_is_refused(store):
    store.begin_run(started())
    with pytest.raises(ValueError, match="CaseStarted"):
        store.commit_cases("20260101-aaaa", [[model.CaseStarted(case=CASES[0].key)]], [])


def test_numbers_can_be_read_by_any_program(store):
    save(store, [started(), half_round(CASES[0], "cpu", 1, 1.0, 0.1), model.CaseFinished(case=CASES[0].key)])
    with closing(sqlite3.connect(store.path)) as other:
        found = other.execute("SELECT metric, hex(samples) FROM measurement").fetchall()
        size = other.execute("SELECT json_extract(case_json, '$.size') FROM case_result").fetchone()
    # 1.0 and 0.1 as little-endian float64, bytes as IEEE 754 has them
    assert found == [("latency", "000000000000F03F" + "9A9999999999B93F")]
    assert size == (16,)


# ------------------------------------------------------------------ numbers and names


def test_runs_are_numbered_from_one_and_no_number_is_given_twice(store):
    assert [store.begin_run(started(f"run-{i}")) for i in range(3)] == [1, 2, 3]
    with closing(sqlite3.connect(store.path)) as other, other:
        other.execute("DELETE FROM run WHERE number = 3")
    assert store.begin_run(started("run-3")) == 4


def test_two_writers_share_the_numbers(store):
    with closing(Store.open(store.path)) as other:
        assert store.begin_run(started("a")) == 1
        assert other.begin_run(started("b")) == 2
        assert store.begin_run(started("c")) == 3
        assert [run.run_id for run in store.runs()] == ["c", "b", "a"]


DAYS = ("20260101-aaaa", "20260102-bbbb", "20260102-cccc")


@pytest.mark.parametrize(("ids", "asked", "found"), [
    (DAYS, "2", DAYS[1]), (DAYS, "latest", DAYS[2]), (DAYS, "20260101", DAYS[0]), (DAYS, DAYS[1], DAYS[1]),
    (("2-first", "second"), "2", "second"), (("abc", "abcd"), "abc", "abc"),
])  # fmt: skip
def test_a_run_is_found_by_number_then_id_then_prefix(store, ids, asked, found):
    for run_id in ids:
        store.begin_run(started(run_id))
    assert store.find(asked) == found


def test_the_number_of_a_deleted_run_is_no_start_of_another_ones_id(store):
    """`rm 1`, repeated, deleted run 2, whose id begins with 1."""
    for run_id in ("1a22-first", "1a23-second"):
        store.begin_run(started(run_id))
    store.delete("1a22-first", force=True)
    with pytest.raises(UsageError, match="No run matches '1'"):
        store.find("1")


def test_an_ambiguous_prefix_names_the_candidates(store):
    for run_id in DAYS:
        store.begin_run(started(run_id))
    with pytest.raises(UsageError) as caught:
        store.find("20260102")
    assert "20260102-bbbb (run 2)" in caught.value.message
    assert "20260102-cccc (run 3)" in caught.value.message
    assert "aaaa" not in caught.value.message


def test_many_candidates_are_not_all_listed(store, words):
    for index in range(9):
        store.begin_run(started(f"x{index}"))
    with words.of(UsageError):
        store.find("x")


@pytest.mark.parametrize("text", ["7", "nonsense", "", "%", "999999999999999999999999", "٣", "LATEST"])
def test_an_unknown_run_is_a_usage_error_with_a_remedy(store, text):
    store.begin_run(started())
    with pytest.raises(NoSuchRunError) as caught:
        store.find(text)
    assert repr(text) in caught.value.message
    assert "history" in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        store.load(text)
    assert repr(text) in caught.value.message


def test_without_runs_the_sentence_says_how_to_get_one(store, words):
    assert store.runs() == []
    with words.of(UsageError):
        store.find("latest")
    store.begin_run(started())
    with words.of(NoSuchRunError):
        store.find("7")


# ------------------------------------------------------------------ the list of runs


def test_the_list_says_what_each_run_was(store):
    stream = [
        started(wall_ns=1_000),
        model.DevicesFound(devices=DEVICES),
        model.CaseFinished(case=CASES[0].key),
        model.CaseFinished(case=CASES[1].key),
        model.CaseFailed(case=CASES[2].key, kind="oom", message=""),
        model.CaseFailed(case=CASES[3].key, kind="skipped", message=""),
        model.RunFinished(status="done", wall_ns=6_000),
    ]
    save(store, stream)
    store.begin_run(started("second", plan=replace(PLAN, name="sweep", simulation=None)))
    second, first = store.runs()
    assert (first.number, first.name, first.status, first.series_id) == (1, "quick", "done", "s1")
    assert (first.cases_ok, first.cases_failed, first.cases_skipped) == (2, 1, 1)
    assert (first.started_wall_ns, first.duration_ns) == (1_000, 5_000)
    assert first.devices == ("Xeon", "H200")
    assert first.simulated
    assert (second.number, second.name, second.status, second.duration_ns) == (2, "sweep", "running", None)
    assert (second.cases_ok, second.cases_failed, second.cases_skipped, second.devices) == (0, 0, 0, ())
    assert not second.simulated
    assert store.runs(limit=1) == [second]
    finished = FinishedCases(first.run_id, 1, True, tuple(case.key for case in CASES[:2]))
    assert store.finished_cases({"matmul", "conv2d"}, procfs.hostname(), simulated=True, limit=9) == [finished]


def test_a_run_of_which_every_case_failed_is_not_done(store):
    for run, kinds in (("all", ("oom", "error")), ("one", ("oom", "")), ("none", ("skipped", "skipped"))):
        ends = (
            model.CaseFailed(case=case.key, kind=kind, message="") if kind else model.CaseFinished(case=case.key)
            for case, kind in zip(CASES, kinds, strict=False)
        )
        save(store, [started(run), *ends, model.RunFinished(status="done", wall_ns=6_000)])
    assert [run.status for run in store.runs()] == ["done", "done", "failed"]
    assert [run.run_id for run in store.runs(text="status:failed")] == ["all"]


DYING_WRITER = """
import os, sys
from pathlib import Path
from cpugpu_tui.model import Plan, RunStarted
from cpugpu_tui.store import Store
store = Store.open(Path(sys.argv[1]))
store.begin_run(RunStarted(run_id="died", series_id="s", plan=Plan("quick", ()), environment={}))
os._exit(9)
"""


def test_a_run_whose_process_died_is_interrupted_and_a_living_one_is_not(tmp_path):
    path = tmp_path / "results.db"
    with closing(Store.open(path)) as store:
        store.begin_run(started("alive"))
        subprocess.run([sys.executable, "-c", DYING_WRITER, str(path)], timeout=120)
        assert {run.run_id: run.status for run in store.runs()} == {"died": "running", "alive": "running"}
        with closing(Store.open(path)) as later:
            assert {run.run_id: run.status for run in later.runs()} == {"died": "interrupted", "alive": "running"}
        assert store.mark_interrupted() == 0


def test_what_json_cannot_hold_is_a_store_error_and_leaves_nothing(store):
    store.begin_run(started())
    bad = model.TelemetryRead(host={"cpu_pct": model.Reading(float("nan"))})
    with pytest.raises(StoreError):
        store.commit_cases("20260101-aaaa", [[model.CaseFinished(case=CASES[0].key)]], [bad])
    assert [type(event) for event in store.load("20260101-aaaa")] == [model.RunStarted]
    store.commit_cases("20260101-aaaa", [[model.CaseFinished(case=CASES[0].key)]], [])
    assert store.runs()[0].cases_ok == 1


def test_a_run_that_someone_deleted_is_a_store_error(store):
    with pytest.raises(LostRunError, match="gone"):
        store.finish_run("gone", model.RunFinished(status="done"))


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.rename(path.with_name("moved.db"))])
def test_what_has_no_file_by_that_name_any_more_is_not_said_to_be_saved(store, lose):
    store.begin_run(started())
    store.commit_cases("20260101-aaaa", [[model.CaseFinished(case=CASES[0].key)]])
    lose(store.path)
    with pytest.raises(ReplacedError):
        store.commit_cases("20260101-aaaa", [[model.CaseFinished(case=CASES[1].key)]])
    assert not store.path.exists()


def test_a_closed_store_is_a_store_error(store):
    store.close()
    store.close()
    with pytest.raises(StoreError):
        store.runs()
