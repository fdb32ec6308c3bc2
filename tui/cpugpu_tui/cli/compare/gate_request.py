"""What a person asks a gate, of this machine or of a fleet, and the plan that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cpugpu_tui.analysis.compare import GATE_RUNS, SLOWER
from cpugpu_tui.analysis.gating import FAILED, PASSED
from cpugpu_tui.compare.series import Series
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_SAID_NO, EXIT_OK, UnfitError, UsageError
from cpugpu_tui.export import target
from cpugpu_tui.model import Plan, Simulation
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan, nth_plan

EXIT_CODES = {PASSED: EXIT_OK, SLOWER: EXIT_CHECK_SAID_NO, FAILED: EXIT_CASES_FAILED}
"""What each verdict of the whole exits with; undecided is `EXIT_UNFIT`, never 0."""


@dataclass(frozen=True)
class GateRequest:
    """What a person asked the gate.

    Raises:
        UsageError: a report cannot be written where it is wanted, or what was asked for can never pass.
    """

    names: tuple[str, ...]
    """Presets and workloads; empty for the first baseline's own plan."""
    baselines: tuple[str, ...]
    """In a fleet each is for the GPUs of its model; else there is one."""
    max_slowdown: float
    """0.05 for 5 %."""
    repeat: int
    junit: Path | None
    summary: Path | None
    case_timeout_s: float | None
    simulation: Simulation | None
    new: str | None = None
    """A saved series to judge; None runs one."""
    any_machine: bool = False

    def __post_init__(self) -> None:
        """Look before minutes of running."""
        if self.new is not None and self.names:
            raise UsageError(f"--new judges {self.new}, so {self.names[0]} is not run.", "Leave one of them out.")
        reports = [path for path in (self.junit, self.summary) if path is not None]
        for path in reports:
            target.check_file(path)
        if len(reports) > len({path.resolve() for path in reports}):
            raise UsageError(
                f"{reports[0]} would be both reports.", "Name a file for --junit and another for --summary."
            )
        if self.new is None and self.repeat < GATE_RUNS:
            raise UsageError(
                f"--repeat {self.repeat} can never pass: a verdict takes {GATE_RUNS} runs.",
                f"Write --repeat {GATE_RUNS} or more.",
            )

    def write(self, junit: bytes, summary: bytes) -> None:
        """Write the reports that are wanted."""
        for path, content in ((self.junit, junit), (self.summary, summary)):
            if path is not None:
                target.write(path, [content])


def check_enough_runs(*baselines: Series) -> None:
    """Refuse to run for minutes what can never pass: every verdict takes `GATE_RUNS` runs on each side.

    Raises:
        UnfitError: a baseline has fewer.
    """
    for base in baselines:
        count = sum(run.has_times for run in base.runs)
        if count < GATE_RUNS:
            raise UnfitError(
                f"Nothing can pass against {base.text}: it has {count} run{'' if count == 1 else 's'} with times, "
                f"and a verdict takes {GATE_RUNS}.",
                f"Make a baseline with --repeat {GATE_RUNS}.",
            )


def gate_plan(request: GateRequest, base: Series, own: OwnWorkloads) -> Plan:
    """Return what is run: the baseline's own plan, or the presets that were named, as it was planned there.

    A search chooses other sizes every time: of its cases those are run that all runs of the baseline have.

    Raises:
        UsageError: a name is wrong, or the baseline's search has no case in all of its runs.
    """
    told = base.runs[-1].plan
    # The noise goes on where the baseline's ended: with the same the new series would be its copy.
    simulation = request.simulation or nth_plan(told, 2).simulation
    if request.names:
        asked = PlanRequest(
            names=request.names, devices=told.devices, parallel=told.parallel, simulation=simulation,
            scale=told.scale, own=own,
        )  # fmt: skip
        made = build_plan(asked)
        return made if made.search is None else _fixed(made, base)
    plan = replace(told, simulation=simulation, gaps=False, ceilings=())
    return plan if plan.search is None else _fixed(plan, base)


def _fixed(plan: Plan, base: Series) -> Plan:
    """Return the plan of a search without its search."""
    enough = min(GATE_RUNS, len(base.runs))
    cases = {key: case for run in base.runs for key, case in run.cases.items()}
    common = [
        case.case
        for key, case in cases.items()
        if sum(run.cases[key].status == "ok" for run in base.runs if key in run.cases) >= enough
    ]
    if not common:
        raise UsageError(
            "The search of the baseline timed no size in all of its runs.", "Make a baseline with fixed sizes (--size)."
        )
    return replace(plan, cases=tuple(common), search=None)
