"""Comparisons of whole simulated runs with noise and drift, and of runs that differ in known facts."""

from dataclasses import replace

import pytest
from tests.helpers.runs.recorder import QUICK, plan_of, state_of, swept

from cpugpu_tui.analysis.compare import FASTER, SLOWER
from cpugpu_tui.cli.running.gate import LIMITS
from cpugpu_tui.compare.changes import remark_on
from cpugpu_tui.compare.comparison import Series, compare_series
from cpugpu_tui.compare.gate import gate_series
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.machine.procfs import driver_version
from cpugpu_tui.model import LATENCY, DevicesFound, GpuTelemetry, Reading, TelemetryRead
from cpugpu_tui.state.folding import measured, measured_state

WANDERING = replace(QUICK, noise=0.01, cpu_drift=0.02, gpu_drift=0.02, drift_rho=0.97)
"""Slow drift, so that medians of runs differ by 2 %, as those of processes do."""

PAIRS = 12


def run(seed, series, sizes=(16, 256), metrics=(LATENCY,), **laws):
    simulation = replace(WANDERING, seed=seed, **laws)  # type: ignore[arg-type]
    plan = plan_of(*sizes, simulation=simulation, metrics=metrics, rounds=5, max_rounds=5)
    state = state_of(plan, swept(plan)[1])
    named = replace(state, run=replace(state.run, run_id=f"{series}{seed}", series_id=series))
    return measured_state(named)


def series(first_seed, name, runs=5, **laws):
    return Series("", tuple(run(seed, name, **laws) for seed in range(first_seed, first_seed + runs)))


def verdicts(found):
    return {each.verdict for each in found.judged}


@pytest.mark.slow
def test_equal_series_are_not_called_different():
    alarms = 0
    for number in range(PAIRS):
        found = compare_series(series(100 * number, "base"), series(100 * number + 50, "new"))
        alarms += bool({FASTER, SLOWER} & verdicts(found))
        spread = [pair.base_ns.values() for pair in found.pairs]
        assert max(max(ns) / min(ns) for ns in spread) > 1.005  # the runs do differ
    assert alarms <= 1


def test_a_slower_gpu_is_found_and_the_processor_beside_it_acquitted():
    # At 256 the kernel then takes 40 µs in place of 2, launching and waiting 180 as before; at 16 nothing changes.
    found = compare_series(series(1, "base"), series(60, "new", gpu_ns_per_flop=0.0012))
    (slow,) = [each for each in found.judged if each.verdict == SLOWER]
    assert (slow.label, slow.pairs[0].size) == ("GPU", 256)
    assert gate_series(found.base, found.new, LIMITS).verdict == SLOWER
    assert [each.what for each in found.differences] == ["simulation"]


def limited(*limits_w, name="base"):
    """Runs of the same plan with a telemetry reading of this power limit, or without any reading."""
    plan = plan_of(16, simulation=replace(QUICK, seed=1), metrics=(LATENCY,), rounds=5, max_rounds=5)
    recorder = swept(plan)[1]
    state = state_of(plan, recorder)
    runs = []
    for number, limit_w in enumerate(limits_w):
        own, other = ({"power_limit_mw": Reading(mw)} for mw in ((limit_w or 0.0) * 1e3, 1.0))
        gpus = tuple(
            GpuTelemetry(index=i, uuid=f"GPU-SIM{i}", name="sim", pci_bus_id=None, readings=readings)
            for i, readings in enumerate((own, other))
        )
        read = [TelemetryRead(gpus=gpus)] if limit_w is not None else []
        started = replace(state.run, run_id=f"{name} {number}", series_id=name)
        found = measured([started, DevicesFound(devices=state.devices), *read, *recorder.events])
        assert found is not None
        runs.append(found)
    return Series("", tuple(runs))


def test_the_power_limit_of_the_runs_own_gpu_is_a_difference():
    (difference,) = compare_series(limited(700.0), limited(500.0, name="new")).differences
    assert (difference.what, difference.base, difference.new) == ("power limit", "700 W", "500 W")


@pytest.mark.parametrize(
    ("base", "new", "names"),
    [
        # A short run ends before telemetry is read. The app said `power limit differs` of it, and `compare` nothing.
        ((None,), (700.0,), []),
        ((700.0,), (None,), []),
        ((None,), (None,), []),
        ((700.0, None), (None, 700.0), []),
        ((700.0, None), (500.0,), ["power limit"]),
        ((700.0, 500.0), (700.0,), ["power limit"]),
    ],
)
def test_app_and_command_line_find_the_same_differences(base, new, names):
    before, after = limited(*base), limited(*new, name="new")
    assert [each.what for each in compare_series(before, after).differences] == names
    if len(after.runs) == 1:
        assert remark_on(before, after.runs[0]) == (f"{names[0]} differs" if names else "")


def test_a_run_that_ended_too_early_to_know_a_fact_does_not_differ_in_it():
    """A duet that was stopped midway said `differs: CPU threads, 2 or unknown, 2 or unknown`."""
    sides = [limited(None, None, name=name) for name in ("base", "new")]
    short = [
        replace(side, runs=(side.runs[0], replace(side.runs[1], facts={**side.runs[1].facts, "CPU threads": None})))
        for side in sides
    ]
    assert compare_series(*short).differences == compare_series(*sides).differences == ()


# ------------------------------------------------------------------ errors


def test_what_cannot_be_compared_is_an_error_with_a_remedy(words):
    old = limited(None)
    measured_run = replace(old.runs[0], run_id="m", plan=replace(old.runs[0].plan, simulation=None))
    starved = {key: replace(case, median_ns={}, starved=("CPU", "GPU")) for key, case in old.runs[0].cases.items()}
    base = Series("baseline main", old.runs)
    others = {
        "same series": old.runs[0],
        "simulated": measured_run,
        "no core": replace(old.runs[0], run_id="s", cases=starved),
        "nothing in common": replace(old.runs[0], run_id="n", cases={}),
    }
    for other in others.values():
        with pytest.raises(CpuGpuError) as error:
            compare_series(base, Series("run 7", (other,)))
        words([error.value.message, error.value.remedy])


def test_the_driver_is_read_from_the_kernels_own_file(tmp_path):
    file = tmp_path / "version"
    assert driver_version(file) is None
    for line, version in (
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x)", "580.95.05"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023", "535.54.03"),
        ("something else", None),
    ):
        file.write_text(f"{line}\nGCC version:  gcc version 12.2.0\n")
        assert driver_version(file) == version
