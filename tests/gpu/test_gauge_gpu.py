"""On a real GPU: the calibration is repeatable, has no side effects, and frees its memory."""

import pytest

from cpugpu_tui.agent.main import facts, work
from cpugpu_tui.model import CeilingsMeasured, Event, Plan
from cpugpu_tui.timing.channel import CallEmitter, Control

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


@pytest.fixture(scope="module")
def gpu():
    """Peak rates of the first GPU."""
    events: list[Event] = []
    plan = Plan("machine", (), devices=("cuda:0",), calibrate=True)
    assert work(plan, facts(simulated=False), CallEmitter(events.append), Control())
    assert events[-1].status == "done", events[-1].message
    (measured,) = [event for event in events if isinstance(event, CeilingsMeasured)]
    return measured.ceilings


def test_a_round_trip_is_a_launch_and_a_wait(gpu):
    assert 1e3 < gpu.launch_ns < 1e5
    assert max(gpu.launch_ns, gpu.synchronize_ns) < gpu.round_trip_ns < 3 * (gpu.launch_ns + gpu.synchronize_ns)


def test_tensor_cores_are_faster_than_float32(gpu):
    assert gpu.flops["tf32"] > 1.5 * gpu.flops["float32"]
    assert gpu.flops["bfloat16"] > 1.2 * gpu.flops["tf32"]
    assert set(gpu.flops) == {"float32", "tf32", "bfloat16", "float16", "float64"}


def test_the_cable_is_slower_than_the_memory_and_pinned_is_faster(gpu):
    for way in ("h2d", "d2h"):
        pageable, pinned = gpu.transfers[f"{way}_pageable"], gpu.transfers[f"{way}_pinned"]
        assert pageable.bytes_per_s < 1.05 * pinned.bytes_per_s < gpu.copy_bytes_per_s
        assert 1e3 < pinned.alpha_ns < 1e5


def test_memory_is_given_back_and_the_precision_put_back(gpu):
    import torch

    assert torch.cuda.memory_reserved() < 1 << 28, "cuBLAS keeps a workspace of some 32 MiB"
    assert torch.backends.cuda.matmul.allow_tf32 is False
