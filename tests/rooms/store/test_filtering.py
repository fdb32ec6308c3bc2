"""The filter of saved runs: what matches, and what a wrong one is told."""

import time
from contextlib import closing

import pytest
from tests.helpers.bench.large_history import make_history

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import (
    Case,
    CaseFinished,
    CaseStarted,
    Device,
    DevicesFound,
    Plan,
    RunFinished,
    RunStarted,
    Simulation,
)
from cpugpu_tui.store import RunSummary, Store
from cpugpu_tui.store.filtering import EXAMPLE, parse_filter, parse_while_typed, shape_of

RUN = RunSummary(
    number=7, run_id="abc", series_id="s", name="matmul", status="done", started_wall_ns=1_768_000_000 * 10**9,
    duration_ns=1, hostname="node1", cases_ok=2, cases_failed=0, cases_skipped=0,
    devices=("Xeon 8480", "NVIDIA H200"), simulated=False, tags=("nightly",), baselines=("main",), machine="node7",
    gpus=("NVIDIA H200",), dtypes=("bfloat16",), sizes=(64, 2048),
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "gpu:h200", "GPU:H200 dtype:bf16 n>1000", "dtype:b", "cpu:xeon", "n<=64", "n=2048", "n:64", "n>=2e3",
     "name:mat", "status:do", "date:2026-01", "host:node7", "tag:night", "#nightly", "baseline:main", "xeon matmul",
     "text:baseline"],
)  # fmt: skip
def test_a_run_matches_by_its_content(text):
    assert parse_filter(text)(RUN)


@pytest.mark.parametrize(
    "text",
    ["gpu:xeon", "cpu:h200", "gpu:h200 dtype:f32", "n>2048", "n<64", "n=100", "status:failed", "date:2025",
     "host:node2", "#weekly", "matmul jacobian"],
)  # fmt: skip
def test_a_run_without_that_content_does_not(text):
    assert not parse_filter(text)(RUN)


@pytest.mark.parametrize(
    ("text", "value", "remedy"),
    [("gpuu:h200", "gpuu:", "gpu:"), ("foo:bar", "foo:", "text:foo:bar"), ("n>x", "'x'", "n>1000"),
     ("n>", "n>", "n>1000"), ("n>1.5", "1.5", "n>1000"), ("dtype:int8", "int8", "bfloat16"),
     ("status:odd", "odd", "stopped"), ("date:today", "today", "date:2026"), ("date:2026-13", "2026-13", "day"),
     ("gpu:", "gpu:", "gpu:h200"),
     ("speedup>3", "speedup>3", "n>1000"), ("date:٢٠٢٦", "٢٠٢٦", "date:2026"), (f"n>{10**40}", "too large", "sizes")],
)  # fmt: skip
def test_a_wrong_filter_is_told_its_value_and_what_to_write(text, value, remedy):
    with pytest.raises(UsageError) as caught:
        parse_filter(f"matmul {text}")
    assert value in caught.value.message
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("start", ["foo:", "dtype:", "n>", "status:", "date:", "speedup>"])
def test_an_error_about_a_very_long_part_stays_short(start):
    with pytest.raises(UsageError) as caught:
        parse_filter(start + "x" * 10_000)
    assert len(str(caught.value)) < 300


def test_while_it_is_typed_a_wrong_part_is_left_out_and_told():
    matches, error = parse_while_typed("matmul gpuu:h200 dtype:bf16")
    assert "gpuu" in error.message
    assert matches(RUN)
    assert not matches(RUN._replace(dtypes=("float32",)))


@pytest.mark.parametrize("key", ["", "a/b/c", "w/v/²/float32/t1", f"w/v/{10**30}/float32/t1", "w/v/-1/float32/t1"])
def test_a_case_key_of_another_program_has_no_shape(key):
    assert shape_of(key) is None


# ------------------------------------------------------------------ in a database

HOSTILE = (
    "evil\x1b[2J[red]", "\u202egnp.exe", "'; DROP TABLE run; --", "100%_?", "😀matmul", "ΣΑΣ İstanbul", "x" * 10_000,
    'a"b\\c', "nul\x00byte",
)  # fmt: skip
"""Names of runs, tags, hosts and devices."""


@pytest.fixture(scope="module")
def store():
    """Runs that differ in all that a filter can ask for."""
    with closing(Store.in_memory()) as store:
        for index, name in enumerate(("matmul", "vector-dot", "jacobian", *HOSTILE)):
            is_odd = bool(index % 2)
            cases = [Case(name, 64 << index, dtype="bfloat16" if is_odd else "float32"), Case(name, 10**index)]
            facts: dict[str, object] = {"hostname": f"node{index % 3}" if index < 4 else name, "cpu": "Some CPU"}
            facts |= {"fleet_host": f"Rack{index}"} if index % 3 == 0 else {}
            plan = Plan(name, tuple(cases), simulation=Simulation() if index % 4 == 0 else None)
            devices = [Device("cpu", f"Xeon {index}")]
            devices += [Device("cuda:0", "NVIDIA H200", "GPU-0")] if is_odd else [Device("cuda:0", name, "GPU-1")]
            store.import_run(
                [
                    RunStarted(run_id=f"ID{index}", series_id=f"s{index // 2}", plan=plan, environment=facts, seq=1,
                               wall_ns=(1_767_200_000 + index * 40_000) * 10**9),
                    DevicesFound(devices=tuple(devices), seq=2),
                    *(event for case in cases for event in (CaseStarted(case=case.key), CaseFinished(case=case.key))),
                    RunFinished(status="stopped" if index == 2 else "done", seq=9),
                ]
            )  # fmt: skip
            store.tag(f"ID{index}", [f"tag{index}", name])
        store._connection.execute("UPDATE run SET hostname = 'Saver' WHERE number = 2")  # it ran on node1
        store.set_baseline("Main", "s0")
        for name in HOSTILE:
            store.set_baseline(name, "s2")
        yield store


@pytest.mark.parametrize(
    ("text", "numbers"),
    [(EXAMPLE, [12, 10, 8, 6]), ("MATMUL", [8, 6, 5, 1]), ("gpu:h200", [12, 10, 8, 6, 4, 2]), ("cpu:1", [12, 11, 2]),
     ("n<65", [2, 1]), ("n:128", [2]), ("n<=100 dtype:bf16", [2]), ("status:st", [3]), ("2026-01-02", [5, 4]),
     ("host:node1", [2]), ("host:saver", [2]), ("host:RACK", [10, 7, 4, 1]), ("rack6", [7]), ("name:dot", [2]),
     ("tag:tag1", [12, 11, 2]), ("#tag2", [3]), ("baseline:main", [2, 1]), ("text:baseline", [6, 5, 2, 1]),
     ("simulated", [9, 5, 1]), ("7", [8, 7]), ("gpu:xeon", []), ("cpu:h200", []), ("tag:100%_?", [7]),
     ("σας", [9, 6, 5])],
)  # fmt: skip
def test_a_history_is_filtered_by_all_that_its_runs_tell(store, text, numbers):
    assert [run.number for run in store.runs(text=text)] == numbers
    assert [run.number for run in store.runs(2, text=text)] == numbers[:2]


def test_a_killed_run_has_the_sizes_that_it_planned():
    """A sweep from 1 to 8,192 looked like one from 1 to 64."""
    cases = [Case("matmul", size) for size in (8192, 1, 64)]
    with closing(Store.in_memory()) as store:
        begun = RunStarted(run_id="ID", series_id="s", plan=Plan("matmul", tuple(cases)), environment={}, seq=1)
        store.import_run([begun, *(kind(case=each.key) for each in cases[1:] for kind in (CaseStarted, CaseFinished))])
        for text in ("", "n>8000", "n:64"):
            assert [run.sizes for run in store.runs(text=text)] == [(1, 64, 8192)], text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_found_as_they_are(store, name):
    word = name.split()[0]
    for kind in ("name", "tag", "baseline"):
        assert store.runs(text=f"{kind}:{word}"), kind


@pytest.mark.parametrize("zone", ["UTC-9", "UTC+9"])
def test_a_day_is_that_of_the_local_time(store, zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        days = [f"2026-01-0{day}" for day in range(1, 8)]
        found = [[run.number for run in store.runs(text=f"date:{day}")] for day in days]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found != [[run.number for run in store.runs(text=f"date:{day}")] for day in days]


def test_bytes_that_are_no_text_and_very_long_words_do_no_harm(store):
    assert (store.runs(text="\udcff"), store.runs(text="y" * 10_000)) == ([], [])
    assert store.runs(text="x" * 10_000) != []


def test_cases_are_read_only_of_runs_that_match_apart_from_them(tmp_path, monkeypatch):
    """Half of the time of a filter in 10,000 runs went to the cases of runs that did not match."""
    make_history(tmp_path / "results.db", 40)
    read = []
    with_cases = RunSummary.with_cases
    monkeypatch.setattr(RunSummary, "with_cases", lambda run, cases: (read.append(run), with_cases(run, cases))[1])
    wanted = {"": 0, "nothing": 0, "matmul": 10, "MATMUL n>1000": 10, "gpu:h200 n>1": 0, "n>1000": 0, "dtype:bf16": 0,
              "status:done matmul dtype:f32": 10, "text:n": 40}  # fmt: skip
    with closing(Store.open(tmp_path / "results.db")) as store:
        everything = store.runs()
        assert len(everything) == 40
        assert everything[0].sizes == (64, 128, 256, 512, 1024)
        for text, count in wanted.items():
            read.clear()
            matches = parse_filter(text)
            assert store.runs(text=text) == [run for run in everything if matches(run)], text
            assert len(read) == count, text
