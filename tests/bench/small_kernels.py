"""Which step of the protocol makes kernels of 4 to 60 us read otherwise here than in NVBench.

All ways to time a kernel alternate in one process, in random order, before and after each measurement of NVBench. One
line per way, as its difference from ours. What NVBench does between flush and start (host waits, hold, a small kernel
that reads the clock) is added to our way step by step.
"""

import ctypes
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tests.helpers.bench import nvbench
from tests.helpers.bench.figures import record
from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.agent.main import facts, make_machine
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import Case, Plan
from cpugpu_tui.timing.timers import Machine
from cpugpu_tui.timing.timers.cuda import SPIN_CAP_NS, spin
from cpugpu_tui.timing.timers.timed_operation import Operation
from cpugpu_tui.workloads import find

SAMPLES = 20
PASSES = 4
"""Measurements of NVBench for each kernel; all ways are timed before and after each."""

SHORT_US = 25.0
"""Longest kernel that counts in the last two columns."""

MANY = 20
"""Calls in a pair of the way that times many at once."""

HOLD_NS = 60_000.0
"""Hold for each sample behind it, ns."""

OURS, NVBENCH = "cpugpu-tui", "NVBench"

Call = Callable[[], object]


@dataclass(frozen=True)
class Way:
    """One way to time a kernel with event pairs."""

    label: str
    flush: str = "fill"
    """`fill` (torch's kernel), `memset` (the driver's, as NVBench), `twice` the L2, `read` only, or empty."""
    between: str = ""
    """After the flush: `kernel` (one block per SM), `spin 2`, `spin 20` (us), or empty."""
    after: bool = False
    """Whether a small kernel follows the end event."""
    waits: bool = False
    """Whether the host waits for the flush, and the hold comes after it, as in NVBench."""
    together: bool = False
    """Whether one hold is before all samples, instead of one before each."""
    holds: float = 1.0
    """Length of the hold relative to the usual; 0 for none."""
    side_stream: bool = False
    blocking_events: bool = False
    calls: int = 1
    """Calls in a pair."""
    inside: bool = False
    """Whether the pair includes the flush; the time of a flush alone is subtracted then."""
    before: str = ""
    """`rest` or `load` of 50 ms before."""


WAYS = (
    Way("same steps as ours, by this script"),
    Way(f"one hold for {SAMPLES} samples", together=True),
    Way(f"one hold for {SAMPLES} samples, small kernel between", between="kernel", together=True),
    Way("+ hold 4 times as long", holds=4),
    Way("no hold (plain events)", holds=0),
    Way("+ small kernel between flush and start", between="kernel"),
    Way("+ small kernel before start and after end", between="kernel", after=True),
    Way("+ spin of 2 us between flush and start", between="spin 2"),
    Way("+ spin of 20 us between flush and start", between="spin 20"),
    Way("flush by the driver's memset", flush="memset"),
    Way("flush by memset, small kernel between", flush="memset", between="kernel"),
    Way("flush of twice the L2", flush="twice"),
    Way("flush by reading", flush="read"),
    Way("flush by reading, small kernel between", flush="read", between="kernel"),
    Way("no flush (warm)", flush=""),
    Way("no flush, small kernel between", flush="", between="kernel"),
    Way("flush, host waits, hold, start", waits=True),
    Way("flush, host waits, hold, small kernel, start", waits=True, between="kernel"),
    Way("the same with memset and a small kernel after end", "memset", "kernel", after=True, waits=True),
    Way("the same on another stream", "memset", "kernel", after=True, waits=True, side_stream=True),
    Way("the same without flush", "", "kernel", after=True, waits=True),
    Way("another stream", side_stream=True),
    Way("blocking events", blocking_events=True),
    Way("flush inside the pair, minus a flush", flush="", inside=True),
    Way(f"{MANY} calls in a pair, no flush", flush="", calls=MANY),
    Way("after a rest of 50 ms", before="rest"),
    Way("after 50 ms of load", before="load"),
)


@dataclass(frozen=True)
class Kernel:
    """A call that queues one kernel into preallocated memory."""

    label: str
    call: Call
    allocating: Call
    """The same with a new result, as the tool calls it."""


class Stand:
    """The GPU's buffers and clocks that the ways need."""

    def __init__(self, machine: Machine, device: str) -> None:
        import torch

        properties = torch.cuda.get_device_properties(device)
        self.timer = machine.timer(device)
        self.side = torch.cuda.Stream()
        self._bytes = properties.L2_cache_size
        self._buffer: Any = torch.empty(-(-2 * self._bytes // 4096) * 4096, dtype=torch.int8, device=device)
        self._rows: Any = self._buffer.view(torch.int32).view(1024, -1)
        self._sums = torch.empty(1024, dtype=torch.int64, device=device)
        self._tiny = torch.empty(properties.multi_processor_count * 512, device=device)
        self._square = torch.ones(4096, 4096, dtype=torch.bfloat16, device=device)
        self._driver: Any = ctypes.CDLL("libcuda.so.1")
        # 1.98 GHz on an H200; a lower clock only makes the holds longer.
        self._cycles_per_ns = 2.0

    def flush(self, kind: str) -> None:
        """Queue a flush."""
        import torch

        if kind == "memset":
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            address = ctypes.c_uint64(self._buffer.data_ptr())
            failed = self._driver.cuMemsetD8Async(address, ctypes.c_ubyte(0), ctypes.c_size_t(self._bytes), stream)
            assert not failed, f"cuMemsetD8Async: error {failed}"
        elif kind == "read":
            torch.sum(self._rows, 1, out=self._sums)
        elif kind:
            self._buffer[: self._bytes * (2 if kind == "twice" else 1)].zero_()

    def spin_us(self, us: float) -> None:
        """Queue a spin."""
        spin(int(us * 1e3 * self._cycles_per_ns))

    def _small(self, what: str) -> None:
        if what == "kernel":
            self._tiny.zero_()
        elif what:
            self.spin_us(float(what.removeprefix("spin ")))

    def times_us(self, way: Way, call: Call) -> float:
        """Return the median of the samples of one way."""
        import torch

        if way.before == "rest":
            time.sleep(0.05)
        elif way.before == "load":
            ends = time.monotonic() + 0.05
            while time.monotonic() < ends:
                torch.matmul(self._square, self._square)
                torch.cuda.synchronize()
        if way.inside:
            with_flush = self._batches(way, lambda: (self.flush("fill"), call()))
            return with_flush - self._batches(way, lambda: self.flush("fill"))
        return self._batches(way, call)

    def _batches(self, way: Way, call: Call) -> float:
        hold_us = way.holds * (HOLD_NS * (SAMPLES if way.together else 1) + 100_000.0) / 1e3
        while True:
            samples, starved = self._batch(way, call, hold_us)
            if not starved or not hold_us or hold_us >= SPIN_CAP_NS / 1e3:
                return median(samples) / way.calls
            hold_us *= 2

    def _batch(self, way: Way, call: Call, hold_us: float) -> tuple[list[float], bool]:
        """Return one batch of samples, us, and whether the stream ran dry."""
        import torch

        cuda: Any = torch.cuda
        stream = self.side if way.side_stream else torch.cuda.current_stream()
        torch.cuda.synchronize()
        starved = False
        with torch.cuda.stream(stream):
            pairs = [
                [cuda.Event(enable_timing=True, blocking=way.blocking_events) for _ in "ab"] for _ in range(SAMPLES)
            ]
            for index, (start, end) in enumerate(pairs):
                if way.waits:
                    self.flush(way.flush)
                    stream.synchronize()
                if hold_us and (not way.together or index == 0):
                    self.spin_us(hold_us)
                if not way.waits:
                    self.flush(way.flush)
                self._small(way.between)
                start.record()
                for _ in range(way.calls):
                    call()
                end.record()
                if way.after:
                    self._small("kernel")
                starved = starved or start.query()
                if not way.together:
                    stream.synchronize()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in pairs], starved

    def ours_us(self, call: Call) -> float:
        """Return the median of the tool's own samples."""
        operation = Operation(Case("matmul", 16), find("matmul"), call, (), ())
        return median(self.timer.device_samples(operation, SAMPLES).elapsed_ns) / 1e3

    def profiled_us(self, call: Call, flush: str) -> float:
        """Return the profiler's time of one kernel, without the flush."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(SAMPLES):
                self.flush(flush)
                call()
            torch.cuda.synchronize()
        events: Any = seen.events() or ()
        found = [(each.name, each.time_range.elapsed_us()) for each in events if each.device_type.name == "CUDA"]
        return sum(us for name, us in found if not (flush and "FillFunctor" in name)) / SAMPLES


def kernels(stand: Stand, device: str) -> list[Kernel]:
    """Return nothing, a spin, and kernels of about the wanted times: sizes are found by timing."""
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
    found = [Kernel("nothing", lambda: None, lambda: None)]
    found.append(Kernel("spin 4 us", lambda: stand.spin_us(4), lambda: stand.spin_us(4)))
    for make, targets in wanted.items():
        tried: dict[int, float] = {}
        for n in (2**power for power in range(8, 27)):
            call, _ = make(n)
            call()
            tried[n] = median([stand.ours_us(call) for _ in range(3)])
            if tried[n] > 1.3 * max(targets):
                break
        chosen = dict.fromkeys(min(tried, key=lambda n, us=us: abs(tried[n] - us)) for us in targets)  # type: ignore[misc]
        found += [Kernel(f"{make.__name__} {n:,}", *make(n)) for n in chosen]
    return found


class Seen:
    """All visits: for each kernel and way, the times, us."""

    def __init__(self, stand: Stand, found: Sequence[Kernel]) -> None:
        self._stand = stand
        self._kernels = {each.label: each for each in found}
        self.us: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._random = random.Random(0)

    def visit(self, label: str) -> None:
        """Time one kernel in all ways, in random order."""
        kernel = self._kernels[label]
        stand = self._stand
        measures: list[tuple[str, Callable[[], float]]] = [
            (OURS, lambda: stand.ours_us(kernel.call)),
            ("ours, result allocated in the call", lambda: stand.ours_us(kernel.allocating)),
            *((way.label, lambda way=way: stand.times_us(way, kernel.call)) for way in WAYS),  # type: ignore[misc]
        ]
        self._random.shuffle(measures)
        for name, measure in measures:
            self.us[label][name].append(measure())


def main() -> None:
    """Print the table."""
    machine = make_machine(Plan("small kernels", (), ("auto",)), facts(simulated=False))
    if len(machine.devices) == 1:
        print(f"\nNeeds a GPU: {machine.no_gpu}")
        return
    device = machine.devices[1].name
    stand = Stand(machine, device)
    found = kernels(stand, device)
    seen = Seen(stand, found)
    for kernel in found:  # the first calls load libraries
        seen.visit(kernel.label)
        seen.us.clear()
    calls = {each.label: each.call for each in found}
    if nvbench.is_installed():
        # Half of the time for NVBench. The ways take about 0.2 s a visit.
        seconds_each = 0.3 * cap_seconds(100.0) / (PASSES * len(found))
        found_there = nvbench.cold_report(calls, seconds_each, PASSES, seen.visit)
        theirs = nvbench.cold_of(found_there)
        middle = nvbench.cold_of(found_there, nvbench.MEDIAN_TAG)
    else:
        theirs, middle = {}, {}
        for _ in range(2 * PASSES):
            for label in calls:
                seen.visit(label)
    report(seen, theirs, middle, lambda label: stand.profiled_us(calls[label], "fill"))


def report(
    seen: Seen, theirs: dict[str, list[float]], middle: dict[str, list[float]], profiled_us: Callable[[str], float]
) -> None:
    """Print all ways as differences from ours."""
    labels = list(seen.us)
    ours = {label: median(seen.us[label][OURS]) for label in labels}
    short = [label for label in labels if ours[label] <= SHORT_US and theirs.get(label)]

    def gaps(value: Callable[[str], float]) -> tuple[str, str]:
        """Return the mean and the largest difference from NVBench of the short kernels."""
        apart = [value(label) - fmean(theirs[label]) for label in short]
        return (f"{fmean(apart):+.2f}", f"{max(apart, key=abs):+.2f}") if apart else ("–", "–")

    def rows() -> Any:
        yield (f"{OURS}, us", *(f"{ours[label]:.2f}" for label in labels), *gaps(lambda label: ours[label]))
        if theirs:
            yield (f"{NVBENCH}, us", *(cell(theirs, label, fmean, "{:.2f}") for label in labels), "0", "0")
            for name, values in ((NVBENCH, theirs), (f"{NVBENCH}, its median", middle)):
                near = gaps(lambda label, values=values: fmean(values.get(label, theirs[label])))  # type: ignore[misc]
                yield (name, *(cell(values, label, lambda us, o=ours[label]: fmean(us) - o) for label in labels), *near)  # type: ignore[misc]
            spread = (cell(theirs, label, lambda us: max(us) - min(us), "{:.2f}") for label in labels)
            yield (f"{NVBENCH}, largest - smallest", *spread, "", "")
        for name in ("ours, result allocated in the call", *(way.label for way in WAYS)):
            apart = {
                label: median([a - b for a, b in zip(seen.us[label][name], seen.us[label][OURS], strict=True)])
                for label in labels
            }
            near = gaps(lambda label, apart=apart: ours[label] + apart[label])  # type: ignore[misc]
            yield (name, *(f"{apart[label]:+.2f}" for label in labels), *near)
        profiled = {label: profiled_us(label) for label in labels}  # last: the profiler slows later launches
        near = gaps(lambda label: profiled[label])
        yield ("profiler, after a flush", *(f"{profiled[label] - ours[label]:+.2f}" for label in labels), *near)

    title = (
        f"Difference from ours, us; medians of {len(next(iter(seen.us.values()))[OURS])} visits of {SAMPLES} samples"
    )
    table(title, ("way", *labels, "mean - NVBench", "largest - NVBench"), rows())
    both = [label for label in labels if label != "nothing" and theirs.get(label)]
    if both:
        percents = [100 * (ours[label] / fmean(theirs[label]) - 1) for label in both]
        shortest, longest = (end(ours[label] for label in both) for end in (min, max))
        record(
            "GPU time against NVBench in the same process, short kernels",
            f"{min(percents):+.1f} to {max(percents):+.1f} %, ".replace("-", "−")
            + f"{len(both)} kernels of {shortest:.0f} to {longest:.0f} µs",
        )


def cell(
    values: dict[str, list[float]], label: str, number: Callable[[list[float]], float], form: str = "{:+.2f}"
) -> str:
    """Return a number of a kernel's values; a dash where NVBench skipped it."""
    return form.format(number(values[label])) if values.get(label) else "–"


if __name__ == "__main__":
    main()
