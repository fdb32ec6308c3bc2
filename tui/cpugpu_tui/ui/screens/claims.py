"""The claims page: the claims of five publications with their outcome here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from cpugpu_tui.analysis.claim_numbers import DEPENDS, FAILS, HOLDS, OUTDATED, UNDECIDED, UNMEASURED, TimedCase
from cpugpu_tui.analysis.claims import CLAIMS
from cpugpu_tui.compare.claims import JudgedClaim, command, judge_all, numbers_of, points_of, tally
from cpugpu_tui.model import Ceilings
from cpugpu_tui.model.quantities import count_of
from cpugpu_tui.session.planning import build_plan
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.messages import ClaimWanted, in_background
from cpugpu_tui.ui.panes.lines import Spans, cut, spelled, wrapped
from cpugpu_tui.ui.panes.workload import seconds_text
from cpugpu_tui.ui.screens.page import ListPage

ReadSaved = Callable[[RunState, Sequence[Ceilings]], tuple[TimedCase, ...]]
"""Returns the timed cases of saved runs; slow, called on a thread."""

OUTCOME_WIDTH = 21
"""Cells of a sign and the longest outcome, `does not hold here`."""

LEAST_WITH_WORDS = 56
"""Cells from which the list has room for outcomes in words; the lines below it always have them."""

BY_WIDTH = 6
"""Cells of `P1-P5` and a space."""

ROLES = {HOLDS: "good", FAILS: "bad", DEPENDS: "warn", UNDECIDED: "warn", UNMEASURED: "muted", OUTDATED: "muted"}
"""Outcome → role."""


class ClaimsScreen(ListPage):
    """Judges by the finished rows of the shown run, then by saved runs, which are read between runs only."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(["open"], "measure_claim")]
    TOPIC = "claims"

    def __init__(self, state: AppState, glyphs: Glyphs, read_saved: ReadSaved) -> None:
        """`read_saved` is called on a thread."""
        super().__init__(state, glyphs)
        self._read_saved = read_saved
        self._saved: tuple[TimedCase, ...] = ()
        self._reading = self._stale = False
        self._announced = ""
        """Id of the claim whose cost is shown; the next enter measures it."""
        self._judged: tuple[JudgedClaim, ...] = ()
        self._judged_by: object = None

    def on_mount(self) -> None:
        """Read the saved runs."""
        self._stale = True
        self._read()

    @property
    def chosen(self) -> JudgedClaim:
        """The claim under the cursor."""
        return self.judged[self.index]

    @property
    def judged(self) -> tuple[JudgedClaim, ...]:
        """All claims; judged again only after a new finished row, saved runs or machine card."""
        state = self.state
        run = state.run
        judged_by = (run.run and run.run.run_id, run.settled, self._saved, state.ceilings)
        if judged_by != self._judged_by:
            points = points_of(run) if run.simulated == state.simulated else ()
            numbers = numbers_of(points, self._saved, state.ceilings, simulated=state.simulated)
            self._judged, self._judged_by = judge_all(numbers), judged_by
        return self._judged

    def show_state(self, state: AppState) -> None:
        """Show a newer state; read saved runs again after a run and once the history is open."""
        before = self.state
        over = before.situation.live and not state.situation.live
        # A ready agent or a machine card means that the history is open.
        opened = state.agent_ready > before.agent_ready or state.ceilings != before.ceilings
        self._stale = self._stale or over or opened
        super().show_state(state)
        self._read()

    def _read(self) -> None:
        """Read the saved runs on a thread, never while something is being timed."""
        situation = self.state.situation
        if not self._stale or self._reading or (situation.live and not situation.demo):
            return
        self._stale, self._reading = False, True
        run, ceilings = self.state.run, self.state.ceilings
        in_background(self, "claims", lambda: self._read_saved(run, ceilings), self._know)
        self.redraw()

    def _know(self, points: tuple[TimedCase, ...]) -> None:
        self._saved, self._reading = points, False
        self.redraw()

    # ---------------------------------------------------------------- drawing

    def page_title(self) -> Spans:
        """Return the number of claims by outcome."""
        state = "reading the saved runs" if self._reading else tally(self.judged)
        return (("Claims ", "title"), (f" {state}", "text"), self.where)

    def count(self) -> int:
        """Return the number of claims."""
        return len(CLAIMS)

    def list_heads(self, width: int) -> Spans:
        """Return the headings."""
        text = f"  {'by':<{BY_WIDTH}}publication says"
        return ((f"{text:<{width - OUTCOME_WIDTH}}outcome here" if width >= LEAST_WITH_WORDS else text, "muted"),)

    def list_line(self, index: int, width: int, *, chosen: bool) -> Spans:
        """Return a claim."""
        return claim_line(self.judged[index], width, self.glyphs, chosen=chosen)

    def about_lines(self, width: int) -> list[Spans]:
        """Return the claim under the cursor in full."""
        situation, is_announced = self.state.situation, self._announced == self.chosen.claim.id
        return about_lines(
            self.chosen, width, self.glyphs, live=situation.live, announced=is_announced, is_replay=situation.replay
        )  # fmt: skip

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of this page."""
        measure = (("enter", "measure"),) if self._may_measure else ()
        return (("j k", "move"), *measure, ("{back}", "back"))

    @property
    def _may_measure(self) -> bool:
        """Whether enter measures something: not during a run, in a replay, or for a claim that no run can decide."""
        return self.state.situation.may_start and bool(command(self.chosen))

    # ---------------------------------------------------------------- keys

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self._announced = ""
        super().action_move(step)

    def action_measure_claim(self) -> None:
        """Show the command and time that the claim takes; pressed again, measure it."""
        chosen = self.chosen
        if not self._may_measure:
            return
        if self._announced == chosen.claim.id:
            self._announced = ""
            self.post_message(ClaimWanted(chosen))
            return
        self._announced = chosen.claim.id
        self.redraw()


def claim_line(judged: JudgedClaim, width: int, glyphs: Glyphs, *, chosen: bool) -> Spans:
    """Return a claim in one line: publication, sentence, outcome."""
    mark = sign(judged.outcome, glyphs)
    outcome = f"{mark} {judged.outcome:<{OUTCOME_WIDTH - 2}}" if width >= LEAST_WITH_WORDS else mark
    room = max(width - 2 - BY_WIDTH - len(outcome) - 1, 10)
    sentence = cut(spelled(judged.claim.sentence, glyphs), room, glyphs)
    text = f"{glyphs.cursor if chosen else ' '} {judged.claim.publication:<{BY_WIDTH}}{sentence} "
    if chosen:
        return ((f"{text}{outcome}", "chosen"),)
    return ((text, "muted" if judged.claim.outdated else "text"), (outcome, ROLES[judged.outcome]))


def about_lines(
    judged: JudgedClaim, width: int, glyphs: Glyphs, *, live: bool, announced: bool = False, is_replay: bool = False
) -> list[Spans]:
    """Return a claim in full: sentence, outcome, source of the numbers, and the action of enter.

    With `announced`, enter was pressed once; the cost then replaces the sources.
    """
    claim = judged.claim
    lines = wrapped(spelled(f"{claim.publication}: {claim.sentence}", glyphs), width, "strong")
    verdict = f"{sign(judged.outcome, glyphs)} {judged.outcome}. {judged.here}"
    lines += wrapped(spelled(verdict, glyphs), width, ROLES[judged.outcome])
    do = "" if is_replay else command(judged)
    if announced and do and not live:
        again = f"Press enter again: {do.removeprefix('cpugpu-tui ')} ({cost_text(judged)})"
        return lines + wrapped(again, width, "warn")
    if judged.sources:
        lines += wrapped(f"From measurements in {', '.join(judged.sources)}.", width, "muted")
    if do and live:
        lines += wrapped("A run is in progress. When it has ended, press enter to measure this claim.", width, "muted")
    elif do:
        lines += wrapped(f"Press enter: {do.removeprefix('cpugpu-tui ')}", width, "muted")
    return lines


def cost_text(judged: JudgedClaim) -> str:
    """Return the number of cases and the time they take; the plan's budget holds for short calls."""
    request = judged.request
    if judged.wants_ceilings or request is None:
        return "all cores and the GPU, about 20 s"
    plan = build_plan(request)
    seconds = 2 * plan.budget_s * len(plan.cases)
    count = count_of(len(plan.cases), "case")
    return f"{count}, about {seconds_text(seconds)}; more if calls or the publication's loop are long"


def sign(outcome: str, glyphs: Glyphs) -> str:
    """Return the sign of an outcome, for terminals without colours."""
    signs = {HOLDS: glyphs.yes, FAILS: glyphs.no, DEPENDS: "~", UNDECIDED: "?", UNMEASURED: glyphs.none}
    return signs.get(outcome, glyphs.dot)
