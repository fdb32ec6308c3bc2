"""The machine card: what a CPU, a GPU and the cable between them can do, in lines that a newcomer reads in seconds."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from cpugpu_tui.model import Ceilings, place
from cpugpu_tui.model.quantities import significant, time_text

Part = tuple[str, str]
"""(text, role); roles are `title`, `text`, `muted`, `cpu`, `gpu`, `strong`."""

LABEL, VALUE = 22, 32
"""Cells left and right of the bars; the bars take what is left of the width."""

MOST_BAR, LEAST_BAR = 40, 4

MEGABYTE = 1e6

MEMORIES = (
    "Pageable is ordinary host memory; pinned memory stays where it is, so that the GPU can fetch from it by itself."
)
"""What the names of the cable's lines mean."""


def card(known: Sequence[Ceilings], width: int, now_wall_ns: int, *, unicode: bool = True) -> list[list[Part]]:
    """Return the card of one machine: its CPU and its first GPU, if they were measured, and a line for each other GPU.

    What it all means comes first, and everything but the footnotes fits in 22 lines of 77 cells. `width` is the room
    in cells, `now_wall_ns` the time against which the age is told.
    """
    cpu = next((found for found in known if found.device == "cpu"), None)
    gpus = sorted((found for found in known if found.device != "cpu"), key=lambda found: place(found.device))
    gpu = next(iter(gpus), None)
    bar = _Bars(width)
    both = [found for found in (cpu, gpu) if found is not None]
    lines: list[list[Part]] = []
    for index, sentence in enumerate(sentences(cpu, gpu)):
        lines += _wrapped(sentence, width, "text" if index else "strong")
    lines.append([])
    for found in both:
        lines += _device(found, cpu, gpu, bar, width)
    if gpu is not None:
        lines += [*_costs(gpu, cpu, bar), *_cable(gpu, cpu, bar), *_others(gpus, width)]
    lines.append([])
    for found in both:
        lines += _wrapped(_footnote(found, now_wall_ns), width, "muted")
    if gpu is not None and gpu.transfers:
        lines += _wrapped(MEMORIES, width, "muted")
    return lines if not unicode else [[(_spelled(text), role) for text, role in line] for line in lines]


def newest(known: Sequence[Ceilings]) -> tuple[Ceilings, ...]:
    """Return the newest of each device, of the torch build that was measured last."""
    by_age = sorted(known, key=lambda found: found.measured_wall_ns)
    return tuple({found.device: found for found in by_age if found.torch == by_age[-1].torch}.values())


class _Bars:
    """Draws bars of a common length, in the one sign that every terminal has; `_spelled` makes blocks of them."""

    def __init__(self, width: int) -> None:
        self.room = max(LEAST_BAR, min(MOST_BAR, width - LABEL - VALUE))

    def __call__(self, label: str, value: float, most: float, text: str, role: str) -> list[Part]:
        cells = max(1, round(self.room * value / most)) if most > 0 else 1
        return [(f"  {label:<{LABEL - 2}}", "text"), (f"{'#' * cells:<{self.room}}", role), (f" {text}", "text")]


def _spelled(text: str) -> str:
    """Return text of the card with the signs of UTF-8."""
    if text.startswith("#"):
        return text.replace("#", "█")
    return re.sub(r"(?<=\d) us\b", " µs", text).replace(" x ", " × ")


def _wrapped(sentence: str, width: int, role: str) -> list[list[Part]]:
    """Return a sentence as lines; a number and its unit stay together."""
    glued = re.sub(r"(?<=\d) (?=(?:[num]?s|[GT](?:FLOP|B)/s|x \d)\b)", "\xa0", sentence)
    return [[(piece.replace("\xa0", " "), role)] for piece in textwrap.wrap(glued, width)]


def _device(found: Ceilings, cpu: Ceilings | None, gpu: Ceilings | None, bar: _Bars, width: int) -> list[list[Part]]:
    """Return a device's heading, its float32 rate and its memory, on scales that it shares with the other device."""
    both = [each for each in (cpu, gpu) if each is not None]
    role = "cpu" if found is cpu else "gpu"
    threads = f", {found.threads} thread{'s' if found.threads != 1 else ''}" if found is cpu else ""
    label = found.label[: max(width - len("CPU ") - len(threads), 0)]
    lines: list[list[Part]] = [[(f"{role.upper()} ", role), (label, "strong"), (threads, "text")]]
    for label, rates, text in (
        ("computes", [each.flops.get("float32", 0.0) for each in both], _flops),
        ("its memory", [each.copy_bytes_per_s for each in both], _bytes),
    ):
        rate = rates[both.index(found)]
        ratio = f", {significant(rate / rates[0])} x the CPU's" if found is gpu and cpu is not None and rates[0] else ""
        lines.append(bar(label, rate, max(rates), f"{text(rate)}{ratio}", role))
    return lines


def _costs(gpu: Ceilings, cpu: Ceilings | None, bar: _Bars) -> list[list[Part]]:
    """Return what it costs to ask, whatever is asked."""
    costs = [
        ("one CPU call", cpu.launch_ns if cpu is not None else None, "cpu"),
        ("one launch", gpu.launch_ns, "gpu"),
        ("one synchronise", gpu.synchronize_ns, "gpu"),
        ("one round trip", gpu.round_trip_ns, "gpu"),
    ]
    most = max(value for _, value, _ in costs if value is not None)
    lines: list[list[Part]] = [[("What asking costs, however small the work", "title")]]
    lines += [bar(label, value, most, time_text(value), role) for label, value, role in costs if value is not None]
    return lines


def _cable(gpu: Ceilings, cpu: Ceilings | None, bar: _Bars) -> list[list[Part]]:
    """Return the cable's bars, on the scale of the faster of itself and the CPU's memory."""
    if not gpu.transfers:
        return []
    most = max([line.bytes_per_s for line in gpu.transfers.values()] + ([cpu.copy_bytes_per_s] if cpu else []))
    ways = {"h2d": "to the GPU", "d2h": "back"}
    lines: list[list[Part]] = [[("The cable between them", "title")]]
    for name, line in gpu.transfers.items():
        way, _, memory = name.partition("_")
        text = f"{_bytes(line.bytes_per_s)} after {time_text(line.alpha_ns)}"
        lines.append(bar(f"{memory} {ways.get(way, way)}", line.bytes_per_s, most, text, "text"))
    return lines


def _others(gpus: Sequence[Ceilings], width: int) -> list[list[Part]]:
    """Return a line for each GPU where there are several: what is drawn above is the first one's."""
    if len(gpus) < 2:
        return []
    lines: list[list[Part]] = [[("All GPUs", "title"), (f"  (above: {gpus[0].device})", "muted")]]
    for found in gpus:
        pinned = found.transfers.get("h2d_pinned")
        cable = f", pinned copies {_bytes(pinned.bytes_per_s)}" if pinned is not None else ""
        text = (
            f"{_flops(found.flops.get('float32', 0.0))}, memory {_bytes(found.copy_bytes_per_s)}{cable}  {found.label}"
        )
        lines.append([(f"  {found.device:<8}", "gpu"), (text[: max(width - 10, 0)], "text")])
    return lines


def sentences(cpu: Ceilings | None, gpu: Ceilings | None) -> list[str]:
    """Return in words why small work loses on the GPU, from the numbers."""
    if gpu is None:
        return ["Only the CPU has been measured here: with a GPU beside it, this card says why small work loses there."]
    if cpu is None or gpu.round_trip_ns is None or not cpu.flops.get("float32"):
        return ["Only the GPU has been measured here: with the CPU beside it, this card says why small work loses."]
    operations = gpu.round_trip_ns * cpu.flops["float32"] / 1e9
    side = (operations / 2) ** (1 / 3)
    said = [
        f"One round trip to the GPU costs {time_text(gpu.round_trip_ns)}. In that time this CPU does at best "
        f"{_count(operations)} float32 operations, a product of {side:,.0f} x {side:,.0f}: smaller work loses."
    ]
    line = gpu.transfers.get("h2d_pageable")
    if line is not None and cpu.copy_bytes_per_s and gpu.copy_bytes_per_s:
        said.append(_moving(line.elapsed_ns(MEGABYTE), cpu, gpu))
    return said


def _moving(copy_ns: float, cpu: Ceilings, gpu: Ceilings) -> str:
    """Return what 1 MB costs that is brought to the GPU and gone through once, which reads and writes it."""
    gpu_ns, cpu_ns = (2 * MEGABYTE / each.copy_bytes_per_s * 1e9 for each in (gpu, cpu))
    advice = "had better stay" if copy_ns + gpu_ns > cpu_ns else "may move all the same"
    return (
        f"Moving 1 MB there takes {time_text(copy_ns)}. Reading and writing it once takes the GPU {time_text(gpu_ns)}, "
        f"the CPU {time_text(cpu_ns)}: data that is used once {advice}."
    )


def _footnote(found: Ceilings, now_wall_ns: int) -> str:
    """Return when this was measured, and the other dtypes' rates."""
    made_up = "SIMULATED: " if found.simulated else ""
    build = f" under torch {found.torch}" if found.torch else ""
    build += ", within seconds after a run (a full measurement is more precise)" if found.quick else ""
    size = found.matmul_sizes.get("float32")
    largest = f" (matmul of n = {size:,})" if size else ""
    others = "".join(f", {dtype} {_flops(rate)}" for dtype, rate in found.flops.items() if dtype != "float32")
    return (
        f"{made_up}{found.device} was measured {age(found.measured_wall_ns, now_wall_ns)}{build}: float32 "
        f"{_flops(found.flops.get('float32', 0.0))}{largest}{others}."
    )


def age(measured_wall_ns: int, now_wall_ns: int) -> str:
    """Return how long ago this was, in words: `just now`, `3 days ago`."""
    age_s = max(0.0, (now_wall_ns - measured_wall_ns) / 1e9)
    for unit_s, unit in ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        count = int(age_s // unit_s)
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def _flops(rate: float) -> str:
    return f"{significant(rate / 1e12)} TFLOP/s" if rate >= 1e12 else f"{significant(rate / 1e9)} GFLOP/s"


def _bytes(rate: float) -> str:
    return f"{significant(rate / 1e12)} TB/s" if rate >= 1e12 else f"{significant(rate / 1e9)} GB/s"


def _count(number: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{significant(number / size)} {word}"
    return f"{number:.0f}"
