"""Repeat runs in the app: what changed since the run before, a count before r, one row again."""

import threading
from dataclasses import replace

import pytest
from tests.helpers.app import fake_run
from tests.helpers.app.looking import table_of
from tests.helpers.app.saved_runs import HistoryBackend
from tests.helpers.command_line import PATIENCE_S
from tests.rooms.ui.screens.test_compare_screen import run_stream, status_of

from cpugpu_tui.compare.changes import remark_on, series_before
from cpugpu_tui.compare.series import Series
from cpugpu_tui.model import Device, DevicesFound, Plan, RunFinished, Simulation
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.folding import measured
from cpugpu_tui.ui.controllers import live
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.live.saved_runs import QuietReader
from cpugpu_tui.ui.panes.lines import plain
from cpugpu_tui.ui.panes.status import status_line
from cpugpu_tui.ui.panes.timings_pane import TimingsPane

REQUEST = PlanRequest(("matmul",), sizes="64,256")


def told(pilot, label, row=0):
    """A cell of the table by what its column is called."""
    table = table_of(pilot)
    labels = [str(column.label) for column in table.ordered_columns]
    assert label in labels, labels
    return str(table.get_row_at(row)[labels.index(label)]).strip()


def title_of(pilot):
    return str(pilot.app.screen_stack[0].query_one(TimingsPane).border_title)


def feed(session, gpu_factor, index=0):
    """Every case of the plan, the GPU so much slower; runs of a series lie 0.2 % apart."""
    off = 1 + 0.001 * (0, 1, -1)[index % 3]
    for case in session.plan.cases:
        session.put(*fake_run.rounds(case, 1e5 * off, 2e4 * gpu_factor * off), fake_run.finished(case))


async def whole_run(pilot, gpu_factor=1.0):
    session = await fake_run.start_run(pilot)
    feed(session, gpu_factor)
    await fake_run.finish(pilot, session)
    return session


async def whole_series(pilot, keys, count, gpu_factor=1.0):
    """Press the keys, and give each run of the series its times."""
    app = pilot.app
    before = len(app.backend.sessions)
    await fake_run.settled(pilot, lambda: app.state.agent_ready)
    await pilot.press(*keys)
    for index in range(count):
        await fake_run.settled(pilot, lambda index=index: len(app.backend.sessions) == before + index + 1)
        feed(app.backend.sessions[-1], gpu_factor, index)
        app.backend.sessions[-1].put(RunFinished(status="done"))
    await fake_run.settled(pilot, lambda: not app.state.situation.live)
    assert len(app.backend.sessions) == before + count


# ------------------------------------------------------------------ change


async def test_a_run_is_compared_with_the_last_finished_one_of_its_plan_as_soon_as_a_row_is_done():
    async with fake_run.opened(fake_run.new_app(REQUEST)) as pilot:
        await whole_run(pilot)
        assert "change" not in title_of(pilot)
        session = await fake_run.start_run(pilot)
        case = session.plan.cases[0]
        session.put(*fake_run.rounds(case, 1e5, 2e4 * 1.5), fake_run.finished(case))
        await fake_run.reach_gap(pilot, session)
        assert [told(pilot, f"{device} change") for device in ("GPU", "CPU")] == ["+50.0%", "0.0%"]
        assert told(pilot, "GPU change", row=1) == "–"
        assert "8 vs run 7" in title_of(pilot)
        await fake_run.finish(pilot, session, "stopped")
        await whole_run(pilot, 1.1)
        assert told(pilot, "GPU change") == "+10.0%"
        assert "9 vs run 7" in title_of(pilot), "a run that was stopped is no measure for the next"
        assert "may be noise: verdicts need 3 runs" in title_of(pilot), "one run is too few for a word"
        pilot.app.change(request=REQUEST._replace(sizes="64,128"))
        await whole_run(pilot)
        assert " vs " not in title_of(pilot)


async def test_from_three_runs_each_on_a_word_stands_beside_the_percent():
    async with fake_run.opened(fake_run.new_app(REQUEST)) as pilot:
        await whole_series(pilot, ["3", "r"], 3)
        assert len({session.series_id for session in pilot.app.backend.sessions}) == 1
        assert told(pilot, "min-max %") == "0.2, 0.2"
        assert "of 3 runs" in title_of(pilot)
        await whole_series(pilot, ["3", "r"], 3, gpu_factor=1.2)
        assert told(pilot, "GPU change") == "+20.0% slower"
        assert told(pilot, "CPU change") == "0.0% same"
        assert "10-12 vs" in title_of(pilot)
        await whole_series(pilot, ["3", "r"], 3)
        assert told(pilot, "GPU change") == "-16.7% faster"
        await whole_run(pilot)
        assert pilot.app.state.repeats == 1, "the count was for one series"
        assert "of 3 runs" not in title_of(pilot)


async def test_80_columns_name_the_device_that_is_worst_and_without_a_verdict_both():
    async with fake_run.opened(fake_run.new_app(REQUEST), (80, 24)) as pilot:
        await whole_series(pilot, ["3", "r"], 3)
        for factor, said in ((1.2, "GPU +20% slower"), (1.2, "same"), (3.6, "GPU 3.00× slower")):
            await whole_series(pilot, ["3", "r"], 3, gpu_factor=factor)
            assert told(pilot, "change CPU, GPU") == said
        await whole_run(pilot, 3.6 * 1.1)
        assert told(pilot, "change CPU, GPU").split() == ["0.0%", "+10.0%"]


# ------------------------------------------------------------------ from the history


async def test_the_first_run_of_a_day_is_compared_with_the_last_of_the_history(store):
    plan = build_plan(REQUEST._replace(gaps=True))
    for index in range(2):
        store.import_run(run_stream(f"old{index}", "old", index, 1.0, "2.10.0", plan))
    async with fake_run.opened(fake_run.new_app(REQUEST, HistoryBackend(store))) as pilot:
        session = await fake_run.start_run(pilot)
        assert " vs " not in title_of(pilot)
        for case in session.plan.cases:
            session.put(*fake_run.rounds(case, 1e5, 2e4 * 1.3), fake_run.finished(case))
        await fake_run.finish(pilot, session)
        await fake_run.settled(pilot, lambda: "vs runs 1-2" in title_of(pilot))
        assert told(pilot, "GPU change").startswith("+3")
        assert "torch differs" in title_of(pilot)


def reader_of(store):
    app = fake_run.new_app(backend=HistoryBackend(store))
    app.bridge._opened.set()
    return QuietReader(app.bridge.between_runs)


def test_neither_made_up_nor_other_runs_are_the_series_before(store):
    plan = build_plan(REQUEST)
    simulated = replace(plan, simulation=Simulation())
    for number, (run_id, other) in enumerate(
        [("right", plan), ("made-up", simulated), ("other", replace(plan, cases=plan.cases[:1]))]
    ):
        store.import_run(run_stream(run_id, run_id, number, 1.0, "2.11.0", other))
    events = run_stream("elsewhere", "elsewhere", 5, 1.0, "2.11.0", plan)
    started = events[0]
    store.import_run([replace(started, environment={**started.environment, "hostname": "far"}), *events[1:]])
    before = series_before(reader_of(store), replace(started, run_id="now", series_id="now", number=None))
    assert [run.run_id for run in before.runs] == ["right"]
    other_noise = replace(simulated, simulation=Simulation(seed=9))  # as in each run of a made-up series
    made_up = replace(started, run_id="now", series_id="now", number=None, plan=other_noise)
    before = series_before(reader_of(store), made_up)
    assert [run.run_id for run in before.runs] == ["made-up"]


def test_a_machine_with_another_gpu_is_not_compared_with(store):
    plan: Plan = build_plan(REQUEST)
    store.import_run(run_stream("old", "old", 0, 1.0, "2.11.0", plan))
    base = reader_of(store).series("old")
    events = run_stream("new", "new", 1, 1.0, "2.11.0", plan)
    mine = measured(events)
    assert remark_on(base, mine) == ""
    limited = Series("", tuple(replace(run, facts={**run.facts, "power limit": "700 W"}) for run in base.runs))
    assert remark_on(limited, mine) == "", "the first reading of this run is still to come"
    lower = replace(mine, facts={**mine.facts, "power limit": "350 W"})
    assert remark_on(limited, lower) == "power limit differs"
    other = DevicesFound(devices=(fake_run.DEVICES[0], Device("cuda:0", "NVIDIA A100", "GPU-2")))
    theirs = measured([event if not isinstance(event, DevicesFound) else other for event in events])
    assert (theirs is None, remark_on(base, theirs)) == (False, None)


# ------------------------------------------------------------------ reading between runs


async def test_a_run_waits_for_the_step_of_reading_in_flight():
    async with fake_run.opened(fake_run.new_app(REQUEST)) as pilot:
        inside, leave = threading.Event(), threading.Event()

        def read():
            with pilot.app.bridge.between_runs():
                inside.set()
                leave.wait(PATIENCE_S)

        reader = threading.Thread(target=read)
        reader.start()
        inside.wait(PATIENCE_S)
        await fake_run.settled(pilot, lambda: pilot.app.state.agent_ready)
        await pilot.press("r")
        assert pilot.app.state.situation.live
        assert pilot.app.backend.sessions == []
        leave.set()
        reader.join(PATIENCE_S)
        await fake_run.settled(pilot, lambda: len(pilot.app.backend.sessions) == 1)


# ------------------------------------------------------------------ how many


async def test_a_count_is_said_in_the_status_line_and_esc_drops_it():
    async with fake_run.opened(fake_run.new_app(REQUEST)) as pilot:
        await fake_run.settled(pilot, lambda: pilot.app.state.agent_ready)
        await pilot.press("1", "2")
        assert "12 runs queued: r start, esc cancel" in status_of(pilot)
        assert "12 runs queued" in plain(status_line(pilot.app.state, 30, UNICODE))
        assert ": r" not in plain(status_line(pilot.app.state, 30, UNICODE)), "not cut among its keys"
        await pilot.press("escape")
        assert "12 runs" not in status_of(pilot)
        session = await fake_run.start_run(pilot)
        assert pilot.app.state.repeats == 1
        await pilot.press("5")
        assert pilot.app.state.asked_runs == 0
        session.put(RunFinished(status="done"))


async def test_digits_in_the_filter_are_text():
    async with fake_run.opened(fake_run.new_app(REQUEST)) as pilot:
        await whole_run(pilot)
        await pilot.press("/", "2", "5")
        assert pilot.app.state.asked_runs == 0
        assert len(table_of(pilot).row_keys) == 1


# ------------------------------------------------------------------ one row


async def test_shift_r_runs_the_highlighted_row_as_a_run_of_its_own_and_esc_brings_all_back():
    async with fake_run.opened(fake_run.new_app(REQUEST)) as pilot:
        first = await whole_run(pilot)
        whole = pilot.app.state.run
        table_of(pilot).move_cursor(row=1)
        await fake_run.settled(pilot, lambda: pilot.app.state.cursor == first.plan.cases[1].key)
        await whole_series(pilot, ["R"], 1, gpu_factor=1.25)
        again = pilot.app.backend.sessions[-1]
        assert again.plan.cases == first.plan.cases[1:]
        assert (again.plan.seed, again.plan.devices, again.plan.name) == (first.plan.seed, ("auto",), "matmul")
        assert len(table_of(pilot).row_keys) == 1
        assert told(pilot, "GPU change") == "+25.0%"
        assert "one row" in title_of(pilot)
        assert "8 vs run 7" in title_of(pilot)
        await pilot.press("escape")
        assert pilot.app.state.run is whole
        assert len(table_of(pilot).row_keys) == 2
        assert "one row" not in title_of(pilot)


# ------------------------------------------------------------------ the end of a long run


@pytest.mark.parametrize(("longer_than_s", "rings"), [(-1.0, 1), (3600.0, 0)])
async def test_only_a_long_run_rings_the_bell(monkeypatch, longer_than_s, rings):
    monkeypatch.setattr(live, "BELL_S", longer_than_s)
    async with fake_run.opened(fake_run.new_app(REQUEST)) as pilot:
        rung: list[str] = []
        titles: list[str] = []
        monkeypatch.setattr(pilot.app, "bell", lambda: rung.append("bell"))
        monkeypatch.setattr(pilot.app, "set_terminal_title", titles.append)
        await whole_run(pilot)
        assert len(rung) == rings
        assert titles == ["cpugpu-tui: matmul", "cpugpu-tui: done"]
