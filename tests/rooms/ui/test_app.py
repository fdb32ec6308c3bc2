"""The visible effect of each key."""

from tests.helpers.app import fake_run
from tests.helpers.app.looking import shown, table_of, text_of

from cpugpu_tui.model import RunFinished, Simulation
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import ConfirmScreen
from cpugpu_tui.workloads.presets import PRESETS

# ------------------------------------------------------------------ the first minute


async def test_at_start_quick_is_highlighted_and_says_press_r(words):
    async with fake_run.opened() as pilot:
        assert pilot.app.screen.query_one(WorkloadPane).entry.name == "quick"
        assert pilot.app.focused is pilot.app.screen.query_one(WorkloadPane).options
        words(text_of(pilot, "#welcome").partition("\n\n")[0])
        assert "torch 2.11.0+cu130" in text_of(pilot, "#status")


async def test_r_runs_what_is_highlighted():
    async with fake_run.opened() as pilot:
        await pilot.press("down")
        session = await fake_run.start_run(pilot)
        assert session.plan.name == list(PRESETS)[1]
        assert session.plan.gaps
        assert pilot.app.focused is table_of(pilot)


async def test_rows_fill_while_the_run_goes_on_under_a_cursor_that_follows_until_it_is_moved():
    async with fake_run.opened() as pilot:
        session = await fake_run.start_run(pilot)
        first, second, third, fourth, *_ = session.plan.cases
        session.put(
            *fake_run.rounds(first, 1_000, 20_000), fake_run.finished(first), *fake_run.rounds(second, 2_000, 20_000, 3)
        )
        await fake_run.reach_gap(pilot, session, second)
        lines = shown(pilot)
        assert lines[0].lstrip(" ▸").startswith("matmul 16 ")
        assert "▼ CPU" in lines[0]
        assert "3 of 8" in lines[1]
        assert "–" in lines[2]
        assert table_of(pilot).highlighted == second.key
        session.put(*fake_run.rounds(third, 3_000, 20_000, 1))
        await fake_run.reach_gap(pilot, session, third)
        assert table_of(pilot).highlighted == third.key
        await pilot.press("home")
        await fake_run.reach_gap(pilot, session, fourth)
        assert table_of(pilot).highlighted == first.key


async def test_a_gap_shows_its_state_once_with_the_cursor_on_the_case_that_begins(monkeypatch):
    """The table's message about the cursor came after the paint, so chart and answer were drawn again in the next."""
    async with fake_run.opened() as pilot:
        session = await fake_run.start_run(pilot)
        first, second, *_ = session.plan.cases
        await fake_run.reach_gap(pilot, session, first)
        seen = []
        show_state = MainScreen.show_state
        monkeypatch.setattr(MainScreen, "show_state", lambda self, state: (seen.append(state), show_state(self, state)))
        session.put(*fake_run.rounds(first, 1_000, 20_000), fake_run.finished(first))
        await fake_run.reach_gap(pilot, session, second)
        await pilot.pause()
        assert [state.cursor for state in seen] == [second.key]
        assert table_of(pilot).highlighted == second.key


async def test_after_the_run_the_answer_names_the_bracket_and_r_starts_over_with_empty_rows():
    app = fake_run.new_app()
    async with fake_run.opened(app, ran=True) as pilot:
        assert "≈ 77 (50–100)" in text_of(pilot, "#answer")
        assert "done, 7 cases" in text_of(pilot, "#status")
        assert "run 7" in text_of(pilot, "#status")
        assert "Run again" in text_of(pilot, "#keys")
        assert pilot.app.backend.prepared == 1
        session = await fake_run.start_run(pilot)
        await fake_run.reach_gap(pilot, session)
        assert all("–" in line for line in shown(pilot))
        assert len(pilot.app.backend.sessions) == 2
        session.put(*fake_run.whole_sweep(session.plan))
        await fake_run.finish(pilot, session)
        await pilot.press("q")  # without a run it leaves at once, with the last one
        await fake_run.settled(pilot, lambda: app.return_value is not None)
    assert app.return_value.run.settled == 7


async def test_repeats_make_one_series():
    async with fake_run.opened(fake_run.new_app(PlanRequest(repeat=2))) as pilot:
        first = await fake_run.start_run(pilot)
        assert "1 of 2" in text_of(pilot, "#status")
        first.put(RunFinished(status="done"))
        await fake_run.settled(
            pilot, lambda: len(pilot.app.backend.sessions) == 2 and pilot.app.state.repeat_number == 2
        )
        second = pilot.app.backend.sessions[1]
        assert second.series_id == first.series_id
        await fake_run.finish(pilot, second)
        assert len(pilot.app.backend.sessions) == 2


# ------------------------------------------------------------------ during a run


async def test_space_pauses_and_resumes_x_stops_after_the_block_and_twice_at_once():
    async with fake_run.opened() as pilot:
        session = await fake_run.start_run(pilot)
        await pilot.press("space")
        assert session.asked == ["pause"]
        assert "paused" in text_of(pilot, "#status")
        assert "Resume" in text_of(pilot, "#keys")
        await pilot.press("space")
        assert session.asked == ["pause", "resume"]
        assert "paused" not in text_of(pilot, "#status")
        await pilot.press("x")
        assert session.asked[2:] == ["stop"]
        assert "stopping" in text_of(pilot, "#status")
        assert "Stop now" in text_of(pilot, "#keys")
        await pilot.press("x")
        assert session.asked[2:] == ["stop", "kill"]
        await fake_run.settled(pilot, lambda: not pilot.app.state.situation.live)
        assert "stopped" in text_of(pilot, "#status")
        assert pilot.app.backend.prepared == 1, "the next r would wait seconds for its agent to import torch"


async def test_a_stop_ends_the_series_too():
    async with fake_run.opened(fake_run.new_app(PlanRequest(repeat=5))) as pilot:
        session = await fake_run.start_run(pilot)
        await pilot.press("x")
        await fake_run.finish(pilot, session, "stopped")
        assert "stopped, 0 of 7 cases" in text_of(pilot, "#status")
        assert len(pilot.app.backend.sessions) == 1


async def test_quitting_asks_only_during_a_run():
    app = fake_run.new_app()
    async with fake_run.opened(app) as pilot:
        session = await fake_run.start_run(pilot)
        await pilot.press("q")
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press("escape")
        assert isinstance(app.screen, MainScreen)
        assert session.asked == []
        await pilot.press("ctrl+c")
        await pilot.press("y")
        await fake_run.settled(pilot, lambda: app.return_value is not None)
        assert session.asked == ["kill"]
    assert (app.return_value.run.status, app.return_value.number) == ("stopped", 7)
    assert app.return_value.exit_code == 0


async def test_the_question_before_quitting_changes_when_the_run_ends_meanwhile():
    """It went on to say that a run is in progress."""
    app = fake_run.new_app()
    async with fake_run.opened(app) as pilot:
        session = await fake_run.start_run(pilot)
        await pilot.press("q")
        assert "A run is in progress." in text_of(pilot, "#question")
        await fake_run.finish(pilot, session)
        await fake_run.settled(pilot, lambda: "The run has ended. Quit?" in text_of(pilot, "#question"))
        assert "y quit   esc stay" in text_of(pilot, "#question")
        await pilot.press("y")
        await fake_run.settled(pilot, lambda: app.return_value is not None)
    assert session.asked == []


# ------------------------------------------------------------------ parameters


# ------------------------------------------------------------------ states


async def test_a_run_that_fails_before_it_begins_shows_no_old_rows_as_failed():
    async with fake_run.opened(ran=True) as pilot:
        pilot.app.backend.stillborn = RunFinished(status="failed", message="It broke.", remedy="Mend it.")
        await pilot.press("r")
        await fake_run.settled(pilot, lambda: "It broke." in text_of(pilot, "#answer"))
        assert "failed" in text_of(pilot, "#status")
        assert shown(pilot) == []
        assert not pilot.app.state.situation.live


async def test_made_up_numbers_and_the_worker_mode_are_marked():
    request = PlanRequest(simulation=Simulation())
    async with fake_run.opened(fake_run.new_app(request, worker="thread")) as pilot:
        assert "SIMULATED" in text_of(pilot, "#status")
        assert "worker: thread" in text_of(pilot, "#status")
        await fake_run.start_run(pilot)
        assert "SIMULATED" in text_of(pilot, "#status")


async def test_a_fault_on_the_run_thread_is_a_sentence_and_the_app_goes_on(monkeypatch):
    async with fake_run.opened() as pilot:

        def broken(*_):
            raise ZeroDivisionError("oops")

        monkeypatch.setattr(pilot.app.backend, "session", broken)
        await pilot.press("r")
        await fake_run.settled(pilot, lambda: pilot.app.state.problem is not None)
        assert "ZeroDivisionError: oops" in text_of(pilot, "#answer")
        assert not pilot.app.state.situation.live
        assert pilot.app.is_running
