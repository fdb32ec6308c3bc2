"""A gate: its request and plan, on this machine or on a fleet, and what it runs and judges on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from cpugpu_tui import errors
from cpugpu_tui.analysis.compare import BANDS, FAILED, GATE_RUNS, MIN_RUNS, PASSED, SLOWER
from cpugpu_tui.cli.output.gate_report import junit, markdown, print_report
from cpugpu_tui.cli.running.modes import Printed
from cpugpu_tui.cli.running.one_run import Turn, run_turns
from cpugpu_tui.cli.running.options import RunOptions, with_own, words_for
from cpugpu_tui.cli.running.saving import save_rest, saving, say_remark
from cpugpu_tui.compare.comparison import Difference, comparable_pairs, compare_series, differences, with_placebo
from cpugpu_tui.compare.gate import GateReport, gate_of
from cpugpu_tui.compare.in_turn import Played, Side, duet_plan
from cpugpu_tui.compare.in_turn import play as play_duet
from cpugpu_tui.compare.series import Series
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.export import target
from cpugpu_tui.model import Plan, Simulation
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan, nth_plan
from cpugpu_tui.session.repeat import case_words
from cpugpu_tui.session.request import check_settings
from cpugpu_tui.state.folding import MeasuredRun
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agent_command import interpreter_of
from cpugpu_tui.transport.agent_pool import Agents

LIMITS: Mapping[str, float] = dict.fromkeys(BANDS, 0.05)
"""Limits of the times that `--max-slowdown` does not name."""

EXIT_CODES = {PASSED: errors.EXIT_OK, SLOWER: errors.EXIT_CHECK_FAILED, FAILED: errors.EXIT_CASES_FAILED}
"""Exit code by verdict. Anything else is undecided: `EXIT_UNFIT`, never 0."""


@dataclass(frozen=True)
class GateRequest:
    """The options of a gate.

    Raises:
        UsageError: a report cannot be written, or the gate could never pass.
    """

    names: tuple[str, ...]
    """Presets and workloads to run; empty for the plan of the first baseline."""
    baselines: tuple[str, ...]
    """One; in a fleet, one for each GPU model."""
    limits: Mapping[str, float]
    """Metric → how much slower a case may be, 0.05 for 5 %."""
    repeat: int
    junit: Path | None
    summary: Path | None
    case_timeout_s: float | None
    simulation: Simulation | None
    new: str | None = None
    """A saved series to judge; None to run one."""
    any_machine: bool = False

    def __post_init__(self) -> None:
        """Check everything before minutes of running."""
        if self.new is not None and self.names:
            raise errors.UsageError(
                f"--new {self.new} cannot be combined with {self.names[0]}.", "Leave one of them out."
            )
        check_settings(PlanRequest(self.names, repeat=self.repeat, case_timeout_s=self.case_timeout_s))
        for path in filter(None, (self.junit, self.summary)):
            target.check_file(path)
        if self.new is None and self.repeat < GATE_RUNS:
            raise errors.UsageError(
                f"Invalid --repeat {self.repeat}: a verdict needs {GATE_RUNS} runs.",
                f"Use --repeat {GATE_RUNS} or more.",
            )

    def write(self, junit: bytes, summary: bytes) -> None:
        """Write the reports that are wanted."""
        for path, content in ((self.junit, junit), (self.summary, summary)):
            if path is not None:
                target.write(path, [content])


def more_runs(run: str = "RUN", name: str = "NAME") -> str:
    """Return how to make a baseline that a gate takes: `baseline` itself runs nothing."""
    show, use = (with_database(f"cpugpu-tui {words}") for words in (f"show {run}", f"baseline {name} latest"))
    again = f"run it with --repeat {GATE_RUNS}, without --max-seconds"
    return f"Print the run's command with `{show}` and {again}. Then use `{use}`."


def check_enough_runs(*baselines: Series) -> None:
    """Check that each baseline has enough runs for a verdict, before minutes of running.

    Raises:
        UnfitError: a baseline has fewer than `GATE_RUNS` runs with times.
    """
    for base in baselines:
        count = sum(run.has_times for run in base.runs)
        if count < GATE_RUNS:
            raise errors.UnfitError(
                f"Too few runs in {base.text}: {count} with times, and a verdict needs {GATE_RUNS}.", more_runs()
            )


def gate_plan(request: GateRequest, base: Series, own: OwnWorkloads) -> Plan:
    """Return the plan to run: the baseline's own, or the named presets with the baseline's devices and scale.

    A search would choose other sizes. Instead, the cases run that all runs of the baseline have.

    Raises:
        UsageError: a name is unknown, or the runs of the baseline share no case with each other or with the plan.
    """
    saved_plan = base.runs[-1].plan
    # The simulated noise needs a new seed. With the old one the new series would be a copy of the baseline.
    simulation = request.simulation or nth_plan(saved_plan, 2).simulation
    if request.names:
        asked = PlanRequest(
            names=request.names, devices=saved_plan.devices, parallel=saved_plan.parallel, simulation=simulation,
            scale=saved_plan.scale, own=own,
        )  # fmt: skip
        made = build_plan(asked)
        _require_shared(made, base)
        return made if made.search is None else _fixed(made, base)
    plan = replace(saved_plan, simulation=simulation, gaps=False, ceilings=(), turns=0, is_repeat=False, clocks=())
    return plan if plan.search is None else _fixed(plan, base)


def _require_shared(plan: Plan, base: Series) -> None:
    """Refuse a plan without a case of the baseline, before minutes of running. A search has its sweeps, not its sizes.

    Raises:
        UsageError: see `gate_plan`.
    """
    part = attrgetter("key" if plan.search is None else "sweep")
    timed = {part(case.case) for run in base.runs for case in run.cases.values() if case.median_ns}
    if timed.isdisjoint(map(part, plan.cases)):
        raise errors.UsageError(
            f"{base.text.capitalize()} of {base.runs[-1].name} has no timed case of {plan.name}.",
            f"Leave {plan.name} out to run the baseline's plan, or name a baseline of it with --baseline.",
        )


def _fixed(plan: Plan, base: Series) -> Plan:
    """Return the plan of a search with fixed sizes."""
    enough, sweeps = min(GATE_RUNS, len(base.runs)), {case.sweep for case in plan.cases}
    cases = {key: case for run in base.runs for key, case in run.cases.items()}
    common = [
        case.case
        for key, case in cases.items()
        if case.case.sweep in sweeps
        and sum(run.cases[key].status == "ok" for run in base.runs if key in run.cases) >= enough
    ]
    if not common:
        raise errors.UsageError(
            "The runs of the baseline have no size in common.", "Create a baseline with fixed sizes (--size)."
        )
    return replace(plan, cases=tuple(common), search=None, words=case_words(common, plan.codes))


# ------------------------------------------------------------------ on this machine


def judge(request: GateRequest, base: Series, new: Series, placebo: Series | None = None, *, as_json: bool) -> int:
    """Compare two series, print, write the reports, and return the exit code. `placebo` is `new` measured again."""
    found = compare_series(base, new, request.limits, is_gate=True)
    if placebo is not None:
        found = with_placebo(found, new, placebo)
    if not request.any_machine:
        _check_machine(found.differences)
    return _tell(request, gate_of(found), as_json=as_json)


def _tell(request: GateRequest, report: GateReport, *, as_json: bool, duet: Played | None = None) -> int:
    print_report(report, as_json=as_json, duet=duet)
    request.write(junit(report), markdown(report))
    return EXIT_CODES.get(report.verdict, errors.EXIT_UNFIT)


def play(request: GateRequest, options: RunOptions, against: str, *, as_json: bool) -> int:
    """Judge this interpreter against another one in a duet, and return the exit code."""
    if "/" not in against and not Path(against).exists():  # perhaps the name of a baseline
        try:
            interpreter_of(against)
        except errors.UsageError as error:
            remedy = f"{error.remedy} To compare with a baseline, use --baseline."
            raise errors.UsageError(error.message, remedy) from None
    sides = [Side(python, python) for python in (against, options.python or sys.executable)]
    asked = PlanRequest(
        request.names or ("quick",), simulation=request.simulation, case_timeout_s=request.case_timeout_s
    )
    asked = with_own(asked, options.workloads, options.python)
    plan = duet_plan(asked, sides, options.worker)
    with saving(options) as outbox:
        played = play_duet(asked, plan, sides, outbox, Printed(options), bands=request.limits, is_gate=True)
        say_remark(outbox)
        if played.is_over:
            return save_rest(outbox, played.exit_code or errors.EXIT_UNFIT)
        try:
            (found,) = played.found()
        except errors.CpuGpuError as error:  # no case was timed on both sides
            errors.print_notice(f"cpugpu-tui: {error}")
            return save_rest(outbox, played.exit_code or errors.EXIT_UNFIT)
        return save_rest(outbox, _tell(request, gate_of(found), as_json=as_json, duet=played))


def _check_machine(differences: Iterable[Difference]) -> None:
    """Refuse a baseline of other hardware. The host name may differ, as it does in CI.

    Raises:
        UnfitError: CPU or GPU differ.
    """
    hardware = [each for each in differences if each.is_hardware]
    if hardware:
        what = "; ".join(f"{each.what}: {each.base} in the baseline, {each.new} here" for each in hardware)
        raise errors.UnfitError(
            f"The baseline was measured on another machine ({what}).",
            "Create a baseline on this machine, or add --any-machine.",
        )


def run_and_judge(request: GateRequest, options: RunOptions, base: Series, *, as_json: bool) -> int:
    """Run a new series, judge it against a baseline, and return the exit code."""
    check_enough_runs(base)
    own = with_own(PlanRequest(request.names or ("quick",)), options.workloads, options.python).own
    plan = gate_plan(request, base, own)
    words = own.words() if request.names else words_for(plan, options.workloads)
    agents = Agents(options.python, options.worker, simulated=plan.simulation is not None, own=words)
    with saving(options) as outbox:
        with closing(agents):
            ran = _run_series(request, plan, base, agents, outbox)
        if isinstance(ran, int):
            return save_rest(outbox, ran)
        say_remark(outbox)
        return save_rest(outbox, judge(request, base, *ran, as_json=as_json))


def _run_series(
    request: GateRequest, plan: Plan, base: Series, agents: Agents, outbox: Outbox | None
) -> tuple[Series, Series] | int:
    """Run the new series and its placebo in turn, and return both. Return the exit code instead if one did not finish.

    The placebo is not saved. It has the fewest runs that can get a word.
    """
    new, placebo = new_id(), new_id()
    order = [each for number in range(request.repeat) for each in (new, placebo)[: 2 if number < MIN_RUNS else 1]]
    turns = [Turn(_drawn(plan, number, is_placebo=each == placebo), each, None if each == placebo else outbox)
             for number, each in enumerate(order, start=1)]  # fmt: skip
    found: dict[str, list[MeasuredRun]] = {new: [], placebo: []}

    def take(turn: Turn, run: MeasuredRun) -> None:
        if not any(found.values()) and not request.any_machine:
            # The first run shows whether the machine is the same. If not, do not run the others.
            comparable_pairs(base, Series("", (run,)))
            _check_machine(differences(base.runs, (run,)))
        found[turn.series_id].append(run)

    code = run_turns(turns, agents, request.case_timeout_s, take)
    return code or (Series("this series", tuple(found[new])), Series("placebo", tuple(found[placebo])))


def _drawn(plan: Plan, number: int, *, is_placebo: bool) -> Plan:
    """Return the plan of a run, with noise of its own and, for the placebo, the simulated difference from itself."""
    each = nth_plan(plan, number)
    if each.simulation is None or not is_placebo:
        return each
    return replace(each, simulation=replace(each.simulation, side_factor=each.simulation.placebo_factor))
