"""The gate: a series against a baseline, and each GPU of a fleet against a baseline of its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cpugpu_tui.analysis.compare import FAILED, PASSED, SLOWER, UNDECIDED, Gated, gated, verdict
from cpugpu_tui.compare.comparison import SeriesComparison, compare_series
from cpugpu_tui.compare.series import Series
from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.session.fleet_state import FleetState, HostState
from cpugpu_tui.state.folding import MeasuredRun

PLACEBO_MOVED = "the placebo moved"
"""Why a case is undecided whose numbers might decide it."""

GPU = "GPU"
"""Name of the first GPU of a run; the others are `GPU 2`, `GPU 3`, as in `state.folding`."""


@dataclass(frozen=True)
class GateReport:
    """A comparison with the gate's verdicts."""

    found: SeriesComparison
    gated: tuple[Gated, ...]

    @property
    def limits(self) -> Mapping[str, float]:
        """Metric → how much slower a case may be, 0.05 for 5 %."""
        return self.found.bands

    @property
    def verdict(self) -> str:
        """`PASSED`, `SLOWER`, `FAILED` or `UNDECIDED`."""
        return verdict(self.gated)


def gate_series(base: Series, new: Series, limits: Mapping[str, float], sharers: int = 1) -> GateReport:
    """Judge `new` against `base`; `limits` is metric → 0.05 for 5 %, and `sharers` the number of such gates.

    Raises:
        UsageError, UnfitError: the two cannot be compared, see `compare_series`.
    """
    return gate_of(compare_series(base, new, limits, is_gate=True, sharers=sharers))


def gate_of(found: SeriesComparison) -> GateReport:
    """Return the report of a comparison; if its placebo moved, no case passes and none is slower."""
    outcomes = gated(found.judged, found.bands)
    if found.placebo_moved:
        outcomes = tuple(each._replace(why=PLACEBO_MOVED) if each.outcome == UNDECIDED else each for each in outcomes)
    return GateReport(found, outcomes)


# ------------------------------------------------------------------ a fleet


@dataclass(frozen=True)
class GpuGate:
    """One GPU of one host, judged."""

    host: str
    device: str
    """`cuda:1`."""
    model: str
    baseline: Series | None
    """None without a baseline of this model."""
    report: GateReport | None = None
    trouble: str = ""
    """Why it cannot be judged, one sentence; empty if it can."""

    @property
    def name(self) -> str:
        """`gpu3 cuda:1`."""
        return f"{self.host} {self.device}"

    @property
    def outcome(self) -> str:
        """`PASSED`, `SLOWER`, `FAILED` or `UNDECIDED`."""
        return UNDECIDED if self.report is None else self.report.verdict

    @property
    def worst(self) -> Gated | None:
        """The case with the largest slowdown, of those that decided the outcome; None if nothing can be compared."""
        gates = () if self.report is None else self.report.gated
        known = [((each.outcome == self.outcome, each.change.ratio), each) for each in gates if each.change is not None]
        return max(known, key=lambda pair: pair[0])[1] if known else None


@dataclass(frozen=True)
class FleetGate:
    """All GPUs of a fleet, judged."""

    state: FleetState
    gpus: tuple[GpuGate, ...]
    limits: Mapping[str, float]
    """Metric → 0.05 for 5 %."""

    @property
    def verdict(self) -> str:
        """The overall verdict: slower before failed before undecided; a host in trouble counts as failed."""
        outcomes = [each.outcome for each in self.gpus]
        if SLOWER in outcomes:
            return SLOWER
        if FAILED in outcomes or self.state.troubled:
            return FAILED
        return PASSED if outcomes and set(outcomes) == {PASSED} else UNDECIDED


def judge_fleet(state: FleetState, baselines: Sequence[Series], limits: Mapping[str, float]) -> FleetGate:
    """Judge every GPU that has runs; `limits` is metric → 0.05 for 5 %. All verdicts of the fleet share one level."""
    count = sum(len(each.run.gpus) for each in state.hosts.values())
    gates = [gate for each in state.hosts.values() for gate in _gates_of(each, baselines, limits, count)]
    return FleetGate(state, tuple(gates), limits)


def _gates_of(
    each: HostState, baselines: Sequence[Series], limits: Mapping[str, float], count: int
) -> Iterator[GpuGate]:
    if not each.run.gpus and not each.in_trouble:
        yield GpuGate(each.host.host, "–", "no GPU", None, trouble=each.run.no_gpu or "This host has no GPU.")
    for index, device in enumerate(each.run.gpus):
        blank = GpuGate(each.host.host, device.name, device.label, None)
        new = Series(blank.name, tuple(view(run, index) for run in each.runs))
        base = baseline_for(device.label, baselines)
        if base is None:
            models = ", ".join(dict.fromkeys(model for series in baselines for model in series.runs[-1].gpu_models))
            yield replace(blank, trouble=f"No baseline has a {device.label}; they have: {models or 'no GPU'}.")
        elif not new.runs:
            yield replace(blank, baseline=base, trouble="None of its runs finished.")
        else:
            try:
                report = gate_series(base, new, limits, count)
            except (UsageError, UnfitError) as error:
                yield replace(blank, baseline=base, trouble=error.message)
            else:
                yield replace(blank, baseline=base, report=report)


def baseline_for(model: str, baselines: Sequence[Series]) -> Series | None:
    """Return the first baseline with this GPU model, reduced to that GPU; None without one."""
    for series in baselines:
        models = series.runs[-1].gpu_models
        if model in models:
            index = models.index(model)
            return Series(series.name, tuple(view(run, index) for run in series.runs))
    return None


def view(run: MeasuredRun, index: int) -> MeasuredRun:
    """Return a run reduced to its GPU at this index, as its only device."""
    name = GPU if index == 0 else f"{GPU} {index + 1}"
    cases = {
        key: replace(
            case, median_ns={GPU: case.median_ns[name]} if name in case.median_ns else {},
            kernel_ns={GPU: case.kernel_ns[name]} if name in case.kernel_ns else {},
        )
        for key, case in run.cases.items()
    }  # fmt: skip
    clocks = {GPU: run.clocks_mhz[name]} if name in run.clocks_mhz else {}
    models = run.gpu_models[index : index + 1]
    facts = {**run.facts, "GPU": next(iter(models), None), "which GPU": None}
    return replace(run, cases=cases, clocks_mhz=clocks, facts=facts, gpu_models=models)
