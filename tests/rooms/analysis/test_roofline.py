"""Limits of a row and errors of the paper's clock, from planted numbers."""

from dataclasses import replace

import pytest

from cpugpu_tui.analysis.ceilings import Limit, judge_clock, least_ns, limit
from cpugpu_tui.model import Ceilings, Line
from cpugpu_tui.workloads.transfer import link_of

GPU = Ceilings(
    "cuda:0", "NVIDIA H200", "GPU-1", "node1", "2.11", 10**18, 16, {"float32": 51e12, "bfloat16": 787e12},
    {"float32": 8192, "bfloat16": 8192}, 4.29e12, 2**30, 10.5e3, 8.4e3, 21e3,
    {"h2d_pageable": Line(8e3, 7e9), "h2d_pinned": Line(8e3, 55e9)},
)  # fmt: skip
CPU = replace(
    GPU, device="cpu", label="Xeon", uuid=None, flops={"float32": 2.2e12}, matmul_sizes={"float32": 2048},
    copy_bytes_per_s=103e9, launch_ns=900.0, synchronize_ns=None, round_trip_ns=None, transfers={},
)  # fmt: skip


def matmul_limit(n, hardware_ns, latency_ns, dtype="float32"):
    return limit(2.0 * n**3, 12.0 * n * n, dtype, None, hardware_ns, latency_ns, GPU)


# ------------------------------------------------------------------ limits


def test_a_large_product_is_limited_by_computing_with_its_share():
    """2 · 8192³ FLOPs in 21.9 ms are 50.2 TFLOP/s of 51."""
    found = matmul_limit(8192, 21.9e6, 22e6)
    assert (found.kind, found.share) == ("compute", pytest.approx(0.984, abs=0.001))


def test_a_long_vector_is_limited_by_memory():
    """Multiply-add of 10⁸ numbers: 1.6 GB in 394 µs are 4.06 of 4.29 TB/s."""
    found = limit(2e8, 1.6e9, "float32", None, 394e3, 410e3, GPU)
    assert (found.kind, found.share) == ("memory", pytest.approx(0.947, abs=0.001))


def test_what_waits_longer_than_it_works_is_limited_by_launching():
    assert matmul_limit(64, 7e3, 27e3) == Limit("launch", None)


def test_what_reaches_a_fifth_of_neither_peak_rate_is_limited_by_neither():
    """`compute 9 %` was said of a GPU that spent its time in small kernels, and `launch` where it worked for 99 %."""
    assert matmul_limit(64, 20e3, 21e3) == Limit("neither peak", None)
    assert matmul_limit(8192, 5.01 * 21.56e6, 110e6).kind == "neither peak"
    assert matmul_limit(8192, 4.99 * 21.56e6, 110e6).kind == "compute"
    assert matmul_limit(64, 16e3, 21e3) == Limit("launch", None), "starting it takes a fifth of the time"
    assert limit(2.0 * 16**3, 3072.0, "float32", None, 2e3, 2e3, CPU) == Limit("call", None)
    assert limit(2.0 * 16**3, 3072.0, "float32", None, 9e3, 9e3, CPU) == Limit("neither peak", None)


def test_a_cpu_call_that_is_mostly_overhead_is_limited_by_the_call():
    """13 % of the memory's rate is reached in 150 ns beside a call's 900 ns."""
    assert limit(0.0, 14e3, "float32", None, 1050.0, 1050.0, CPU) == Limit("call", None)


def test_a_copy_over_the_cable_is_measured_against_the_cable():
    assert link_of("h2d-pinned") == "h2d_pinned"
    assert link_of("d2d") is None
    found = limit(0.0, 2.0**28, "float32", "h2d_pinned", 5e6, 5e6, GPU)
    assert (found.kind, found.share) == ("transfer", pytest.approx(2**28 / 55e9 * 1e9 / 5e6))


def test_a_precision_that_was_not_measured_has_no_limit():
    assert matmul_limit(8192, 21.9e6, 22e6, "float64") is None
    assert least_ns(0.0, 0.0, "float32", GPU) is None


# ------------------------------------------------------------------ clocks


def test_publication_1s_clock_at_9951_is_off_and_what_it_prints_is_impossible():
    """method.md's H200: 0.73 ms printed for 38.8 ms of work, 2686 TFLOP/s of 51."""
    judged = judge_clock(0.73e6, 38.8e6, 1, 38.8e6, 2.0 * 9951**3, 12.0 * 9951**2, "float32", GPU)
    assert judged.clock_factor == pytest.approx(53, rel=0.01)
    assert judged.impossible_factor == pytest.approx(2700e12 / 51e12, rel=0.02)
    assert (judged.implied, judged.scope_factor) == ("2,700 TFLOP/s", pytest.approx(1.0))


def test_a_total_of_ten_counts_ten_operations():
    """P2 at 10⁸: the printed total is short, and the product is a small part of it."""
    judged = judge_clock(0.68e6, 8.0e6, 10, 0.38e6, 2e8, 8e8, "float32", GPU)
    assert judged.clock_factor == pytest.approx(11.8, abs=0.1)
    assert judged.scope_factor == pytest.approx(8.0 / 3.8)
    assert judged.impossible_factor == pytest.approx(10 * 8e8 / 0.68e-3 / 4.29e12, rel=0.01)
    assert judged.implied.endswith("TB/s")


def test_a_fair_clock_is_fair_and_without_ceilings_nothing_is_called_impossible():
    judged = judge_clock(40e6, 40e6, 1, 39e6, 2.0 * 9951**3, 1.0, "float32", GPU)
    assert (judged.clock_factor, judged.impossible_factor) == (1.0, None)
    assert judge_clock(1.0, 40e6, 1, 39e6, 1e15, 1.0, "float32", None).impossible_factor is None
