"""Do our numbers agree with those of tools that people trust, in the same process and run?

CPU: `torch.utils.benchmark.Timer` with the same thread count (its default is one thread).
GPU: `triton.testing.do_bench`, and NVBench's cold column as it was measured on an H200 (METHOD.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cpugpu_tui.analysis.stats import median
from cpugpu_tui.bench.environment import facts
from cpugpu_tui.bench.point import block_calls
from cpugpu_tui.bench.torch_machine import TorchMachine
from cpugpu_tui.bench.worker import make_machine
from cpugpu_tui.model import Case, Plan
from tests.bench.ratios import alternate, table

CPU_SIZES = (64, 128, 256, 512, 1024)
GPU_SIZES = (16, 64, 256, 512, 1024, 2048, 4096)
NVBENCH_COLD_US = {16: 4.99, 64: 6.99, 256: 11.7, 512: 17.3, 1024: 64.0, 2048: 345.4, 4096: 2688.0}
"""H200, float32 matmul, `cuda-bench` cold; METHOD.md."""


def main() -> None:
    """Print both tables."""
    import torch

    environment = facts(simulated=False)
    plan = Plan("agreement", (), ("auto",))
    machine = make_machine(plan, environment)
    assert isinstance(machine, TorchMachine)
    table(
        f"CPU latency against torch.utils.benchmark, {torch.get_num_threads()} threads, torch {torch.__version__}",
        ("n", "ours, us", "Timer, us", "ours / Timer", "known to 1 %"),
        (cpu_row(machine, n) for n in CPU_SIZES),
    )
    if len(machine.devices) > 1:
        table(
            f"GPU device time (cold) on {machine.devices[1].label}",
            ("n", "ours, us", "do_bench, us", "ours / do_bench", "NVBench on an H200, us", "ours / NVBench"),
            (gpu_row(machine, n) for n in GPU_SIZES),
        )
    else:
        print(f"\nNo GPU part: {machine.no_gpu}")


def cpu_row(machine: TorchMachine, n: int) -> tuple[str, ...]:
    """Alternate our block median with the Timer's."""
    import torch
    from torch.utils.benchmark import Timer

    case = Case("matmul", n)
    inputs = machine.make_inputs(case)
    timer = machine.timer("cpu")
    operation = timer.load(case, inputs)
    timer.first_call(operation)
    for _ in range(50):
        estimate_ns = timer.latency_block(operation, 1)
    calls = block_calls(estimate_ns)
    theirs = Timer(
        "torch.matmul(a, b)", globals={"torch": torch, "a": inputs[0], "b": inputs[1]},
        num_threads=torch.get_num_threads(),
    )  # fmt: skip
    seen: dict[str, list[float]] = {"ours": [], "theirs": []}

    def ours_ns() -> float:
        timer.latency_block(operation, calls)
        value = median([timer.latency_block(operation, calls) for _ in range(40)])
        seen["ours"].append(value)
        return value

    def theirs_ns() -> float:
        value = theirs.blocked_autorange(min_run_time=0.1).median * 1e9
        seen["theirs"].append(value)
        return value

    ratio, known = alternate(ours_ns, theirs_ns, half_width_pct=1.0, cap_s=20)
    return (
        str(n), f"{median(seen['ours']) / 1e3:.2f}", f"{median(seen['theirs']) / 1e3:.2f}", ratio.text(),
        "yes" if known else "no (cap)",
    )  # fmt: skip


def gpu_row(machine: TorchMachine, n: int) -> tuple[str, ...]:
    """Compare our cold device time with do_bench in this process, and with NVBench's recorded figure."""
    case = Case("matmul", n)
    timer = machine.timer("cuda:0")
    operation = timer.load(case, machine.make_inputs(case))
    timer.first_call(operation)
    for _ in range(200):
        timer.latency_block(operation, 1)
    bench = do_bench()
    pairs = []
    for _ in range(10):
        timer.latency_block(operation, 5)
        ours_us = median(timer.device_samples(operation, 20).elapsed_ns) / 1e3
        theirs_us = bench(lambda: operation.step(*operation.inputs)) if bench else float("nan")
        pairs.append((ours_us, theirs_us))
    ours_us = median([a for a, _ in pairs])
    theirs_us = median([b for _, b in pairs])
    reference_us = NVBENCH_COLD_US[n]
    return (
        str(n), f"{ours_us:.2f}", f"{theirs_us:.2f}", f"{ours_us / theirs_us:.3f}",
        f"{reference_us:.2f}", f"{ours_us / reference_us:.3f}",
    )  # fmt: skip


def do_bench() -> Callable[[Callable[[], Any]], float] | None:
    """Return triton's do_bench in microseconds, or None where triton is not installed."""
    try:
        from triton.testing import do_bench as triton_bench
    except ImportError:
        return None
    return lambda call: float(triton_bench(call, return_mode="median")) * 1e3
