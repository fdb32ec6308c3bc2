"""Comparing in the app: c shows the previous series or an older one; b sets the baseline, the status line names it."""

import random
import re
from dataclasses import replace

import pytest
from tests.helpers.app import fake_run
from tests.helpers.app.fake_run import finished as case_finished
from tests.helpers.app.looking import text_of
from tests.helpers.app.saved_runs import HOUR_NS, NOW_NS, HistoryBackend, open_newest

from cpugpu_tui.analysis.compare import FALSE_SHARE, judge
from cpugpu_tui.analysis.pairs import Pair
from cpugpu_tui.compare.changes import Changes
from cpugpu_tui.compare.series import Series
from cpugpu_tui.model import DEVICE, DevicesFound, Event, RunFinished, RunStarted
from cpugpu_tui.render.comparison import interval_text
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.folding import folded, measured
from cpugpu_tui.store import Store
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.panes.change_cells import change_lines
from cpugpu_tui.ui.panes.lines import plain
from cpugpu_tui.ui.panes.status import StatusPane
from cpugpu_tui.ui.screens.compare import CompareScreen, table_lines
from cpugpu_tui.ui.screens.form import BaselineBox
from cpugpu_tui.ui.screens.main import MainScreen

SWEEP = build_plan(PlanRequest(("matmul",), sizes="64,256"))


def run_stream(run_id, series, number, gpu_factor, torch, plan=SWEEP):
    """A finished run of a series; its times wander by 0.3 % from run to run."""
    wander = random.Random(run_id)
    environment = {**fake_run.ENVIRONMENT, "torch": torch}
    events: list[Event] = [
        RunStarted(run_id=run_id, series_id=series, plan=plan, environment=environment),
        DevicesFound(devices=fake_run.DEVICES),
    ]
    for case in plan.cases:
        off = 1 + wander.gauss(0.0, 0.003)
        events += [*fake_run.rounds(case, 1e5 * off, 2e4 * gpu_factor * off), case_finished(case)]
    events.append(RunFinished(status="done"))
    start_ns = NOW_NS - 9 * HOUR_NS + number * 10**9
    return [replace(event, seq=index + 1, wall_ns=start_ns + index) for index, event in enumerate(events)]


@pytest.fixture
def store(tmp_path):
    """Three runs of `old`, then three of `slow`, whose GPU takes 20 % longer under another torch."""
    store = Store.open(tmp_path / "history.db")
    for index in range(3):
        store.import_run(run_stream(f"old{index}", "old", index, 1.0, "2.10.0"))
    for index in range(3):
        store.import_run(run_stream(f"slow{index}", "slow", 10 + index, 1.2, "2.11.0"))
    yield store
    store.close()


def status_of(pilot):
    main = next(screen for screen in pilot.app.screen_stack if isinstance(screen, MainScreen))
    return "\n".join(plain(line) for line in main.query_one(StatusPane).lines)


async def compare(pilot):
    await pilot.press("c")
    await fake_run.settled(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
    await fake_run.settled(pilot, lambda: "reading" not in text_of(pilot, "#page-title"))


async def test_c_compares_with_the_previous_series_what_differs_first(store, words):
    async with fake_run.opened(fake_run.new_app(backend=HistoryBackend(store))) as pilot:
        await open_newest(pilot)
        await compare(pilot)
        assert "runs 4-6 vs" in text_of(pilot, "#page-title")
        lines = text_of(pilot, "#page-text").splitlines()
        words(lines[0])
        slow, same = (next(line for line in lines if line.startswith(f"matmul 64   {on}")) for on in ("GPU", "CPU"))
        assert "+20." in slow or "+19." in slow
        assert slow.endswith("SLOWER")
        assert same.endswith(("SAME", "UNDECIDED"))
        assert any(line.startswith("GPU, geometric mean") and ": +" in line for line in lines)
        await pilot.press("c")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_o_chooses_an_older_series_and_n_comes_back(store, words):
    for index in range(3):
        store.import_run(run_stream(f"new{index}", "new", 20 + index, 1.0, "2.11.0"))
    async with fake_run.opened(fake_run.new_app(backend=HistoryBackend(store))) as pilot:
        await open_newest(pilot)
        await compare(pilot)
        words(text_of(pilot, "#page-title"))
        await pilot.press("o")
        await fake_run.settled(pilot, lambda: "vs runs 1-3" in text_of(pilot, "#page-title"))
        await pilot.press("o", "n")
        await fake_run.settled(pilot, lambda: "vs runs 4-6" in text_of(pilot, "#page-title"))


def test_names_stay_whole_at_80_columns_and_what_cannot_be_compared_says_why():
    sides = ({"a": 100.0, "b": 101.0, "c": 99.0}, {"d": 100.0, "e": 101.0, "f": 99.5})
    sweep = ("vector-dot", "default", "float64", 0)
    why = "not timed on this device in the base series and mismatch in the new series"
    pairs = [Pair("one", "CPU", *sides, sweep, 1024), Pair("two", "GPU", {}, {}, sweep, 100_000, why),
             Pair("one", "GPU", *sides, sweep, 1024, metric=DEVICE)]  # fmt: skip
    lines = [plain(line) for line in table_lines(judge(pairs), 80, UNICODE)]
    assert lines[1].split()[:4] == ["vector-dot", "float64", "1,024", "CPU"]
    assert max(map(len, lines)) <= 80
    assert lines[3].split()[3:5] == ["GPU", "kernels"]
    name, device, reason = re.split("  +", lines[2])
    assert (name, device) == ("vector-dot float64 100,000", "GPU")
    assert why.startswith(reason.removesuffix("…"))
    assert plain(table_lines(judge(pairs), 140, UNICODE)[2]).endswith(f"NOT COMPARABLE: {why}")


@pytest.mark.parametrize("code", ["", "x @ x"])
@pytest.mark.parametrize("width", [36, 56])
def test_below_80_columns_the_verdicts_stay_whole(width, code):
    sides = ({"a": 100.0}, {"d": 101.0})
    sweep = ("matmul", "default", "float32", 0)
    pairs = [Pair("one", "CPU", *sides, sweep, 2048), Pair("two", "CPU", {}, {}, sweep, 405, "not in the new series"),
             Pair("one", "GPU", *sides, sweep, 2048)]  # fmt: skip
    pairs = [replace(pair, code=code) for pair in pairs]
    lines = [plain(line) for line in table_lines(judge(pairs), width, UNICODE)]
    assert max(map(len, lines)) <= width
    assert [lines[1], lines[4]] == ["CPU", "GPU"]
    assert lines[2].endswith("TOO FEW RUNS")
    name = "" if width == 36 else f"{code or 'matmul'} "
    assert lines[5].startswith(f"{name}2,048 ")
    head = "" if width == 36 else "NOT COMPARABLE: "
    assert lines[3].endswith(f"  {head}not in the new series")


async def test_two_runs_are_too_few_and_that_is_said(store):
    store.import_run(run_stream("new0", "new", 20, 1.0, "2.11.0"))
    async with fake_run.opened(fake_run.new_app(backend=HistoryBackend(store))) as pilot:
        await open_newest(pilot)
        await compare(pilot)
        said = text_of(pilot, "#page-text")
        assert "TOO FEW RUNS" in said
        keys = text_of(pilot, "#page-keys")
        assert "o n" in keys, "there are two series to compare with"
        assert ("scroll" in keys) == (len(said.splitlines()) > pilot.app.size.height - 2)
        assert "SAME" not in said


async def test_without_another_series_it_says_what_to_do(tmp_path, words):
    store = Store.open(tmp_path / "history.db")
    store.import_run(run_stream("only", "only", 0, 1.0, "2.11.0"))
    async with fake_run.opened(fake_run.new_app(backend=HistoryBackend(store))) as pilot:
        await open_newest(pilot)
        await compare(pilot)
        words(text_of(pilot, "#page-text"))
    store.close()


async def test_b_makes_the_series_the_baseline_and_the_status_line_names_it(store):
    store.set_baseline("main", "old")
    async with fake_run.opened(fake_run.new_app(backend=HistoryBackend(store)), (80, 24)) as pilot:
        await open_newest(pilot)
        await pilot.press("b", "enter")
        said = "Baseline main is runs 4-6 (was runs 1-3). `gate` needs 5 runs."
        await fake_run.settled(pilot, lambda: pilot.app.state.key_result == said)
        assert said.removesuffix(" runs.") in status_of(pilot), "beside the tag of a saved run"
        assert store.baselines() == {"main": "slow"}
        await pilot.press("b", "4", "2", "enter")
        assert isinstance(pilot.app.screen, BaselineBox)
        assert "'42'" in text_of(pilot, "#hint")
        await pilot.press("ctrl+u", *"v2", "enter")
        await fake_run.settled(pilot, lambda: pilot.app.state.baseline == ("slow", "is baseline v2"))
        assert store.baselines() == {"main": "slow", "v2": "slow"}


async def test_after_a_run_the_status_line_compares_with_the_baseline(store):
    store.set_baseline("main", "old")
    request = PlanRequest(("matmul",), sizes="64,256")
    async with fake_run.opened(fake_run.new_app(request, HistoryBackend(store))) as pilot:
        session = await fake_run.start_run(pilot)
        # The session saves nothing: its run is put into the store as a live one would be.
        assert session.plan.cases == SWEEP.cases
        store.import_run(run_stream("fresh", session.series_id, 30, 1.1, "2.11.0"))
        session.put(
            *(event for case in session.plan.cases for event in (*fake_run.rounds(case, 1e5, 2e4), case_finished(case)))
        )
        await fake_run.finish(pilot, session)
        await fake_run.settled(pilot, lambda: "vs main" in status_of(pilot))
        assert "GPU +1" in status_of(pilot)
        assert "too few runs" in status_of(pilot)


async def test_neither_is_possible_beside_a_live_run_or_without_one(store):
    async with fake_run.opened(fake_run.new_app(backend=HistoryBackend(store))) as pilot:
        await pilot.press("c")
        assert isinstance(pilot.app.screen, MainScreen)
        session = await fake_run.start_run(pilot)
        await fake_run.reach_gap(pilot, session)
        await pilot.press("c", "b")
        assert isinstance(pilot.app.screen, MainScreen)
        assert store.baselines() == {}


def test_the_detail_of_a_row_shows_the_interval_that_decided_and_the_kernel_time():
    base, new = ([run_stream(f"{name}{index}", name, index, factor, "2.11.0") for index in range(3)]
                 for name, factor in (("old", 1.0), ("new", 1.2)))  # fmt: skip
    runs = [measured(stream) for stream in (*base, *new)]
    known = tuple(run for run in runs if run is not None)
    changes, run = Changes("new2", Series("", known[:3]), known[3:]), folded(new[-1])
    row = next(iter(run.rows.values()))
    lines = [plain(line) for line in change_lines(changes, run, row, 110)]
    judged = changes.judged[row.case.key, "GPU", DEVICE]
    (kernels,) = [line for line in lines if line.startswith("GPU kernel time")]
    assert f"interval {interval_text(judged.change)}: slower" in kernels
    # Two of three times are named; latency of the CPU did not change.
    assert judged.confidence == pytest.approx(1 - FALSE_SHARE * 2 / 3)


def test_a_change_from_one_run_to_a_running_one_is_called_possible_noise():
    base, new = (run_stream(name, name, 0, factor, "2.11.0") for name, factor in (("old", 1.0), ("new", 1.04)))
    run, changes = folded(new), Changes("new", Series("", (measured(base),)), ())
    lines = [plain(line) for line in change_lines(changes, run, next(iter(run.rows.values())), 110)]
    assert [line.split(" %, ")[1] for line in lines[1:]] == ["may be noise (1 run earlier, 1 now)."] * 2
