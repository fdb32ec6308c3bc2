"""Agreement of our times with those of established tools, in the same process and run.

CPU: `torch.utils.benchmark.Timer` with the same number of threads (its default is one).
GPU: the same Timer, `triton.testing.do_bench` and `do_bench_cudagraph`, NVBench's cold time (or its times from an H200,
method.md), and torch's profiler. The profiler comes last, because it slows later launches of the process by 30 %.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.helpers.bench import nvbench
from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import Ratio, SideBySide, cap_seconds, range_text, side_by_side, table

from cpugpu_tui.agent.main import facts, make_machine
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import Case, Plan
from cpugpu_tui.timing.timers import Machine, Timer
from cpugpu_tui.timing.timers.timed_operation import Operation
from cpugpu_tui.timing.warm_up import block_calls

CPU_CASES = (
    *(Case("matmul", n) for n in (64, 128, 256, 512, 1024)),
    *(Case("elementwise", n, variant="out") for n in (10**4, 10**6)),
)
GPU_CASES = (
    *(Case("matmul", n) for n in (16, 64, 256, 512, 1024, 2048, 4096)),
    *(Case("elementwise", n, variant="out") for n in (10**4, 10**6, 10**8)),
)
STATEMENTS = {"matmul": "torch.matmul(a, b)", "elementwise": "torch.addcmul(a, b, c, out=d)"}
"""Workload → statement for the Timer; for others it calls the step."""

NVBENCH_COLD_US = {16: 4.99, 64: 6.99, 256: 11.7, 512: 17.3, 1024: 64.0, 2048: 345.4, 4096: 2688.0}
"""n → cold time of a float32 matmul on an H200 by `cuda-bench`, µs (method.md)."""

PROMISED_FROM_US = 50.0
"""Shortest kernel time for which agreement is promised: an event pair alone takes 1.25 µs (method.md)."""

NO_PROMISE = f"""
Agreement is not promised for kernel times below {PROMISED_FROM_US:g} us. An event pair adds 1.25 us and the start and
end of a kernel. In a captured graph, kernels follow each other without these."""

PROMISED: defaultdict[str, list[Ratio]] = defaultdict(list)
"""Tool → the ratios ours / theirs for which agreement is promised, filled as rows are printed."""

KNOWN_PCT = 1.0
HEADER = ("case", "ours", "us", "theirs", "us", "ours / theirs", "promised", "holds")


@dataclass(frozen=True)
class Subject:
    """A case on one device, loaded and warmed up."""

    case: Case
    timer: Timer
    operation: Operation
    calls: int
    """Calls in a block of 2 ms."""

    @property
    def label(self) -> str:
        """Return workload and size, such as `matmul 64`."""
        return f"{self.case.workload} {self.case.size:,}"

    def step(self) -> Any:
        """Call the operation as the timers do."""
        return self.operation.step(*self.operation.inputs)

    def latency_us(self) -> float:
        """Return the median of 20 blocks after a discarded one."""
        blocks = [self.timer.latency_block(self.operation, self.calls) for _ in range(21)]
        return median(blocks[1:]) / 1e3

    def throughput_us(self) -> float:
        """Return the median of five blocks of queued calls after a discarded one."""
        blocks = [self.timer.throughput_block(self.operation, self.calls) or 0.0 for _ in range(6)]
        return median(blocks[1:]) / 1e3

    def device_us(self) -> float:
        """Return the median of 20 kernel times."""
        self.timer.latency_block(self.operation, 5)
        return median(self.timer.device_samples(self.operation, 20).elapsed_ns) / 1e3


def loaded(machine: Machine, device: str, case: Case) -> Subject:
    """Return the case on a device, after 50 calls."""
    timer = machine.timer(device)
    operation = timer.load(case, machine.make_inputs(case))
    timer.first_call(operation)
    timer.ready(operation, 1)
    estimate_ns = [timer.latency_block(operation, 1) for _ in range(50)][-1]
    return Subject(case, timer, operation, block_calls(estimate_ns))


def main() -> None:
    """Print the tables of CPU, GPU, NVBench and profiler."""
    environment = facts(simulated=False)
    plan = Plan("agreement", (), ("auto",))
    machine = make_machine(plan, environment)
    cap_s = cap_seconds(240.0) / (2 if len(machine.devices) > 1 else 1)
    with_cap = partial(side_by_side, half_width_pct=KNOWN_PCT, cap_s=cap_s / len(CPU_CASES))
    table("CPU, against torch.utils.benchmark.Timer", HEADER, (cpu_row(machine, case, with_cap) for case in CPU_CASES))
    products = [
        ratio for case, ratio in zip(CPU_CASES, PROMISED["Timer.timeit"], strict=True) if case.workload == "matmul"
    ]
    record("CPU latency against `torch.utils.benchmark`: matmul of n = 64 to 1,024, all threads", range_text(products))
    if len(machine.devices) == 1:
        print(f"\nWithout GPU tables: {machine.no_gpu}")
        return
    device = machine.devices[1]
    warm = make_machine(replace(plan, devices=(device.name,), cache="warm"), environment)
    with_cap = partial(side_by_side, half_width_pct=KNOWN_PCT, cap_s=cap_s / (5 * len(GPU_CASES)))
    table(
        f"{device.label}, against other tools",
        HEADER,
        (row for case in GPU_CASES for row in gpu_rows(machine, warm, device.name, case, with_cap)),
    )
    print(NO_PROMISE)
    subjects = [loaded(machine, device.name, case) for case in GPU_CASES]
    graphs_us = [graph_us(each) for each in subjects]
    table("NVBench, cold", HEADER, nvbench_rows(subjects, cap_s / (5 * len(GPU_CASES))))
    table(
        "Kernels of one call, by the profiler",
        HEADER,
        (row for each, us in zip(subjects, graphs_us, strict=True) for row in kernel_rows(each, us)),
    )
    if nvbench.is_installed():
        record(
            "GPU time against NVBench in the same process, kernels of 50 µs and more", range_text(PROMISED["NVBench"])
        )
    if PROMISED["triton do_bench"]:
        record(
            "GPU time against `triton.testing.do_bench`, kernels of 50 µs and more",
            range_text(PROMISED["triton do_bench"]),
        )
    record(
        "Kernel time of one profiled call against the mean of 20 calls in torch's profiler",
        range_text(PROMISED["torch.profiler, 20 calls"]),
    )


def cpu_row(machine: Machine, case: Case, compared: Callable[..., SideBySide]) -> tuple[str, ...]:
    """Alternate our median of blocks with the Timer's.

    Its blocks have as many calls as ours: on a shared machine longer ones are interrupted more often (15 to 35 % slower
    at a load of 9).
    """
    subject = loaded(machine, "cpu", case)
    timer = torch_timer(subject, subject.timer.threads())

    def theirs_us() -> float:
        return median([timer.timeit(subject.calls).mean for _ in range(20)]) * 1e6

    return row(subject, "latency", "Timer.timeit", compared(subject.latency_us, theirs_us), 5.0)


def torch_timer(subject: Subject, threads: int) -> Any:
    """Return torch's own Timer of the same operation on the same tensors."""
    import torch
    from torch.utils.benchmark import Timer as TorchTimer

    # Some workloads pass torch's function as an argument, so that the step needs no import.
    tensors = (each for each in subject.operation.inputs if isinstance(each, torch.Tensor))
    names = dict(zip("abcd", tensors, strict=False))
    return TorchTimer(
        STATEMENTS.get(subject.case.workload, "step(*inputs)"), num_threads=threads,
        globals={"torch": torch, "step": subject.operation.step, "inputs": subject.operation.inputs, **names},
    )  # fmt: skip


def gpu_rows(
    machine: Machine, warm_machine: Machine, device: str, case: Case, compared: Callable[..., SideBySide]
) -> Iterator[tuple[str, ...]]:
    """Alternate each of our times with the tools that measure the same."""
    subject, warm = loaded(machine, device, case), loaded(warm_machine, device, case)
    timer = torch_timer(subject, subject.timer.threads())

    def single_us() -> float:
        return median([timer.timeit(1).mean for _ in range(50)]) * 1e6

    yield row(subject, "latency", "Timer.timeit(1)", compared(subject.latency_us, single_us), 10.0)
    queued = compared(subject.throughput_us, lambda: timer.blocked_autorange(min_run_time=0.05).median * 1e6)
    yield row(subject, "throughput", "Timer.blocked_autorange", queued, 10.0)
    try:
        from triton.testing import do_bench, do_bench_cudagraph
    except ImportError:
        return
    cold = compared(subject.device_us, lambda: float(do_bench(subject.step, return_mode="median")) * 1e3)
    yield row(subject, "device, cold", "triton do_bench", cold, promise(cold, 5.0))
    graph = compared(warm.device_us, lambda: float(do_bench_cudagraph(warm.step, return_mode="median")) * 1e3)
    yield row(subject, "device, warm", "do_bench_cudagraph", graph, promise(graph, 10.0))


def nvbench_rows(subjects: list[Subject], seconds_each: float) -> Iterator[tuple[str, ...]]:
    """Compare our cold times with NVBench's, measured here or on an H200."""
    ours_us = {subject.label: [subject.device_us() for _ in range(5)] for subject in subjects}
    if nvbench.is_installed():
        who, theirs_us = (
            "NVBench",
            nvbench.cold_us({each.label: without_allocation(each) for each in subjects}, seconds_each),
        )
    else:
        who, theirs_us = "NVBench on an H200", {f"matmul {n:,}": us for n, us in NVBENCH_COLD_US.items()}
    for subject in subjects:
        if subject.label in theirs_us:
            # Measured before and after NVBench, to cancel drift.
            mine = iter([*ours_us[subject.label], *(subject.device_us() for _ in range(5))])
            found = once(partial(next, mine), partial(float, theirs_us[subject.label]))
            yield row(subject, "device, cold", who, found, promise(found, 5.0))


def once(ours: Callable[[], float], theirs: Callable[[], float]) -> SideBySide:
    """Return the ratio over the fewest pairs that have an interval."""
    return side_by_side(ours, theirs, half_width_pct=math.inf, cap_s=0.0)


def without_allocation(subject: Subject) -> Callable[[], Any]:
    """Return a call that writes into preallocated memory."""
    operation = subject.operation
    keywords = {"out": operation.step(*operation.inputs)} if operation.takes_out else {}
    return lambda: operation.step(*operation.inputs, **keywords)


def graph_us(subject: Subject) -> float | None:
    """Return the time per call in a captured graph of many calls, µs; None without triton."""
    try:
        from triton.testing import do_bench_cudagraph
    except ImportError:
        return None
    return median([float(do_bench_cudagraph(subject.step, return_mode="median")) for _ in range(3)]) * 1e3


def kernel_rows(subject: Subject, in_graph_us: float | None) -> Iterator[tuple[str, ...]]:
    """Compare our profile of one call with torch's profile of 20 calls, and with calls in a graph."""

    def ours_us() -> float:
        kernels = subject.timer.kernels(subject.operation)
        return kernels.elapsed_ns / 1e3 if kernels is not None else float("nan")

    found = once(ours_us, lambda: profiled_us(subject, 20))
    yield row(subject, "kernels", "torch.profiler, 20 calls", found, 10.0)
    if in_graph_us is not None:
        yield row(subject, "kernels", "do_bench_cudagraph", once(ours_us, partial(float, in_graph_us)), 10.0)


def profiled_us(subject: Subject, calls: int) -> float:
    """Return the GPU time per call from the sums of torch's profiler, µs."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            subject.step()
        torch.cuda.synchronize()
    return sum(float(entry.self_device_time_total) for entry in seen.key_averages()) / calls


def promise(found: SideBySide, allowed_pct: float) -> float | None:
    """Return the promised agreement of a kernel time in percent; None for short kernels."""
    return allowed_pct if found.theirs >= PROMISED_FROM_US else None


def row(subject: Subject, ours: str, theirs: str, found: SideBySide, allowed_pct: float | None) -> tuple[str, ...]:
    """Return a line of the table."""
    promised = "–" if allowed_pct is None else f"±{allowed_pct:g} %"
    if allowed_pct is not None:
        PROMISED[theirs].append(found.ratio)
    return (
        subject.label, ours, f"{found.ours:.2f}", theirs, f"{found.theirs:.2f}", found.ratio.text(),
        promised, found.holds(allowed_pct),
    )  # fmt: skip


if __name__ == "__main__":
    main()
