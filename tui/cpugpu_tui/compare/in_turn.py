"""A duet of interpreters or codes: fresh pairs of agents are timed in turn until every verdict is clear."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from cpugpu_tui.analysis import compare
from cpugpu_tui.compare.comparison import SeriesComparison, compare_series, differing_results, with_placebo
from cpugpu_tui.compare.series import Series
from cpugpu_tui.errors import (
    EXIT_CASES_FAILED,
    EXIT_OK,
    CpuGpuError,
    NoTorchError,
    UnfitError,
    UsageError,
    print_notice,
)
from cpugpu_tui.model import (
    DEVICE,
    DUET,
    LATENCY,
    Case,
    CaseFailed,
    Event,
    EventClock,
    OwnCode,
    Plan,
    RunFinished,
    names_apart,
)
from cpugpu_tui.model.quantities import count_of, duration
from cpugpu_tui.session.duet import Duet
from cpugpu_tui.session.endings import failed_by, late
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.session.further_starts import at_once
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan, nth_plan
from cpugpu_tui.session.session import POLL_S, Session
from cpugpu_tui.state.folding import measured
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store.outbox import SILENT_TRY_S, Outbox
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.interpreter_search import AUTO

BLOCKS = 20
"""Blocks of a visit on each device: 40 ms, so that a visit averages more noise than a half-round of a run."""

NARROW_RATIO = 1.2
"""Ratio of two sizes with different verdicts at which a search is over. A size takes at least five pairs of agents."""

Live = Callable[[int, RunState, Event], None]
"""Called with the index of a side, its state and its newest event, from the thread of that side."""


class Face:
    """Follows a duet. This one prints notices only; subclasses show more."""

    facts: Mapping[str, Any] = {}
    """Added to the environment of each run."""

    def agents(self, python: str | None, own: OwnWorkloads, *, simulated: bool) -> Agents:
        """Return the agents of a side."""
        return Agents(python, simulated=simulated, own=own.words())

    @contextmanager
    def pair(self, number: int, plan: Plan, duet: Duet, agents: Sequence[Agents]) -> Iterator[Live]:
        """Surround a pair of agents, the `number`-th for the cases of `plan`."""
        yield lambda _index, _state, _event: None

    def see(self, state: RunState, event: Event) -> None:
        """Take the events of a run once its pair is over, so that they stay together."""

    def look(self, played: Played) -> None:
        """Look at what was played so far, while nothing is timed."""

    def say(self, text: str) -> None:
        """Tell a notice."""
        print_notice(text)


@dataclass(frozen=True)
class Side:
    """What one agent of a duet runs."""

    name: str
    python: str | None
    codes: tuple[OwnCode, ...] = ()
    """Its own code; empty if both sides run that of the plan."""


def code_sides(new: tuple[OwnCode, ...], old: tuple[OwnCode, ...], python: str | None) -> list[Side]:
    """Return the two sides that time these codes in one interpreter, OLD first."""
    names = names_apart(new[0], old[0])
    return [Side(f"OLD {names[1]}", python, old), Side(f"NEW {names[0]}", python, new)]


@dataclass
class Played:
    """The runs of a duet."""

    series: tuple[Series, ...]
    """One for each side, base first; a run for each pair of agents."""
    placebo: Series
    """The base once more. It is timed like the others, and neither shown nor saved."""
    bands: Mapping[str, float] | None = None
    """Metric → how much a time may change, 0.05 for 5 %; None for the usual bands of a duet."""
    is_gate: bool = False
    """Whether only slowdowns are looked for."""
    exit_code: int = EXIT_OK
    """The worst of all runs."""
    visits_s: float = 0.0
    """Time in which cases were timed."""
    start_up_s: float = 0.0
    """All other time: starting agents, preparing cases, warm-up."""
    pairs: int = 0
    """Pairs of agents, also those that were stopped."""
    pair_s: float = 0.0  # of the last one, once its agents had started
    failed: set[str] = field(default_factory=set)
    """Keys of cases that failed on a side."""
    clocks: tuple[EventClock, ...] = ()
    """Event clocks that the first pair of agents has checked."""
    is_over: bool = False
    """Whether it was stopped, or a side cannot run."""
    is_cut: bool = False
    """Whether its time limit ended it before the verdicts were clear."""
    notices: list[str] = field(default_factory=list)
    """What was told."""

    def compared(self) -> list[SeriesComparison]:
        """Compare each other side with the first, where both have runs.

        Raises:
            UsageError, UnfitError: nothing can be compared, see `compare_series`.
        """
        base, *others = self.series
        return [
            compare_series(base, new, self.bands, is_gate=self.is_gate, sharers=len(others))
            for new in others if base.runs and new.runs
        ]  # fmt: skip

    def found(self) -> list[SeriesComparison]:
        """Compare them and the placebo. Raises as `compared` does."""
        return [with_placebo(each, each.base, self.placebo) for each in self.compared()]

    def take_numbers(self, outbox: Outbox) -> None:
        """Take the numbers of runs that found the database locked when they began, if it is free by now."""
        outbox.flush(SILENT_TRY_S)
        self.series = tuple(
            replace(each, runs=tuple(replace(run, number=outbox.number(run.run_id)) for run in each.runs))
            for each in self.series
        )

    @property
    def text(self) -> str:
        """How long it took, in a sentence."""
        agents = count_of(self.pairs, "pair of agents", "pairs of agents")
        took = f"{agents}: timing took {duration(self.visits_s)}, start-up and warm-up {duration(self.start_up_s)}."
        is_enough = not self.is_cut or self.pairs >= compare.FIRST_LOOK
        enough_s = (self.visits_s + self.start_up_s) * compare.FIRST_LOOK / max(self.pairs, 1)
        return f"{took}{'' if is_enough else f' {compare.FIRST_LOOK} are needed: about --max-seconds {enough_s:.0f}.'}"

    @property
    def data(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"pairs": self.pairs, "timing_s": self.visits_s, "start_up_s": self.start_up_s}


def duet_plan(request: PlanRequest, sides: Sequence[Side], worker: str) -> Plan:
    """Return the plan of each agent. A search of two codes begins with its first sizes; others run only these.

    Raises:
        UsageError: the request cannot be run, or has an option that a duet cannot follow.
    """
    has_codes = any(side.codes for side in sides)
    if AUTO in [side.python for side in sides] and not has_codes:
        raise UsageError(
            "--python auto finds only one interpreter.", "Give the path of each interpreter that you want to compare."
        )
    given = {
        f"--worker {worker}": worker != "process", "--repeat": request.repeat != 1, "--parallel": request.parallel,
        "--rounds": request.rounds is not None, "--energy": request.energy,
    }  # fmt: skip
    for option, is_given in given.items():
        if is_given:
            raise UsageError(
                f"{option} cannot be combined with {'a second code' if has_codes else 'several interpreters'}.",
                "Leave it out. They are timed in turn until every verdict is clear, at most "
                f"{compare.VISITS * compare.MOST_PAIRS} visits to each.",
            )
    plan = build_plan(request)
    metrics = tuple(each for each in (LATENCY, DEVICE) if each in plan.metrics)
    return replace(
        plan, search=plan.search if has_codes else None, metrics=metrics, rounds=compare.VISITS,
        max_rounds=compare.VISITS, blocks=1 if plan.times_commands else BLOCKS, window=1, max_seconds=None,
        starts=1, is_of_two_codes=has_codes,  # each pair of agents is a start
    )  # fmt: skip


def play(
    request: PlanRequest, plan: Plan, sides: Sequence[Side], outbox: Outbox | None, face: Face,
    began_s: float | None = None, bands: Mapping[str, float] | None = None, *, is_gate: bool = False,
) -> Played:  # fmt: skip
    """Run pairs of agents until every case is decided or the time limit, since `began_s` or now, is over.

    A search then narrows the last change of the verdict. A further agent of the first side is the placebo. It is the
    last of a round, or the first. `bands` and `is_gate`: see `Played`.
    """
    duet_id, started_s, (*series, placebo) = new_id(), time.monotonic(), [
        Series(side.name, ()) for side in (*sides, sides[0])
    ]  # fmt: skip
    played, sides = Played(tuple(series), placebo, bands, is_gate), (*sides, sides[0])
    ends_s = (began_s or started_s) + (request.max_seconds or math.inf)
    series_ids, ready, number, known = [new_id() for _ in sides], 0, 0, plan.cases
    with ExitStack() as stack:
        agents = [face.agents(each.python, request.own, simulated=plan.simulation is not None) for each in sides]
        for each in agents:
            stack.callback(each.close)
        while plan.cases and not played.is_over:
            number += 1  # of the pairs for these cases
            ready = ready or at_once(next(look for look in compare.LOOKS if look >= number) - number + 1, len(sides))
            for each in agents:
                each.prepare(ready)
            ready -= 1
            sessions = [
                Session(_part(plan, played.pairs + 1, index, sides), each, outbox if index < len(series) else None,
                        series_ids[index], request.case_timeout_s,
                        {**face.facts, DUET: f"{duet_id}.{played.pairs + 1}"})
                for index, each in enumerate(agents)
            ]  # fmt: skip
            duet = Duet(sessions, plan.cases, is_flipped=played.pairs % 2 == 1)
            with face.pair(number, plan, duet, agents) as live:
                is_ready = _await_agents(duet, agents, ends_s - played.pair_s)
                began_pair_s = time.monotonic()
                events, ended = _run_pair(duet, agents, live) if is_ready else ([], ())
            if not is_ready:
                _end_late(played, plan, request, face)
                break
            played.pair_s = time.monotonic() - began_pair_s
            _add_pair(played, duet, plan, events, ended, face)
            if outbox is not None:
                played.take_numbers(outbox)
            played.start_up_s = time.monotonic() - started_s - played.visits_s
            face.look(played)
            left = _open(played, plan, number)
            if time.monotonic() >= ends_s - played.pair_s:  # on busy cores a limit of 20 s let 38 s pass
                played.is_cut = bool(left)
                break
            cases = tuple(case for case in plan.cases if case.key in left)
            if is_narrowing := not cases and plan.search is not None and len(known) < plan.search.most_cases:
                cases, number, ready = _between(_judged(played), known), 0, 0
                known += cases
            plan = replace(plan, cases=cases, is_repeat=not is_narrowing, clocks=played.clocks)
    return played


def _part(plan: Plan, number: int, index: int, sides: Sequence[Side]) -> Plan:
    """Return the plan of one agent of a pair; the last of `sides` is the placebo."""
    count = len(sides)
    part = nth_plan(plan, (number - 1) * count + index + 1)
    part = replace(part, search=None, turns=count - index, codes=sides[index].codes or plan.codes)
    simulation = part.simulation
    if simulation is None or not index:
        return part
    # The simulated difference between the interpreters, and that of the placebo from itself.
    differs = simulation.placebo_factor if index == count - 1 else simulation.duet_factor
    return replace(part, simulation=replace(simulation, side_factor=differs))


def _run_pair(duet: Duet, agents: Sequence[Agents], live: Live) -> tuple[list[list[Event]], tuple[RunFinished, ...]]:
    """Run one pair of agents to its end; return the events of each agent, and how it ended."""
    events: list[list[Event]] = [[] for _ in agents]
    states = [RunState() for _ in agents]

    def deliver(index: int, event: Event) -> None:
        states[index] = states[index].apply(event)
        events[index].append(event)
        live(index, states[index], event)

    return events, duet.run(deliver)


def _await_agents(duet: Duet, agents: Sequence[Agents], ends_s: float) -> bool:
    """Wait until all agents have started, because none may start while another one is timed; False if time is over."""
    while any(each.is_starting for each in agents) and not duet.stopping:
        if time.monotonic() >= ends_s:
            return False
        time.sleep(POLL_S)
    return True


def _end_late(played: Played, plan: Plan, request: PlanRequest, face: Face) -> None:
    """End a duet whose time limit was over while agents started. Without an earlier pair, nothing was compared."""
    if not played.pairs:
        error = late(request.max_seconds or 0.0, is_simulated=plan.simulation is not None)
        played.notices.append(f"cpugpu-tui: {error}")
        face.see(RunState(), failed_by(error))
        face.say(played.notices[-1])
        played.exit_code, played.is_over = error.exit_code, True


def _add_pair(
    played: Played, duet: Duet, plan: Plan, events: Sequence[Sequence[Event]], ended: Sequence[RunFinished],
    face: Face,
) -> None:  # fmt: skip
    """Add the runs of a pair of agents, and tell what failed or differs."""

    def tell(text: str) -> None:
        played.notices.append(text)
        face.say(text)

    for each in events[:-1]:
        state = RunState()
        for event in each:
            state = state.apply(event)
            face.see(state, event)
        played.clocks = played.clocks or tuple(state.clocks.values())
    played.pairs += 1
    played.visits_s += duet.visits_s
    names = [f"{series.name}: " if plan.is_of_two_codes else "" for series in (*played.series, played.placebo)]
    failed = [each for each in ended if each.status == "failed"]
    remedies = [_remedy(played, plan, index, session.error) for index, session in enumerate(duet.sessions)]
    why = (
        f"cpugpu-tui: {name}{end.message} {remedy or end.remedy}".strip()
        for name, end, remedy in zip(names, ended, remedies, strict=True)
        if end in failed and end.message
    )
    for text in dict.fromkeys(why):  # if a side could not run, the others were stopped
        tell(text)
    code = duet.signal_exit or max(each.exit_code for each in failed or ended)
    played.exit_code = max(played.exit_code, code)
    played.is_over = duet.stopping or any(each.status != "done" for each in ended)
    is_one = plan.is_of_two_codes and len({case.sweep for case in plan.cases}) == 1
    sizes = {case.key: f"n = {case.size:,}" for case in plan.cases} if is_one else {}
    for series, each in zip(played.series, events, strict=False):
        for event in each:
            if isinstance(event, CaseFailed) and event.kind != "skipped":
                played.failed.add(event.case)
                called = sizes.get(event.case, event.case)
                tell(f"{called} failed in {series.name}: {event.message} {event.remedy}".strip())
    *both, played.placebo = (
        replace(series, runs=(*series.runs, run)) if (run := measured(each)) is not None else series
        for series, each in zip((*played.series, played.placebo), events, strict=True)
    )
    played.series = tuple(both)
    if plan.is_of_two_codes and all(series.runs for series in played.series):
        base, *others = (series.runs[-1].cases for series in played.series)
        for key in [each for each in base if each not in played.failed]:
            found = [differing_results({"": base[key]}, {"": other[key]}) for other in others if key in other]
            if any(found):
                tell(f"n = {base[key].case.size:,}: {found[0]}. Correct one of the codes, or seed what it draws.")
                played.failed.add(key)
                played.exit_code = max(played.exit_code, EXIT_CASES_FAILED)


def _remedy(played: Played, plan: Plan, index: int, error: CpuGpuError | None) -> str:
    """Return what to do about one of several interpreters without torch; empty if it failed otherwise."""
    if plan.is_of_two_codes or not isinstance(error, NoTorchError):
        return ""
    option = "--python" if index == 1 or not played.is_gate else "--against"
    return f"Install torch in this interpreter, or name another one with {option}."


def _open(played: Played, plan: Plan, number: int) -> set[str]:
    """Return the cases that need another pair of agents after so many."""
    left = {case.key for case in plan.cases} - played.failed
    if number < compare.FIRST_LOOK or not left:
        return left
    open_ones = [each for each in _judged(played) if each.verdict in (compare.UNDECIDED, compare.TOO_FEW)]
    return left & {pair.case for each in open_ones for pair in each.pairs} if number < compare.MOST_PAIRS else set()


def _judged(played: Played) -> Sequence[compare.Judged]:
    try:
        return [each for found in played.compared() for each in found.judged]
    except (UsageError, UnfitError):  # nothing can be compared; the caller reports it
        return ()


def _between(judged: Sequence[compare.Judged], known: Sequence[Case]) -> tuple[Case, ...]:
    """Return the cases in the middle of the last change of the latency's verdict, one for each device and sweep."""
    curves: dict[object, list[tuple[int, str, str]]] = {}
    for each in judged:
        if each.metric == LATENCY and each.verdict in (compare.FASTER, compare.SLOWER, compare.SAME, compare.UNDECIDED):
            word = each.verdict if each.verdict in (compare.FASTER, compare.SLOWER) else compare.SAME
            curve = curves.setdefault((each.label, each.pairs[0].sweep), [])
            curve += [(pair.size, word, pair.case) for pair in each.pairs]
    by_key, found = {case.key: case for case in known}, dict[Case, None]()
    for curve in curves.values():
        changes = [(low[0], high[0], high[2]) for low, high in pairwise(sorted(curve)) if low[1] != high[1]]
        low, high, key = changes[-1] if changes else (1, 1, "")
        if high > NARROW_RATIO * low:
            found[replace(by_key[key], size=round(math.sqrt(low * high)))] = None
    return tuple(case for case in found if case not in known)
