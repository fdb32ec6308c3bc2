"""GPU time of kernels of 2 to 60 us, against NVBench in the same process.

Before and after each measurement of NVBench the kernel is timed in our ways, in random order. One line per way, as its
difference from ours. "One hold" queues all samples behind one hold, where ours waits after each sample.
"""

import random
from collections import defaultdict
from collections.abc import Callable
from statistics import fmean
from typing import Any

from tests.helpers.bench import nvbench
from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.agent.main import facts, make_machine
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import Case, Plan
from cpugpu_tui.timing.timers.cuda import spin
from cpugpu_tui.timing.timers.timed_operation import Operation
from cpugpu_tui.workloads import find

SAMPLES = 20
PASSES = 4
"""Measurements of NVBench for each kernel; all ways are timed before and after each."""

SHORT_US = 25.0
"""Longest kernel that counts in the last two columns."""

CYCLES_PER_US = 2000
"""1.98 GHz on an H200; a lower clock only makes the holds longer."""

OURS, ALLOCATING, ONE_HOLD = "cpugpu-tui", "ours, result allocated in the call", f"one hold for {SAMPLES} samples"

Call = Callable[[], object]


def ours_us(timer: Any, call: Call) -> float:
    """Return the median of the tool's own samples."""
    operation = Operation(Case("matmul", 16), find("matmul"), call, (), ())
    return median(timer.device_samples(operation, SAMPLES).elapsed_ns) / 1e3


def one_hold_us(timer: Any, call: Call) -> float:
    """Return the median of samples that are all queued before the first begins."""
    import torch

    hold_us, starved = 1300, True
    while starved and hold_us < 40_000:
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(SAMPLES)]
        torch.cuda.synchronize()
        spin(hold_us * CYCLES_PER_US)
        for start, end in pairs:
            timer._flush_target().zero_()
            start.record()
            call()
            end.record()
        starved = pairs[0][0].query()
        torch.cuda.synchronize()
        hold_us *= 2
    return median([start.elapsed_time(end) for start, end in pairs]) * 1e3


def profiled_us(timer: Any, call: Call) -> float:
    """Return the profiler's time of one kernel, without the flush."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(SAMPLES):
            timer._flush_target().zero_()
            call()
        torch.cuda.synchronize()
    events: Any = seen.events() or ()
    found = [(each.name, each.time_range.elapsed_us()) for each in events if each.device_type.name == "CUDA"]
    return sum(us for name, us in found if "FillFunctor" not in name) / SAMPLES


def kernels(timer: Any, device: str) -> dict[str, tuple[Call, Call]]:
    """Return nothing, a spin, and kernels of about the wanted times, whose sizes are found by timing.

    The first call of each queues one kernel into preallocated memory, the second allocates its result.
    """
    import torch

    def add(n: int) -> tuple[Call, Call]:
        a, b, c = (torch.ones(n, device=device) for _ in range(3))
        return lambda: torch.add(a, b, out=c), lambda: torch.add(a, b)

    def matmul(n: int) -> tuple[Call, Call]:
        side = max(16, int(n**0.5) // 16 * 16)
        a, b, c = (torch.ones(side, side, device=device) for _ in range(3))
        return lambda: torch.matmul(a, b, out=c), lambda: torch.matmul(a, b)

    def summed(n: int) -> tuple[Call, Call]:
        a, b = torch.ones(max(1, n // 1024), 1024, device=device), torch.ones(max(1, n // 1024), device=device)
        return lambda: torch.sum(a, 1, out=b), lambda: torch.sum(a, 1)

    def softmax(n: int) -> tuple[Call, Call]:
        a, b = (torch.ones(max(1, n // 1024), 1024, device=device) for _ in range(2))
        return lambda: torch.softmax(a, 1, out=b), lambda: torch.softmax(a, 1)

    wanted: dict[Any, tuple[float, ...]] = {add: (2, 6, 20), matmul: (4, 12, 60), summed: (8, 20), softmax: (6, 12)}
    found: dict[str, tuple[Call, Call]] = {
        "nothing": (lambda: None,) * 2, "spin 4 us": (lambda: spin(4 * CYCLES_PER_US),) * 2,
    }  # fmt: skip
    for make, targets in wanted.items():
        tried: dict[int, float] = {}
        for n in (2**power for power in range(8, 27)):
            call, _ = make(n)
            call()
            tried[n] = median([ours_us(timer, call) for _ in range(3)])
            if tried[n] > 1.3 * max(targets):
                break
        chosen = dict.fromkeys(min(tried, key=lambda n, us=us: abs(tried[n] - us)) for us in targets)  # type: ignore[misc]
        found |= {f"{make.__name__} {n:,}": make(n) for n in chosen}
    return found


def main() -> None:
    """Print the table."""
    machine = make_machine(Plan("small kernels", (), ("auto",)), facts(simulated=False))
    if len(machine.devices) == 1:
        print(f"\nNeeds a GPU: {machine.no_gpu}")
        return
    timer: Any = machine.timer(machine.devices[1].name)
    found = kernels(timer, machine.devices[1].name)
    seen: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    order = random.Random(0)

    def visit(label: str) -> None:
        call, allocating = found[label]
        ways = [(OURS, ours_us, call), (ALLOCATING, ours_us, allocating), (ONE_HOLD, one_hold_us, call)]
        for name, measure, timed in order.sample(ways, len(ways)):
            seen[label][name].append(measure(timer, timed))

    for label in found:  # the first calls load libraries
        visit(label)
    seen.clear()
    calls = {label: call for label, (call, _) in found.items()}
    theirs: dict[str, list[float]] = {}
    middle: dict[str, list[float]] = {}
    if nvbench.is_installed():
        report = nvbench.cold_report(calls, 0.5 * cap_seconds(100.0) / (PASSES * len(found)), PASSES, visit)
        theirs, middle = nvbench.cold_of(report), nvbench.cold_of(report, nvbench.MEDIAN_TAG)
    else:
        for label in [*found] * (2 * PASSES):
            visit(label)
    ours = {label: median(ways[OURS]) for label, ways in seen.items()}
    values = {
        "NVBench": {label: fmean(us) for label, us in theirs.items()},
        "NVBench, its median": {label: fmean(us) for label, us in middle.items()},
        **{name: {label: ours[label] + apart_us(ways, name) for label, ways in seen.items()}
           for name in (ALLOCATING, ONE_HOLD)},
        # Last, because the profiler slows later launches.
        "profiler, after a flush": {label: profiled_us(timer, call) for label, call in calls.items()},
    }  # fmt: skip
    print_table(ours, {name: us for name, us in values.items() if us}, theirs)


def apart_us(ways: dict[str, list[float]], name: str) -> float:
    """Return the median difference of a way from ours."""
    return median([a - b for a, b in zip(ways[name], ways[OURS], strict=True)])


def print_table(ours: dict[str, float], values: dict[str, dict[str, float]], theirs: dict[str, list[float]]) -> None:
    """Print all ways as differences from ours, us, and record how far ours is from NVBench.

    A dash stands for a kernel that NVBench skipped.
    """
    short = [label for label in ours if ours[label] <= SHORT_US and theirs.get(label)]

    def gaps(us: dict[str, float]) -> tuple[str, str]:
        """Return the mean and the largest difference from NVBench of the short kernels."""
        apart = [us[label] - fmean(theirs[label]) for label in short]
        return (f"{fmean(apart):+.2f}", f"{max(apart, key=abs):+.2f}") if apart else ("–", "–")

    lines = [(f"{OURS}, us", *(f"{us:.2f}" for us in ours.values()), *gaps(ours))]
    for name, us in values.items():
        lines.append((name, *(f"{us[each] - ours[each]:+.2f}" if each in us else "–" for each in ours), *gaps(us)))
    table("Difference from ours, us", ("way", *ours, "mean - NVBench", "largest - NVBench"), lines)
    both = [label for label in ours if label != "nothing" and theirs.get(label)]
    if both:
        percents = [100 * (ours[label] / fmean(theirs[label]) - 1) for label in both]
        shortest, longest = (end(ours[label] for label in both) for end in (min, max))
        record(
            "GPU time against NVBench in the same process, short kernels",
            f"{min(percents):+.1f} to {max(percents):+.1f} %, ".replace("-", "−")
            + f"{len(both)} kernels of {shortest:.0f} to {longest:.0f} µs",
        )


if __name__ == "__main__":
    main()
