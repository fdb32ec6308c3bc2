"""The claims in the app: K opens them, the cursor explains one, enter measures what it needs, never beside a run."""

from dataclasses import replace

import pytest
from tests.helpers.app import fake_run
from tests.helpers.app.looking import text_of
from textual.widgets import OptionList

from cpugpu_tui.analysis.claim_numbers import TimedCase
from cpugpu_tui.analysis.claims import CLAIMS
from cpugpu_tui.compare.claims import judge_all, numbers_of
from cpugpu_tui.decide.comparison import CPU_WINS, Comparison
from cpugpu_tui.model import LATENCY, Case
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.panes.lines import plain
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.screens.claims import ClaimsScreen, about_lines, claim_line
from cpugpu_tui.ui.screens.main import MainScreen

IDS = [claim.id for claim in CLAIMS]
SLOWER = TimedCase(
    "jacobian", "loop", 100, {LATENCY: 4.23e9}, {LATENCY: 6.85e9}, Comparison(4.23 / 6.85, None, None, 8, CPU_WINS),
    source="run 3",
)  # fmt: skip


class SavingBackend(fake_run.FakeBackend):
    """A backend with saved runs; counts how often they are read."""

    def __init__(self, *points):
        super().__init__()
        self.points, self.read_times = points, 0

    def claim_points(self, run, ceilings):
        self.read_times += 1
        return self.points


async def show(pilot, claim_id=""):
    """Open the page, and move to a claim."""
    await pilot.press("K")
    await fake_run.settled(pilot, lambda: isinstance(pilot.app.screen, ClaimsScreen))
    await fake_run.settled(pilot, lambda: "reading" not in text_of(pilot, "#page-title"))
    await pilot.press(*["j"] * (IDS.index(claim_id) if claim_id else 0))
    return pilot.app.screen


# ------------------------------------------------------------------ looking


async def test_capital_k_opens_it_everywhere_and_k_where_no_list_moves_by_it():
    async with fake_run.opened() as pilot:
        session = await fake_run.start_run(pilot)
        session.put(*fake_run.whole_sweep(session.plan))
        await fake_run.finish(pilot, session)
        for focused in ("OptionList", "TimingTable"):
            pilot.app.screen.query_one(focused).focus()
            await pilot.press("k")
            assert isinstance(pilot.app.screen, MainScreen)
            await pilot.press("K")
            assert isinstance(pilot.app.screen, ClaimsScreen)
            await pilot.press("K")
            assert isinstance(pilot.app.screen, MainScreen)
        pilot.app.screen.query_one("#telemetry").focus()
        await pilot.press("k")
        assert isinstance(pilot.app.screen, ClaimsScreen)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_every_claim_is_a_line_and_the_one_under_the_cursor_is_explained(words):
    async with fake_run.opened(fake_run.new_app(backend=SavingBackend(SLOWER)), (80, 24)) as pilot:
        await show(pilot, "p3-batch-100")
        lines = text_of(pilot, "#list").splitlines()
        assert max(map(len, lines)) <= 78
        (chosen,) = [line for line in lines if line.startswith("▸")]
        assert "P3" in chosen
        assert "✓ holds" in chosen
        words(text_of(pilot, "#about"))
        assert "1 hold" in text_of(pilot, "#page-title")


async def test_a_row_counts_as_soon_as_it_is_finished_and_the_saved_runs_wait_for_the_end(words):
    backend = SavingBackend(SLOWER)
    request = PlanRequest(("jacobian",), sizes="100", variant="loop")
    async with fake_run.opened(fake_run.new_app(request, backend)) as pilot:
        session = await fake_run.start_run(pilot)
        await pilot.press("K")
        words(text_of(pilot, "#about").splitlines()[-1])
        session.put(*whole(session.plan.cases, 9e9, 4e9))
        session.gap()
        await fake_run.settled(pilot, lambda: "does not hold" in text_of(pilot, "#list"))
        assert backend.read_times == 0
        await pilot.press(*["j"] * IDS.index("p3-batch-100"))
        assert "in this run" in text_of(pilot, "#about")
        await fake_run.finish(pilot, session)
        await fake_run.settled(pilot, lambda: backend.read_times == 1)
        assert "in this run" in text_of(pilot, "#about")


def whole(cases, cpu_ns, gpu_ns):
    return [event for case in cases for event in (*fake_run.rounds(case, cpu_ns, gpu_ns), fake_run.finished(case))]


# ------------------------------------------------------------------ measuring


async def test_enter_measures_what_the_claim_needs_on_the_devices_asked_for():
    async with fake_run.opened(fake_run.new_app(PlanRequest(devices=("cpu", "cuda:1")))) as pilot:
        app = pilot.app
        await fake_run.settled(pilot, lambda: app.state.agent_ready)
        await show(pilot, "p3-batch-1000")
        await pilot.press("enter", "enter")
        await fake_run.settled(pilot, lambda: len(app.backend.sessions) == 1)
        plan = app.backend.sessions[0].plan
        assert plan.cases == (Case("jacobian", 1000, variant="loop"),)
        assert (plan.devices, plan.gaps) == (("cpu", "cuda:1"), True)
        assert isinstance(app.screen.focused, TimingTable)
        await fake_run.finish(pilot, app.backend.sessions[0])
        # What was measured is what is highlighted now, and r runs it again.
        option = app.screen.query_one("#workload OptionList", OptionList)
        assert "jacobian" in str(option.get_option_at_index(option.highlighted or 0).prompt)
        await pilot.press("r")
        await fake_run.settled(pilot, lambda: len(app.backend.sessions) == 2)
        assert app.backend.sessions[1].plan.cases == plan.cases


async def test_enter_says_what_would_run_and_how_long_before_a_second_one_starts_it(words):
    async with fake_run.opened() as pilot:
        await fake_run.settled(pilot, lambda: pilot.app.state.agent_ready)
        await show(pilot, "p1-cpu-rises")
        assert "enter again" not in text_of(pilot, "#about")
        await pilot.press("enter")
        said = text_of(pilot, "#about").replace("\n", " ")
        assert "run matmul-sweep" in said
        words(said[said.index("Press") :])
        # Another claim has another price, and is not started by the first one's enter.
        await pilot.press("j", "k")
        assert "enter again" not in text_of(pilot, "#about")
        await pilot.press("enter")
        assert pilot.app.backend.sessions == []
        assert isinstance(pilot.app.screen, ClaimsScreen)


async def test_enter_starts_nothing_beside_a_run_nor_where_nothing_can_be_measured():
    async with fake_run.opened() as pilot:
        session = await fake_run.start_run(pilot)
        await pilot.press("K", "enter", "enter")
        assert pilot.app.backend.sessions == [session]
        assert isinstance(pilot.app.screen, ClaimsScreen)
        await fake_run.finish(pilot, session)
        await pilot.press(*["j"] * IDS.index("old-variables"), "enter", "enter")
        await pilot.pause()
        assert pilot.app.backend.sessions == [session]
        assert isinstance(pilot.app.screen, ClaimsScreen)


# ------------------------------------------------------------------ small and plain terminals


def longest(each):
    here = "Flat up to 1,000,000 (20.0 µs at 100), then it rises: 421 µs at 100,000,000, ×21.0. At 100 the GPU itself "
    here += "works 10% of that time; the rest is launching and waiting, whatever the size."
    return replace(each, here=here, sources=("run 1002", "run 1003"))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_claim_fits_below_the_list_of_the_smallest_terminal_it_is_made_for(glyphs):
    for each in judge_all(numbers_of((), (), (), simulated=False)):
        for announced in (False, True):
            assert len(about_lines(longest(each), 78, glyphs, live=False, announced=announced)) <= 9
        line = plain(claim_line(each, 76, glyphs, chosen=False))
        assert len(line) <= 76
        assert each.outcome in line
