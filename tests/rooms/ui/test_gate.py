"""During a run the screen is painted only in gaps, on keys, and for the status line's clock."""

import pytest
from tests.helpers.app.fake_run import finish, opened, reach_gap, readings, rounds, settled, start_run

from cpugpu_tui.model import Progressed
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.controllers import live
from cpugpu_tui.ui.panes.status import StatusPane
from cpugpu_tui.ui.terminal import repaint_throttle as gate
from cpugpu_tui.ui.terminal.repaint_throttle import STRAY, PaintGate


@pytest.fixture(autouse=True)
def patient_gate(monkeypatch):
    """On a busy machine a paint may come after the gate has closed; then the next gap shows it."""
    monkeypatch.setattr(gate, "ONE_PAINT_S", 5.0)
    monkeypatch.setattr(gate, "KEY_QUIET_S", 0.5)
    monkeypatch.setattr(gate, "KEY_LIMIT_S", 60.0)


@pytest.fixture
def paints(monkeypatch):
    """Paints that reach the terminal, counted independently of the gate: one entry each."""
    seen: list[bool] = []
    display = CpuGpuApp._display

    def watched(self, screen, renderable):
        if renderable is not None and not self._batch_count:
            seen.append(True)
        display(self, screen, renderable)

    monkeypatch.setattr(CpuGpuApp, "_display", watched)
    return seen


async def quiet_after_gap(pilot, session):
    """Pass a gap, until blocks are timed."""
    await reach_gap(pilot, session)
    await settled(pilot, lambda: pilot.app._batch_count > 0)


async def make_everything_dirty(pilot, session):
    """Deliver events and readings, change a widget, then wait longer than Textual's paint timer."""
    session.put(*rounds(session.plan.cases[1], 2_000, 20_000, 3))
    pilot.app.backend.read(readings(busy=13.0))
    pilot.app.screen.query_one(StatusPane).show([(("careless", "text"),)])
    pilot.app.screen.refresh()
    await settled(pilot, lambda: len(session.telemetry) > 0)
    await pilot.pause(0.1)


async def test_between_gaps_nothing_is_painted_and_a_gap_paints_once(paints):
    async with opened() as pilot:
        session = await start_run(pilot)
        await quiet_after_gap(pilot, session)
        before = len(paints)
        await make_everything_dirty(pilot, session)
        assert len(paints) == before
        gaps = 0
        while pilot.app.screen._dirty_widgets:  # one paint shows all of it, unless a busy machine has it come early
            await quiet_after_gap(pilot, session)
            gaps += 1
            assert gaps < 10
        assert len(paints) == before + gaps
        await pilot.pause(0.1)
        assert len(paints) == before + gaps
        assert pilot.app.gate.paints[STRAY] == 0


async def test_without_the_gate_the_same_events_paint_in_between(paints, monkeypatch):
    monkeypatch.setattr(gate, "ONE_PAINT_S", 0.0)
    monkeypatch.setattr(PaintGate, "_close", lambda self: setattr(self, "_cause", None))
    async with opened() as pilot:
        session = await start_run(pilot)
        await reach_gap(pilot, session)
        await pilot.pause(0.2)
        before = len(paints)
        await make_everything_dirty(pilot, session)
        await settled(pilot, lambda: len(paints) > before and pilot.app.gate.paints[STRAY] > 0)
        await finish(pilot, session)


async def test_a_key_is_answered_at_once_during_a_run(paints):
    async with opened() as pilot:
        session = await start_run(pilot)
        await quiet_after_gap(pilot, session)
        before = len(paints)
        await pilot.press("space")
        await settled(pilot, lambda: len(paints) > before)
        assert session.asked == ["pause"]
        assert "paused" in pilot.app.screen.query_one(StatusPane).render_line(0).text
        assert pilot.app.gate.paints["key"] > 0


async def test_a_page_opened_during_a_run_is_painted_without_a_gap(paints):
    async with opened() as pilot:
        session = await start_run(pilot)
        await quiet_after_gap(pilot, session)
        gaps = pilot.app.gate.paints["gap"]
        await pilot.press("?")
        await settled(pilot, lambda: bool(pilot.app.screen.query("#page-text")) and pilot.app._batch_count > 0)
        await settled(pilot, lambda: not pilot.app.screen._dirty_widgets)
        assert pilot.app.gate.paints["gap"] == gaps
        assert pilot.app.gate.paints["key"] > 0


async def test_a_resize_is_painted_during_a_run(paints):
    async with opened() as pilot:
        session = await start_run(pilot)
        await quiet_after_gap(pilot, session)
        before = len(paints)
        await pilot.resize_terminal(200, 60)
        await settled(pilot, lambda: len(paints) > before)
        assert pilot.app.gate.paints[STRAY] == 0


async def test_in_a_long_operation_the_status_line_alone_moves(paints, monkeypatch):
    monkeypatch.setattr(live, "LONG_STEP_S", 0.0)
    async with opened() as pilot:
        session = await start_run(pilot)
        await quiet_after_gap(pilot, session)
        case = session.plan.cases[0]
        session.put(Progressed(case=case.key, device="cpu", phase="first call", estimate_s=30.0))
        pilot.app.backend.read(readings(busy=13.0))
        await settled(pilot, lambda: len(session.telemetry) > 0)
        await settled(pilot, lambda: pilot.app.gate.paints["tick"] > 0)
        status = pilot.app.screen.query_one(StatusPane)
        await settled(pilot, lambda: "first call" in status.render_line(0).text)
        assert "of about 0:30" in status.render_line(0).text
        telemetry = "\n".join(pilot.app.screen.query_one("#telemetry").render_line(y).text for y in range(4))
        assert "13%" not in telemetry


async def test_one_gap_shows_every_pane(paints):
    async with opened() as pilot:
        session = await start_run(pilot)
        await quiet_after_gap(pilot, session)
        for busy in (20.0, 50.0):
            session.put(*rounds(session.plan.cases[1], 2_000, 20_000, int(busy / 10)))
            pilot.app.backend.read(readings(busy=busy))
            await quiet_after_gap(pilot, session)
            assert not pilot.app.screen._dirty_widgets
