"""A recording in the app: the telemetry pane plays it, the status line shows REPLAY, and nothing can be run."""

import sys

import pytest
import pytest_asyncio
from tests.helpers.app.fake_run import settled
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.command_line import ROOT

from cpugpu_tui.telemetry.recording import Player, load
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions, AppState
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.live.backend import REPLAY_ENDED, Backend
from cpugpu_tui.ui.panes.lines import plain
from cpugpu_tui.ui.panes.status import status_line

TRACES = ROOT / "tests" / "traces"
FAKE = TRACES / "fake-two-gpus.ndjson"


class FastBackend(Backend):
    """The real backend, which plays its recording at once."""

    def _play(self, trace, on_telemetry, on_notice):
        self._sampler = Player(trace, on_telemetry, lambda: on_notice(REPLAY_ENDED), interval_s=0)
        self._sampler.start()


@pytest_asyncio.fixture(params=sorted(TRACES.glob("*.ndjson")), ids=lambda path: path.stem)
async def replayed(request):
    """The app after the end of a recording."""
    trace = load(request.param)
    options = AppOptions(replay=trace)
    app = CpuGpuApp(options, backend=FastBackend(options))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot, lambda: app.state.notice is not None)
        yield pilot, trace
        app.bridge.backend.close()


def shown(app):
    """Return the text of the screen."""
    return "\n".join(str(strip.text) for strip in app.screen._compositor.render_strips())


async def test_the_pane_shows_the_trace_and_the_status_line_says_so(replayed):
    pilot, trace = replayed
    app = pilot.app
    *_, last = trace
    assert app.state.telemetry.latest == last
    # The answer is painted in the next gap, after the notice: a loaded machine came here before it.
    await settled(pilot, lambda: "without --replay" in shown(app))
    text = shown(app)
    first_line = text.splitlines()[0]
    assert first_line.lstrip().startswith(trace.header.tag)
    assert trace.name in first_line
    assert REPLAY_ENDED in first_line
    assert "GPU 0" in text
    assert last.gpus[0].name in text
    assert "Press r" not in text
    assert not app.state.agent_ready
    assert app.state.problem is None


@pytest.mark.parametrize(
    ("width", "said"),
    [(40, "ready"), (48, "ready · the demo has ended"), (60, "the demo has ended"), (80, "press r to play it")],
)
def test_a_notice_is_shown_in_whole_clauses_or_ends_in_an_ellipsis(width, said):
    state = AppState(agent_ready=True, replay_tag="REPLAY", notice="the demo has ended; press r to play it")
    assert plain(status_line(state, width, UNICODE)).rstrip().endswith(said)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_tag_is_there_at_every_width_and_without_colour_or_utf8(width):
    state = AppState(replay_tag="REPLAY FAKE", replay="a.ndjson", replay_of="NVIDIA H200, recorded today")
    for glyphs in (UNICODE, ASCII):
        line = plain(status_line(state, width, glyphs))
        assert line.startswith(" REPLAY FAKE ")
        assert "a.ndjson" in line[:width]
    assert "REPLAY" not in plain(status_line(AppState(), width, UNICODE))


# ------------------------------------------------------------------ the command


def test_the_command_opens_the_app_on_a_trace_and_makes_no_history(tmp_path, environment):
    command = [sys.executable, "-m", "cpugpu_tui", "--replay", FAKE]
    with PtyApp(command, env=environment) as app:
        app.until_text(REPLAY_ENDED)
        app.until_text("REPLAY FAKE")
        app.until_text("GPU 0")
        app.quit()
    assert not list(tmp_path.rglob("*.db"))
