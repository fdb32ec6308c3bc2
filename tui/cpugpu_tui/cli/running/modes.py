"""The ways in which `run` runs: a series, a duet of interpreters, or the rest of an interrupted run.

In a duet, fresh pairs of agents are timed in turn until every verdict is clear.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

from cpugpu_tui.analysis.compare import DUET_BANDS, FIRST_LOOK, LOOKS, MOST_PAIRS, TOO_FEW, UNDECIDED, VISITS, Judged
from cpugpu_tui.cli.options import Given, refuse_beside
from cpugpu_tui.cli.output.printing import failure_as_event, print_json, print_lines
from cpugpu_tui.cli.running import one_run
from cpugpu_tui.cli.running.options import RunOptions, check_unchanged, found_python, with_own, words_for
from cpugpu_tui.cli.running.saving import Outputs, outbox_of, remark_of, save_rest, saving, say_remark
from cpugpu_tui.compare.comparison import SeriesComparison, compare_series, differing_results, with_placebo
from cpugpu_tui.compare.series import Series
from cpugpu_tui.config.parsing import parse_bands
from cpugpu_tui.errors import (
    EXIT_CASES_FAILED,
    EXIT_OK,
    EXIT_UNFIT,
    EXIT_USAGE,
    StoreError,
    UnfitError,
    UsageError,
    print_notice,
)  # fmt: skip
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import DEVICE, DUET, LATENCY, CaseFailed, Event, EventClock, OwnCode, Plan, RunFinished
from cpugpu_tui.model.quantities import count_of, duration
from cpugpu_tui.render.comparison import comparison_data
from cpugpu_tui.session.devices import with_gpu_names
from cpugpu_tui.session.duet import Duet
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.session.further_starts import at_once
from cpugpu_tui.session.planning import PlanRequest, build_plan, check_settings, nth_plan
from cpugpu_tui.session.resume import Unfinished, unfinished
from cpugpu_tui.session.session import POLL_S, Session
from cpugpu_tui.state.folding import measured
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import Store, open_store
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.interpreter_search import AUTO

BLOCKS = 20
"""Blocks of a visit on each device: 40 ms, so that a visit averages more noise than a half-round of a run."""

Judge = Callable[[Sequence[Series]], Sequence[Judged]]
"""Returns the verdicts of all series against the first."""


@dataclass(frozen=True)
class Side:
    """What one agent of a duet runs."""

    name: str
    python: str | None
    codes: tuple[OwnCode, ...] = ()
    """Its own code; empty if both sides run that of the plan."""


@dataclass
class Played:
    """The runs of a duet."""

    series: tuple[Series, ...]
    """One for each side, base first; a run for each pair of agents."""
    placebo: Series
    """The base once more. It is timed like the others, and neither shown nor saved."""
    exit_code: int = EXIT_OK
    """The worst of all runs."""
    visits_s: float = 0.0
    """Time in which cases were timed."""
    start_up_s: float = 0.0
    """All other time: starting agents, preparing cases, warm-up."""
    pairs: int = 0
    """Pairs of agents, also those that were stopped."""
    failed: set[str] = field(default_factory=set)
    """Keys of cases that failed on a side."""
    clocks: tuple[EventClock, ...] = ()
    """Event clocks that the first pair of agents has checked."""
    is_over: bool = False
    """Whether it was stopped, or a side cannot run."""

    @property
    def text(self) -> str:
        """How long it took, in a sentence."""
        agents = count_of(self.pairs, "pair of agents", "pairs of agents")
        return f"{agents}: timing took {duration(self.visits_s)}, start-up and warm-up {duration(self.start_up_s)}."

    @property
    def data(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"pairs": self.pairs, "timing_s": self.visits_s, "start_up_s": self.start_up_s}


def duet_plan(request: PlanRequest, sides: Sequence[Side], worker: str) -> Plan:
    """Return the plan of each agent. A search would choose other sizes on each side, so its first sizes are run.

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
                f"Leave it out. They are timed in turn until every verdict is clear, at most {VISITS * MOST_PAIRS} "
                "visits to each.",
            )
    plan = build_plan(request)
    return replace(
        plan, search=None, metrics=tuple(each for each in (LATENCY, DEVICE) if each in plan.metrics), rounds=VISITS,
        max_rounds=VISITS, blocks=1 if plan.times_commands else BLOCKS, window=1, max_seconds=None,
        starts=1, is_of_two_codes=has_codes,  # each pair of agents is a start
    )  # fmt: skip


def play(
    request: PlanRequest, plan: Plan, sides: Sequence[Side], outbox: Outbox | None, judge: Judge,
    see: one_run.See = lambda _state, _event: None, began_s: float | None = None,
) -> Played:  # fmt: skip
    """Run pairs of agents until every case is decided or the time limit, since `began_s` or now, is over.

    A further agent of the first side is the placebo. It is the last of a round, or the first.
    """
    duet_id, started_s, (*series, placebo) = new_id(), time.monotonic(), [
        Series(side.name, ()) for side in (*sides, sides[0])
    ]  # fmt: skip
    played, sides = Played(tuple(series), placebo), (*sides, sides[0])
    series_ids, ready = [new_id() for _ in sides], 0
    with ExitStack() as stack:
        agents = [Agents(each.python, simulated=plan.simulation is not None, own=request.own.words())
                  for each in sides]  # fmt: skip
        for each in agents:
            stack.callback(each.close)
        for number in range(1, MOST_PAIRS + 1):
            if sys.stderr.isatty():
                print_notice(f"{plan.name}: pair {number} of at most {MOST_PAIRS}")
            ready = ready or at_once(next(look for look in LOOKS if look > played.pairs) - played.pairs, len(sides))
            for each in agents:
                each.prepare(ready)
            ready -= 1
            sessions = [
                Session(_part(plan, number, index, sides), each, outbox if index < len(series) else None,
                        series_ids[index], request.case_timeout_s,
                        {**one_run.controller_facts(), DUET: f"{duet_id}.{number}"})
                for index, each in enumerate(agents)
            ]  # fmt: skip
            _run_pair(Duet(sessions, plan.cases, is_flipped=number % 2 == 0), plan, agents, played, see)
            played.start_up_s = time.monotonic() - started_s - played.visits_s
            left = _open(played, judge, plan)
            cases = tuple(case for case in plan.cases if case.key in left)
            plan = replace(plan, cases=cases, is_repeat=True, clocks=played.clocks)
            is_late = time.monotonic() - (began_s or started_s) >= (request.max_seconds or math.inf)
            if played.is_over or not plan.cases or is_late:
                break
    return played


def _part(plan: Plan, number: int, index: int, sides: Sequence[Side]) -> Plan:
    """Return the plan of one agent of a pair; the last of `sides` is the placebo."""
    count = len(sides)
    part = nth_plan(plan, (number - 1) * count + index + 1)
    part = replace(part, turns=count - index, codes=sides[index].codes or plan.codes)
    simulation = part.simulation
    if simulation is None or not index:
        return part
    # The simulated difference between the interpreters, and that of the placebo from itself.
    differs = simulation.placebo_factor if index == count - 1 else simulation.duet_factor
    return replace(part, simulation=replace(simulation, slow_factor=simulation.slow_factor * differs))


def _run_pair(duet: Duet, plan: Plan, agents: Sequence[Agents], played: Played, see: one_run.See) -> None:
    """Run one pair of agents to its end, and add its runs."""
    events: list[list[Event]] = [[] for _ in agents]
    states, progress = [RunState() for _ in agents], one_run.Progress()

    def deliver(index: int, event: Event) -> None:
        states[index] = states[index].apply(event)
        events[index].append(event)
        progress.show(states[index], event)

    with (
        one_run.signals_stop(duet),
        one_run.telemetry(duet.sessions, plan, lambda: {pid for each in agents for pid in each.pids()}),
    ):
        while any(each.is_starting for each in agents) and not duet.stopping:
            time.sleep(POLL_S)  # no process starts while another one is timed
        ended = duet.run(deliver)
    progress.clear()
    for each in events[:-1]:  # one run after the other, so that the events of a run stay together
        state = RunState()
        for event in each:
            state = state.apply(event)
            see(state, event)
    played.pairs += 1
    played.visits_s += duet.visits_s
    played.clocks = tuple(states[0].clocks.values())
    names = [series.name for series in played.series] if plan.is_of_two_codes else [""] * len(agents)
    played.exit_code = max(played.exit_code, _exit_code(duet, ended, names))
    played.is_over = duet.stopping or any(each.status != "done" for each in ended)
    for series, each in zip(played.series, events, strict=False):
        for event in each:
            if isinstance(event, CaseFailed) and event.kind != "skipped":
                played.failed.add(event.case)
                print_notice(f"{event.case} failed in {series.name}: {event.message} {event.remedy}".strip())
    *sides, played.placebo = (
        replace(series, runs=(*series.runs, run)) if (run := measured(each)) is not None else series
        for series, each in zip((*played.series, played.placebo), events, strict=True)
    )
    played.series = tuple(sides)
    if plan.is_of_two_codes and all(series.runs for series in played.series):
        base, *others = (series.runs[-1].cases for series in played.series)
        for key in [each for each in base if each not in played.failed]:
            found = [differing_results({"": base[key]}, {"": other[key]}) for other in others if key in other]
            if any(found):
                print_notice(f"n = {base[key].case.size:,}: {found[0]}. Correct one of the codes.")
                played.failed.add(key)
                played.exit_code = max(played.exit_code, EXIT_CASES_FAILED)


def _exit_code(duet: Duet, ended: Sequence[RunFinished], names: Sequence[str]) -> int:
    """Return the exit code of a pair. Print why a side could not run; the others were stopped then."""
    failed = [each for each in ended if each.status == "failed"]
    for name, each in zip(names, ended, strict=False):
        if each in failed:
            one_run.say_why(replace(each, message=f"{name}: {each.message}") if each.message and name else each)
    return duet.signal_exit or max(each.exit_code for each in failed or ended)


def _open(played: Played, judge: Judge, plan: Plan) -> set[str]:
    """Return the cases that need another pair of agents."""
    left = {case.key for case in plan.cases} - played.failed
    if played.pairs < FIRST_LOOK or not left:
        return left
    try:
        judged = judge(played.series)
    except (UsageError, UnfitError):  # nothing can be compared; the caller reports it
        return set()
    return left & {pair.case for each in judged if each.verdict in (UNDECIDED, TOO_FEW) for pair in each.pairs}


def run_headless(request: PlanRequest, options: RunOptions, *, as_json: bool, outputs: Outputs | None = None) -> int:
    """Run a request to its end and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all. With `--json` it is also printed as a `RunFinished` line.
    """
    outputs = outputs or Outputs()
    with failure_as_event(as_json=as_json):
        request = with_own(request, options.workloads, options.python)
        plan = build_plan(request)
        outputs.check()
    agents = Agents(options.python, options.worker, simulated=plan.simulation is not None, own=request.own.words())
    series_id, code = new_id(), EXIT_OK
    with saving(options) as outbox:
        with closing(agents):
            with failure_as_event(as_json=as_json):
                plan = with_gpu_names(plan, agents)
            for number in range(1, request.repeat + 1):
                each = nth_plan(plan, number)
                session = Session(
                    each, agents, outbox, series_id, request.case_timeout_s, one_run.controller_facts(),
                    ceilings=options.ceilings, began_s=options.began_s + (number - 1) * (plan.max_seconds or 0.0),
                )  # fmt: skip
                remark = remark_of(outbox) if number == 1 else None
                code = max(code, one_run.run_once(session, agents, each, remark, as_json=as_json, outputs=outputs))
                if session.stopping or code in (EXIT_USAGE, EXIT_UNFIT):
                    break  # the next run would fail in the same way
        return save_rest(outbox, code or outputs.exit_code)


def run_in_turn(
    request: PlanRequest, options: RunOptions, sides: Sequence[Side], outputs: Outputs, *, as_json: bool,
    band: str | None,
) -> int:  # fmt: skip
    """Run a plan in a duet of several interpreters or codes, compare each with the first, and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all.
    """
    bands = parse_bands(band, DUET_BANDS) if band is not None else DUET_BANDS
    request = with_own(request, options.workloads, sides[0].python)
    plan = duet_plan(request, sides, options.worker)
    outputs.check()

    def compared(series: Sequence[Series]) -> list[SeriesComparison]:
        base, *others = series
        return [compare_series(base, new, bands, sharers=len(others)) for new in others if base.runs and new.runs]

    def judge(series: Sequence[Series]) -> list[Judged]:
        return [each for found in compared(series) for each in found.judged]

    with saving(options) as outbox:
        played = play(request, plan, sides, outbox, judge, one_run.seen_by(outputs, as_json=as_json), options.began_s)
        say_remark(outbox)
        for line in outputs.write():
            print_notice(line)
        code = played.exit_code or outputs.exit_code
        try:
            found = [with_placebo(each, each.base, played.placebo) for each in compared(played.series)]
            show_duet(found, played, as_json=as_json)
            code = code or (EXIT_UNFIT if any(each.placebo_moved for each in found) else EXIT_OK)
        except (UsageError, UnfitError) as error:  # no case was timed on both sides; the runs are saved anyway
            if not played.is_over:  # that reason is known already
                print_notice(f"No comparison: {error}")
            code = code or EXIT_UNFIT
        return save_rest(outbox, code)


def show_duet(found: Sequence[SeriesComparison], played: Played, *, as_json: bool) -> None:
    """Print the comparisons and how long the duet took."""
    from cpugpu_tui.cli.output.table_style import console
    from cpugpu_tui.cli.output.tables import show_comparison

    for each in found:
        if as_json:
            print_json({**comparison_data(each), "duet": played.data})
        else:
            show_comparison(each)
    if found and not as_json:
        print_lines(console(), [played.text])


TAKEN = (
    "names", "resume", "explain", "json", "database", "python", "pythons", "case_timeout", "workloads", "export",
    "tensorboard", "all_",
)  # fmt: skip
"""Parameters of `run` and `survey` that can be used with --resume. The plan is fixed."""


def resume_run(given: Given, preset: str | None = None) -> int:
    """Run the missing cases of a saved run and return the exit code.

    Without a named run it is the newest unfinished one, of `preset` if that is given.

    Raises:
        UsageError: an option would change the plan.
        CpuGpuError: no run can be resumed. With `--json` it is also printed as a `RunFinished` line.
    """
    refuse_beside(given.context, "--resume", lambda name: name not in TAKEN, "Leave it out.")
    as_json, database = given.json, given.database
    if given.several:
        raise UsageError(f"--resume runs one interpreter, not {len(given.several)}.", "Use --python once.")
    named_python = given.pythons[0] if given.pythons else given.python
    outputs = Outputs.of(given)
    with outbox_of(database, open_store(database, keep_aside=False), keep_aside=False) as outbox:
        store = outbox.store
        assert store is not None
        with failure_as_event(as_json=as_json):
            check_settings(PlanRequest((), case_timeout_s=given.case_timeout))
            run = _wanted(store, given.names or (), preset)
            plan = run.started.plan
            outputs.check()
            own = words_for(plan, map(str, given.workloads or ()))
            check_unchanged(plan)
            _require_python(run, named_python)
        worker = str(run.started.environment.get("worker") or "process")
        python = found_python(named_python, worker, plan.simulation)
        with closing(Agents(python, worker, simulated=plan.simulation is not None, own=own)) as agents:
            session = Session.resumed(run, agents, outbox, given.case_timeout, given.context.obj)
            code = one_run.run_once(session, agents, plan, store.remark, as_json=as_json, outputs=outputs)
        return save_rest(outbox, code or outputs.exit_code)


def _require_python(run: Unfinished, python: str | None) -> None:
    """Refuse to start an interpreter that the user did not name: the run may come from someone else's export."""
    used = run.started.environment.get("python_option")
    if used and python is None:
        raise UsageError(
            f"Run {run.summary.number} was measured with --python {printable(str(used))}.", "Add this option."
        )


def _wanted(store: Store, names: Sequence[str], preset: str | None) -> Unfinished:
    if len(names) > 1:
        raise UsageError(
            f"--resume takes one run, not {len(names)}.", "Give one run, or none for the newest unfinished run."
        )
    if store.notice:
        raise StoreError(store.notice)
    return unfinished(store, names[0] if names else None, preset)
