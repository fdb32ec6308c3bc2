"""Kernel times in comparisons and gates: where they are missing, of several GPUs, and the bands of each time."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.rooms.compare.test_compare_simulated import series as simulated_series

from cpugpu_tui.analysis.compare import BANDS, NOT_JUDGED, PASSED, TOO_FEW
from cpugpu_tui.cli.running.gate import LIMITS
from cpugpu_tui.compare.comparison import compare_series
from cpugpu_tui.compare.gate import gate_series, view
from cpugpu_tui.compare.series import Series
from cpugpu_tui.config.parsing import parse_bands
from cpugpu_tui.model import DEVICE, LATENCY
from cpugpu_tui.render.comparison import summary


def series(first_seed, name):
    more = {"sizes": (64,), "metrics": (LATENCY, DEVICE), "gpu_drift": 0.001, "cpu_drift": 0.001}
    return simulated_series(first_seed, name, **more)


def without_kernels(given):
    bare = ({key: replace(case, kernel_ns={}) for key, case in each.cases.items()} for each in given.runs)
    return Series("", tuple(replace(each, cases=cases) for each, cases in zip(given.runs, bare, strict=True)))


def troubles(found):
    return {each.label: each.trouble for each in found.judged}


def test_a_gpu_has_a_row_for_its_kernels_and_the_cpu_has_none():
    report = gate_series(series(1, "base"), series(50, "new"), LIMITS)
    assert [(each.judged.label, each.outcome) for each in report.gated] == [
        ("CPU", PASSED), ("GPU", PASSED), ("GPU kernels", PASSED),
    ]  # fmt: skip
    assert list(report.found.means) == ["CPU", "GPU", "GPU kernels"]


def test_kernel_times_of_one_side_alone_are_not_judged_and_do_not_hinder_a_pass():
    base, new = series(1, "base"), series(50, "new")
    for sides, name in (((without_kernels(base), new), "base"), ((base, without_kernels(new)), "new")):
        report = gate_series(*sides, LIMITS)
        (kernels,) = [each for each in report.gated if each.judged.metric == DEVICE]
        assert (kernels.outcome, kernels.why) == (NOT_JUDGED, f"no kernel time in the {name} series")
        assert report.verdict == PASSED


def test_series_of_latency_alone_have_no_row_for_kernels():
    found = compare_series(without_kernels(series(1, "base")), without_kernels(series(50, "new")))
    assert set(troubles(found)) == {"CPU", "GPU"}


def test_kernels_with_cold_and_with_warm_caches_are_not_compared():
    base, new = series(1, "base"), series(50, "new")
    warm = Series("", tuple(replace(each, plan=replace(each.plan, cache="warm")) for each in new.runs))
    found = troubles(compare_series(base, warm))
    assert (found["CPU"], found["GPU"]) == ("", "")
    assert "cold" in found["GPU kernels"]
    assert "warm" in found["GPU kernels"]


def test_too_few_runs_have_no_interval_to_take_for_a_verdict():
    found = compare_series(Series("", series(1, "base").runs[:2]), series(50, "new"))
    assert {each.verdict for each in found.judged} == {TOO_FEW}
    assert all(each.change is not None and each.change.low is None for each in found.judged)


def test_each_gpu_of_a_host_takes_its_own_kernels_along():
    one = series(1, "base").runs[0]
    ((key, case),) = one.cases.items()
    two = replace(case, median_ns={"GPU": 9.0, "GPU 2": 8.0}, kernel_ns={"GPU": 5.0, "GPU 2": 4.0})
    for index, kernel_ns in enumerate((5.0, 4.0)):
        assert view(replace(one, cases={key: two}), index).cases[key].kernel_ns == {"GPU": kernel_ns}


# ------------------------------------------------------------------ bands


@pytest.mark.parametrize(
    ("text", "bands"),
    [
        ("1%", {LATENCY: 0.01, DEVICE: 0.01}),
        ("kernel-time=0.2%", {LATENCY: 0.02, DEVICE: 0.002}),
        ("latency=3%, kernel-time=1%", {LATENCY: 0.03, DEVICE: 0.01}),
        ("3%,kernel-time=1%", {LATENCY: 0.03, DEVICE: 0.01}),
    ],
)
def test_a_band_is_for_both_times_or_for_the_named_one(text, bands):
    assert parse_bands(text, BANDS) == pytest.approx(bands)


def test_results_of_other_lengths_are_told_with_their_code_even_if_no_core_was_free():
    """`16,384 and 640 numbers` did not say which code had which, and `threads had no free CPU core` hid it."""
    sides = []
    for name, count in (("base", 32), ("new", 1024)):
        ((run, *_), check) = series(1, name).runs, SimpleNamespace(sketches=[SimpleNamespace(count=count)])
        cases = {key: replace(each, median_ns={}, starved=("CPU",), check=check) for key, each in run.cases.items()}
        sides.append(Series("", (replace(run, duet="1", cases=cases),)))
    assert troubles(compare_series(*sides)) == {"CPU": "different results: 32 numbers of OLD and 1,024 of NEW"}


def test_a_duet_counts_the_cases_without_a_core_on_either_side_in_one_sentence():
    """`5 of 6 cases` and `6 of 6 cases` stood below each other, and neither said of which side."""
    sides = []
    for name, starved in (("base", {}), ("new", {"starved": ("CPU",)})):
        run = series(1, name).runs[0]
        cases = {key: replace(each, **starved) for key, each in run.cases.items()}
        cases |= {"free": replace(*run.cases.values()), "short": replace(*run.cases.values(), starved=("GPU",))}
        sides.append(Series("", (replace(run, run_id=name, duet="1", cases=cases),)))
    (line,) = [each for each in summary(compare_series(*sides)) if "no free CPU core" in each]
    assert line.startswith("2 of 3 cases")
