"""The machine card: what a CPU, a GPU and the cable between them can do, in lines that a newcomer reads in seconds."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.analysis.quantities import duration, significant, time_text
from cpugpu_tui.model import Ceilings

Part = tuple[str, str]
"""(text, role); roles are `title`, `text`, `muted`, `cpu`, `gpu`, `strong`."""

LABEL, VALUE = 19, 34
"""Cells left and right of the bars; the bars take what is left of the width."""

MOST_BAR, LEAST_BAR = 40, 8

MEGABYTE = 1e6


def card(known: Sequence[Ceilings], width: int, now_wall_ns: int, *, unicode: bool = True) -> list[list[Part]]:
    """Return the card of one machine: its CPU and its first GPU, if they were measured.

    `width` is the room in cells, `now_wall_ns` the time against which the age is told.
    """
    cpu = next((found for found in known if found.device == "cpu"), None)
    gpu = next((found for found in known if found.device != "cpu"), None)
    bar = _bars(width, unicode=unicode)
    lines: list[list[Part]] = []
    for found in (cpu, gpu):
        if found is not None:
            lines += [*_device(found, cpu, gpu, bar), []]
    if gpu is not None:
        lines += [*_cable(gpu, cpu, bar), [], *_costs(gpu, cpu, bar), []]
    lines += [[(sentence, "strong" if index == 0 else "text")] for index, sentence in enumerate(sentences(cpu, gpu))]
    for found in (cpu, gpu):
        if found is not None:
            lines.append([(_age(found, now_wall_ns), "muted")])
    return lines


class _bars:
    """Draws bars of a common length."""

    def __init__(self, width: int, *, unicode: bool) -> None:
        self.room = max(LEAST_BAR, min(MOST_BAR, width - LABEL - VALUE))
        self.sign = "█" if unicode else "#"

    def __call__(self, label: str, value: float, most: float, text: str, role: str) -> list[Part]:
        cells = max(1, round(self.room * value / most)) if most > 0 else 1
        return [(f"  {label:<{LABEL - 2}}", "text"), (f"{self.sign * cells:<{self.room}}", role), (f" {text}", "text")]


def newest(known: Sequence[Ceilings]) -> tuple[Ceilings, ...]:
    """Return the newest of each device, of the torch build that was measured last."""
    by_age = sorted(known, key=lambda found: found.measured_wall_ns)
    return tuple({found.device: found for found in by_age if found.torch == by_age[-1].torch}.values())


def _role(found: Ceilings) -> str:
    return "cpu" if found.device == "cpu" else "gpu"


def _device(found: Ceilings, cpu: Ceilings | None, gpu: Ceilings | None, bar: _bars) -> list[list[Part]]:
    """Return a device's heading, its float32 rate, its memory, and its other dtypes."""
    both = [each for each in (cpu, gpu) if each is not None]
    most_flops = max(each.flops.get("float32", 0.0) for each in both)
    most_bytes = max(each.copy_bytes_per_s for each in both)
    role, is_cpu = _role(found), found.device == "cpu"
    threads = f"  {found.threads} thread{'s' if found.threads != 1 else ''}" if is_cpu else ""
    rate = found.flops.get("float32", 0.0)
    times = "" if is_cpu or cpu is None else "  x{} the CPU"

    def ratio(mine: float, other: float) -> str:
        return times.format(significant(mine / other)) if times and other else ""

    cpu_rate = cpu.flops.get("float32", 0.0) if cpu is not None else 0.0
    cpu_copy = cpu.copy_bytes_per_s if cpu is not None else 0.0
    lines: list[list[Part]] = [
        [("CPU " if is_cpu else "GPU ", role), (found.label, "strong"), (threads, "muted")],
        bar("computes", rate, most_flops, f"{_flops(rate)}{ratio(rate, cpu_rate)}", role),
        bar("its memory", found.copy_bytes_per_s, most_bytes,
            f"{_bytes(found.copy_bytes_per_s)}{ratio(found.copy_bytes_per_s, cpu_copy)}", role),
    ]  # fmt: skip
    others = [f"{dtype} {_flops(value)}" for dtype, value in found.flops.items() if dtype != "float32"]
    if others:
        lines.append([(f"  {'':<{LABEL - 2}}", "text"), (", ".join(others), "muted")])
    return lines


def _cable(gpu: Ceilings, cpu: Ceilings | None, bar: _bars) -> list[list[Part]]:
    """Return the cable's bars, on the scale of the slower memory that it joins."""
    if not gpu.transfers:
        return []
    most = max([line.bytes_per_s for line in gpu.transfers.values()] + ([cpu.copy_bytes_per_s] if cpu else []))
    words = {"h2d": "to the GPU", "d2h": "back"}
    lines: list[list[Part]] = [[("The cable between them", "title")]]
    for name, line in gpu.transfers.items():
        way, _, memory = name.partition("_")
        text = f"{_bytes(line.bytes_per_s)}, {memory}, +{time_text(line.alpha_ns)}"
        lines.append(bar(words.get(way, way), line.bytes_per_s, most, text, "text"))
    return lines


def _costs(gpu: Ceilings, cpu: Ceilings | None, bar: _bars) -> list[list[Part]]:
    """Return what it costs to ask, whatever is asked."""
    costs = [
        ("one launch", gpu.launch_ns),
        ("one synchronise", gpu.synchronize_ns),
        ("one round trip", gpu.round_trip_ns),
    ]
    if cpu is not None:
        costs.append(("one CPU call", cpu.launch_ns))
    known = [(label, value) for label, value in costs if value is not None]
    most = max(value for _, value in known)
    lines: list[list[Part]] = [[("What asking costs, however small the work", "title")]]
    for label, value in known:
        lines.append(bar(label, value, most, time_text(value), "cpu" if label == "one CPU call" else "gpu"))
    return lines


def sentences(cpu: Ceilings | None, gpu: Ceilings | None) -> list[str]:
    """Return in words why small work loses on the GPU, from the numbers."""
    if cpu is None or gpu is None or gpu.round_trip_ns is None or not cpu.flops.get("float32"):
        return ["Without a measured GPU there is nothing to compare."] if gpu is None else []
    operations = gpu.round_trip_ns * cpu.flops["float32"] / 1e9
    side = (operations / 2) ** (1 / 3)
    said = [
        f"Asking the GPU costs {time_text(gpu.round_trip_ns)} before it has done anything. In that time this CPU does "
        f"{_count(operations)} float32 operations, at best a product of {side:,.0f}×{side:,.0f}: smaller work loses."
    ]
    line = gpu.transfers.get("h2d_pageable")
    if line is not None:
        copy_ns = line.elapsed_ns(MEGABYTE)
        in_cpu_memory_ns = 2 * MEGABYTE / cpu.copy_bytes_per_s * 1e9
        said.append(
            f"Bringing 1 MB there from ordinary memory takes {time_text(copy_ns)}; the CPU copies it within its own "
            f"memory in {time_text(in_cpu_memory_ns)}. So data that is used once should stay where it is."
        )
    return said


def _age(found: Ceilings, now_wall_ns: int) -> str:
    age_s = max(0.0, (now_wall_ns - found.measured_wall_ns) / 1e9)
    days = f"{age_s / 86400:.0f} days ago" if age_s >= 2 * 86400 else f"{duration(age_s)} ago"
    days = "just now" if age_s < 60 else days
    sizes = ", ".join(f"{dtype} n = {n:,}" for dtype, n in found.matmul_sizes.items())
    made_up = "SIMULATED; " if found.simulated else ""
    torch = f" under torch {found.torch}" if found.torch else ""
    return f"{made_up}{found.device} measured {days}{torch}; largest products {sizes}."


def _flops(rate: float) -> str:
    return f"{significant(rate / 1e12)} TFLOP/s" if rate >= 1e12 else f"{significant(rate / 1e9)} GFLOP/s"


def _bytes(rate: float) -> str:
    return f"{significant(rate / 1e12)} TB/s" if rate >= 1e12 else f"{significant(rate / 1e9)} GB/s"


def _count(number: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{significant(number / size)} {word}"
    return f"{number:.0f}"
