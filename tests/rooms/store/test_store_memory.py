"""Managing saved runs: series, baselines, tags, deletion, pruning and merging."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from tests.helpers.command_line import ROOT
from tests.helpers.runs.read_back import integrity_check

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE, LockedError, UsageError
from cpugpu_tui.store import RunSummary, Store
from cpugpu_tui.store.maintenance import age_ns, merge, pruning

SMALL, LARGE, CHOSEN = model.Case("matmul", 64), model.Case("matmul", 128), model.Case("matmul", 96)
FACTS = {"hostname": "node1", "cpu": "Some CPU", "torch": "2.11", "argv": ["run"], "threads": 2}
GPU = model.Device("cuda:0", "Some GPU", "GPU-1", 2**34)


def stream(run_id, series_id="s1", *, done=True, name="matmul"):
    """Return a run of one finished, one failed and one chosen case, as a store returns it."""
    plan = model.Plan(name, (SMALL, LARGE))
    rounds = [
        model.DeviceSampled(
            case=SMALL.key, device="cpu", round_index=1, calls_per_block=7, samples={"latency": (1.5, 2.5)}
        )
    ]
    events: list[model.Event] = [
        model.RunStarted(run_id=run_id, series_id=series_id, plan=plan, environment=FACTS),
        model.DevicesFound(devices=(model.Device("cpu", "Some CPU"), GPU)),
        model.CaseStarted(case=SMALL.key), *rounds, model.CaseFinished(case=SMALL.key),
        model.TelemetryRead(),
        model.CaseFailed(case=LARGE.key, kind="oom", message="Too large."),
        model.CasesChosen(cases=(CHOSEN,)),
        model.CaseStarted(case=CHOSEN.key), model.CaseFinished(case=CHOSEN.key),
    ]  # fmt: skip
    events += [model.RunFinished(status="done", exit_code=3)] if done else []
    return [replace(event, seq=seq, wall_ns=1000 + seq, mono_ns=seq) for seq, event in enumerate(events, start=1)]


def numbered(events, number):
    first = events[0]
    assert isinstance(first, model.RunStarted)
    return [replace(first, number=number), *events[1:]]


# ------------------------------------------------------------------ import


def test_an_imported_run_is_the_run_that_was_exported(store):
    assert (store.import_run(stream("r1")), store.load("r1")) == (1, numbered(stream("r1"), 1))
    (run,) = store.runs()
    assert (run.status, run.cases_ok, run.cases_failed, run.hostname) == ("done", 2, 1, "node1")
    assert run.devices == ("Some CPU", "Some GPU")


def test_a_run_is_imported_once(store):
    store.import_run(stream("r1"))
    assert (store.import_run(stream("r2")), store.import_run(stream("r1"))) == (2, 1)
    assert [run.run_id for run in store.runs()] == ["r2", "r1"]
    assert integrity_check(store) == []


def test_a_stream_that_was_broken_off_is_an_interrupted_run(store):
    events = stream("r1", done=False)[:-1]  # the last case is not over
    store.import_run(events)
    assert (store.runs()[0].status, store.load("r1")) == ("interrupted", numbered(events[:-1], 1))


@pytest.mark.parametrize("events", [[], [model.RunFinished(status="done")]])
def test_a_stream_without_its_beginning_is_refused(store, events):
    with pytest.raises(UsageError, match="RunStarted"):
        store.import_run(events)
    assert store.runs() == []


# ------------------------------------------------------------------ series, baselines, tags


def test_a_series_is_its_runs_that_measured_something(store):
    store.import_run(stream("r1"))
    store.import_run(stream("r2", done=False))
    store.import_run(stream("r3")[:1])
    store.import_run(stream("r4", "s2"))
    store.begin_run(model.RunStarted(run_id="r5", series_id="s1", plan=model.Plan("matmul", ()), environment={}))
    assert (store.runs_of(store.series_of("r1")), store.runs_of("nothing")) == (["r1", "r2"], [])
    with pytest.raises(UsageError, match="'r9'"):
        store.series_of("r9")


def test_a_baseline_is_a_name_of_a_series(store):
    store.import_run(stream("r1"))
    store.import_run(stream("r2", "s2"))
    assert store.baselines().get("main") is None
    store.set_baseline("main", "s1")
    store.set_baseline("first", "s1")
    store.set_baseline("main", "s2")
    assert store.baselines() == {"first": "s1", "main": "s2"}
    assert [run.baselines for run in store.runs()] == [("main",), ("first",)]
    with pytest.raises(UsageError, match="'typo'"):
        store.set_baseline("main", "typo")


def test_tags_are_given_and_taken(store):
    store.import_run(stream("r1"))
    assert store.tag("r1", ["b", "a", "b"]) == ("a", "b")
    assert (store.tag("r1", ["c"], ["a", "never"]), store.runs()[0].tags) == (("b", "c"), ("b", "c"))


def test_words_and_tags_choose_runs(store):
    for run_id, name in (("r1", "matmul"), ("r2", "vector-dot"), ("r3", "matmul")):
        store.import_run(stream(run_id, name=name))
    store.tag("r3", ["Tuned", "cold"])
    store.tag("r1", ["cold"])

    def chosen(text="", tags=()):
        return [run.run_id for run in store.runs(text=text, tags=tags)]

    assert chosen("MATMUL") == ["r3", "r1"]
    assert chosen("some gpu dot") == ["r2"]
    assert chosen("node1 tuned") == ["r3"]
    assert chosen("100%") == []
    assert chosen(tags=["cold"]) == ["r3", "r1"]
    assert chosen("matmul", ["cold", "Tuned"]) == ["r3"]
    assert [run.run_id for run in store.runs(1, before=3, text="matmul")] == ["r1"]


# ------------------------------------------------------------------ deletion


def test_a_deleted_run_leaves_nothing_behind(store):
    store.import_run(stream("r1"))
    store.set_baseline("main", "s1")
    store.tag("r1", ["a"])
    store.delete("r1")
    tables = store._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    left = {name: store._connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for (name,) in tables}
    assert {name: count for name, count in left.items() if count} == {"sqlite_sequence": 1}


def test_what_another_run_needs_stays(store):
    store.import_run(stream("r1"))
    store.import_run(stream("r2"))
    store.set_baseline("main", "s1")
    store.delete("r1")
    assert (store.load("r2"), store.baselines()) == (numbered(stream("r2"), 2), {"main": "s1"})
    assert integrity_check(store) == []
    assert store.import_run(stream("r1")) == 3  # a number is never given twice


def test_a_running_run_is_not_deleted_unless_it_must_be(store):
    store.import_run(stream("r1"))
    store.begin_run(model.RunStarted(run_id="r2", series_id="s", plan=model.Plan("matmul", ()), environment={}))
    with pytest.raises(UsageError, match="Run 2"):
        store.delete("r1", "r2")
    assert len(store.runs()) == 2
    store.delete("r1", "r2", force=True)
    assert store.runs() == []


def test_the_room_of_deleted_runs_is_given_back(store):
    big = {**FACTS, "padding": "x" * 2_000_000}
    store.import_run([model.RunStarted(run_id="r1", series_id="s", plan=model.Plan("matmul", ()), environment=big)])
    before = store.size_bytes
    store.delete("r1")
    store.shrink()
    assert before > 2_000_000
    assert store.size_bytes < 500_000


# ------------------------------------------------------------------ pruning


def run_of(number, started_s, **more):
    usual = RunSummary(
        number, f"r{number}", "s", "matmul", "done", started_s * 10**9, 1, "node1", 1, 0, 0, (), simulated=False
    )  # fmt: skip
    return usual._replace(**more)  # type: ignore[arg-type]


def test_old_runs_go_and_dear_ones_stay():
    runs = [
        run_of(5, 500), run_of(4, 400, tags=("a",)), run_of(3, 300, baselines=("main",)),
        run_of(2, 200, status="running"), run_of(1, 100),
    ]  # fmt: skip
    found = pruning(runs, 0, None)
    assert [run.number for run in found.going] == [5, 1]
    assert [run.number for run in found.spared] == [4, 3, 2]
    assert [run.number for run in pruning(runs, 1, None).going] == [1]
    assert [run.number for run in pruning(runs, None, 500 * 10**9).going] == [1]
    assert not pruning(runs, 5, 500 * 10**9).going


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 30 * 86_400), ("12h", 43_200), ("90min", 5400), ("2w", 14 * 86_400), ("0.5 d", 43_200)],
)
def test_ages(text, seconds):
    assert age_ns(text) == seconds * 10**9


@pytest.mark.parametrize("text", ["30", "d", "-3d", "3 years", ""])
def test_what_is_no_age(text):
    with pytest.raises(UsageError, match=repr(text)):
        age_ns(text)


# ------------------------------------------------------------------ merging


def test_a_merge_brings_everything_once(store, tmp_path):
    path = tmp_path / "other.db"
    with closing(Store.open(path)) as other:
        other.import_run(stream("r1"))
        other.import_run(stream("r2", "s2"))
        other.begin_run(model.RunStarted(run_id="live", series_id="s3", plan=model.Plan("matmul", ()), environment={}))
        other.tag("r1", ["a"])
        other.set_baseline("main", "s1")
        other.set_baseline("mine", "s2")
    store.import_run(stream("r2", "s2"))
    store.import_run(stream("r3", "s9"))
    store.set_baseline("mine", "s9")
    first, again = merge(store, path), merge(store, path)
    assert (first.added, first.known, first.running, first.baselines) == (1, 1, 1, ("mine",))
    assert (again.added, again.known) == (0, 2)
    assert [run.run_id for run in store.runs()] == ["r1", "r3", "r2"]
    assert (store.load("r1"), store.runs()[0].tags) == (numbered(stream("r1"), 3), ("a",))
    assert store.baselines() == {"main": "s1", "mine": "s9"}
    assert integrity_check(store) == []


def test_a_merge_reads_older_versions_and_leaves_them(tmp_path):
    for path in sorted((ROOT / "tests" / "golden").glob("*.db")):
        before = path.read_bytes()
        with closing(Store.open(tmp_path / path.name)) as store:  # one each: v5.db has the runs of v4.db
            assert merge(store, path).added == 2
        assert path.read_bytes() == before
        assert not list(path.parent.glob(f"{path.name}?*"))


def test_a_merge_with_nothing_or_oneself_is_refused(store, tmp_path, words):
    with pytest.raises(UsageError) as missing:
        merge(store, tmp_path / "typo.db")
    assert not (tmp_path / "typo.db").exists()
    (tmp_path / "link.db").symlink_to(store.path)
    with pytest.raises(UsageError) as same:
        merge(store, tmp_path / "link.db")
    words([str(error.value).replace(str(tmp_path), "/data") for error in (missing, same)])


def test_a_merge_with_a_database_that_cannot_be_read_does_not_name_the_option_of_the_history(store, tmp_path, words):
    """Of a damaged argument it said that the next run renames it, and of a locked one to use --db."""
    damaged, foreign, in_use = (tmp_path / name for name in ("damaged.db", "cookies.db", "in_use.db"))
    with closing(Store.open(damaged)):
        pass
    damaged.write_bytes(damaged.read_bytes()[:4096] + b"\xff" * 4096)
    with closing(sqlite3.connect(foreign)) as cookies, closing(sqlite3.connect(in_use)) as lock:
        cookies.execute("CREATE TABLE cookie (name)")
        lock.execute("BEGIN EXCLUSIVE")
        errors = []
        for path in (damaged, foreign, in_use):
            with pytest.raises((UsageError, LockedError)) as caught:
                merge(store, path)
            errors.append(caught.value)
    assert [error.exit_code for error in errors] == [EXIT_USAGE, EXIT_USAGE, EXIT_UNFIT]
    words([str(error).replace(str(tmp_path), "/data") for error in errors])
