"""The GPU's gauge, without a GPU: precision, inputs, and launches on a held stream."""

from typing import Any

import pytest
import torch

from cpugpu_tui.model import Device
from cpugpu_tui.timing import gauges
from cpugpu_tui.timing.gauges import LAUNCHES, TRIES, CudaGauge, block_ns, timed_ns


class Log(list[str]):
    """A stream that records synchronisations."""

    def synchronize(self):
        self.append("wait")


@pytest.fixture
def gauge():
    """A gauge whose GPU is the host."""
    made, log = CudaGauge.__new__(CudaGauge), Log()  # __init__ creates a CUDA context
    made.device, made._stream = Device("cpu", "no GPU"), log
    return made, log


@pytest.mark.parametrize("inherited", [False, True])
@pytest.mark.parametrize(("dtype", "tf32"), [("float32", False), ("tf32", True), ("float64", False)])
def test_tf32_is_on_for_its_own_products_alone_and_put_back(gauge, monkeypatch, dtype, tf32, inherited):
    made, _ = gauge
    seen: list[tuple[bool, Any]] = []

    def hardware_ns(call):
        seen.append((torch.backends.cuda.matmul.allow_tf32, call()))
        raise RuntimeError("also after a failure")

    monkeypatch.setattr(made, "_hardware_ns", hardware_ns)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", inherited)
    with pytest.raises(RuntimeError, match="also"):
        made.matmul_ns(dtype, 16)
    ((state, result),) = seen
    assert state is tf32
    assert result.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert result.count_nonzero() == 16 * 16
    assert torch.backends.cuda.matmul.allow_tf32 is inherited


def test_launches_are_timed_behind_a_stream_that_is_held(gauge, monkeypatch):
    made, log = gauge
    monkeypatch.setattr(gauges, "spin", lambda cycles: log.append("hold"))
    monkeypatch.setattr(made, "_smallest", lambda: lambda: log.append("launch"))
    assert made.launch_ns() > 0
    block = ["wait", "hold", *["launch"] * LAUNCHES]
    assert list(log) == block * (1 + TRIES) + ["wait"]


def test_a_round_trip_waits_for_every_launch(gauge, monkeypatch):
    made, log = gauge
    monkeypatch.setattr(made, "_smallest", lambda: lambda: log.append("launch"))
    made.round_trip_ns()
    assert (log[::2], log[1::2]) == (["launch"] * (len(log) // 2), ["wait"] * (len(log) // 2))


@pytest.mark.parametrize("direction", ["h2d_pageable", "d2h_pageable"])
def test_a_copy_over_the_cable_is_waited_for(gauge, direction):
    made, log = gauge
    assert made.transfer_ns(direction, 64) > 0
    assert len(log) > TRIES, "small copies are timed more often"


def test_an_interruption_is_not_the_time_of_a_call(monkeypatch):
    now = iter([0, 100, 200, 90_000, 100_000, 100_102])
    monkeypatch.setattr(gauges, "perf_counter_ns", lambda: next(now))
    called: list[None] = []
    assert timed_ns(lambda: called.append(None)) == 102
    assert len(called) == 1 + TRIES
    now = iter([0, 1000, 2000, 3100, 4000, 5200])
    assert block_ns(lambda: called.append(None), 10) == 110
