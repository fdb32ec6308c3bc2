"""The request for a gate, on this machine or on a fleet, and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cpugpu_tui.analysis.compare import BANDS, GATE_RUNS, SLOWER
from cpugpu_tui.analysis.gating import FAILED, PASSED
from cpugpu_tui.compare.series import Series
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_SAID_NO, EXIT_OK, UnfitError, UsageError
from cpugpu_tui.export import target
from cpugpu_tui.model import Plan, Simulation
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan, check_positive, nth_plan

LIMITS: Mapping[str, float] = dict.fromkeys(BANDS, 0.05)
"""Limits of the times that `--max-slowdown` does not name."""

EXIT_CODES = {PASSED: EXIT_OK, SLOWER: EXIT_CHECK_SAID_NO, FAILED: EXIT_CASES_FAILED}
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
            raise UsageError(f"--new {self.new} cannot be combined with {self.names[0]}.", "Leave one of them out.")
        check_positive(PlanRequest(self.names, repeat=self.repeat, case_timeout_s=self.case_timeout_s))
        reports = [path for path in (self.junit, self.summary) if path is not None]
        for path in reports:
            target.check_file(path)
        if len(reports) > len({path.resolve() for path in reports}):
            raise UsageError(
                f"{reports[0]} cannot hold both reports.", "Choose different files for --junit and --summary."
            )
        if self.new is None and self.repeat < GATE_RUNS:
            raise UsageError(
                f"Invalid --repeat {self.repeat}: a verdict needs {GATE_RUNS} runs.",
                f"Use --repeat {GATE_RUNS} or more.",
            )

    def write(self, junit: bytes, summary: bytes) -> None:
        """Write the reports that are wanted."""
        for path, content in ((self.junit, junit), (self.summary, summary)):
            if path is not None:
                target.write(path, [content])


def check_enough_runs(*baselines: Series) -> None:
    """Check that each baseline has enough runs for a verdict, before minutes of running.

    Raises:
        UnfitError: a baseline has fewer than `GATE_RUNS` runs with times.
    """
    for base in baselines:
        count = sum(run.has_times for run in base.runs)
        if count < GATE_RUNS:
            raise UnfitError(
                f"Too few runs in {base.text}: {count} with times, and a verdict needs {GATE_RUNS}.",
                f"Create a baseline with --repeat {GATE_RUNS}.",
            )


def gate_plan(request: GateRequest, base: Series, own: OwnWorkloads) -> Plan:
    """Return the plan to run: the baseline's own, or the named presets with the baseline's devices and scale.

    A search would choose other sizes. Instead, the cases run that all runs of the baseline have.

    Raises:
        UsageError: a name is unknown, or no case is in all runs of the baseline's search.
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
        return made if made.search is None else _fixed(made, base)
    plan = replace(saved_plan, simulation=simulation, gaps=False, ceilings=(), turns=0)
    return plan if plan.search is None else _fixed(plan, base)


def _fixed(plan: Plan, base: Series) -> Plan:
    """Return the plan of a search with fixed sizes."""
    enough = min(GATE_RUNS, len(base.runs))
    cases = {key: case for run in base.runs for key, case in run.cases.items()}
    common = [
        case.case
        for key, case in cases.items()
        if sum(run.cases[key].status == "ok" for run in base.runs if key in run.cases) >= enough
    ]
    if not common:
        raise UsageError(
            "The runs of the baseline have no size in common.", "Create a baseline with fixed sizes (--size)."
        )
    return replace(plan, cases=tuple(common), search=None)
