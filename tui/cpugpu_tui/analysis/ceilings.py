"""Peak rates of a machine: the machine card, and what limits a case (roofline).

The roofline model (Williams, Waterman, Patterson, CACM 2009): an operation of F FLOPs and B bytes takes at least
max(F / peak rate, B / peak bandwidth). The peak rates come from this machine's calibration, never from a data sheet.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.model.quantities import count_of, factor, percent, rate_text, size_text, time_text

Part = tuple[str, str]
"""(text, role); roles are `title`, `text`, `muted`, `cpu`, `gpu`, `strong`."""

Bar = Callable[[str, float, float, str, str], list[Part]]
"""Draws a line of label, value and text in a role, on a scale that ends at the largest value."""

LABEL, VALUE = 23, 32
"""Cells left and right of the bars; the bars fill the rest of the width."""

MOST_BAR, LEAST_BAR = 40, 4

MEGABYTE = 1e6

_flops, _bytes = partial(rate_text, unit="FLOP/s"), partial(rate_text, unit="B/s")

MEMORIES = "Pageable memory is ordinary host memory. Pinned memory is host memory that the GPU reads directly."
"""Explains the names of the PCIe lines."""


def card(known: Sequence[model.Ceilings], width: int, now_wall_ns: int) -> list[list[Part]]:
    """Return the card of one machine: its CPU and first GPU, if measured, and a line for each further GPU.

    The sentences come first, and all but the footnotes fits in 22 lines of 77 cells. `width` is in cells,
    `now_wall_ns` is the time from which the age is counted.
    """
    cpu = next((found for found in known if found.device == "cpu"), None)
    gpus = sorted((found for found in known if found.device != "cpu"), key=lambda found: model.place(found.device))
    gpu = next(iter(gpus), None)
    bar = partial(_bar, max(LEAST_BAR, min(MOST_BAR, width - LABEL - VALUE)))
    both = [found for found in (cpu, gpu) if found is not None]
    lines: list[list[Part]] = []
    for index, sentence in enumerate(sentences(cpu, gpu)):
        lines += _wrapped(sentence, width, "text" if index else "strong")
    lines.append([])
    for found in both:
        lines += _device(found, cpu, gpu, bar, width)
    if gpu is not None:
        lines += [*_overheads(gpu, cpu, bar), *_pcie(gpu, cpu, bar), *_others(gpus, width)]
    lines.append([])
    for found in gpus:
        if found.clock is not None:
            role = "muted" if found.clock.is_sound else "warn"
            lines += _wrapped(f"The event clock of {found.device} {clock_text(found.clock)}.", width, role)
    for found in both:
        lines += _wrapped(_footnote(found, now_wall_ns), width, "muted")
    if gpu is not None and gpu.transfers:
        lines += _wrapped(MEMORIES, width, "muted")
    return lines


def newest(known: Sequence[model.Ceilings]) -> tuple[model.Ceilings, ...]:
    """Return the newest calibration of each device, of the torch build that was measured last."""
    by_age = sorted(known, key=lambda found: found.measured_wall_ns)
    return tuple({found.device: found for found in by_age if found.torch == by_age[-1].torch}.values())


def _bar(room: int, label: str, value: float, most: float, text: str, role: str) -> list[Part]:
    """Return a line with a bar of at most `room` cells."""
    cells = max(1, round(room * value / most)) if most > 0 else 1
    return [(f"  {label:<{LABEL - 2}}", "text"), (f"{'█' * cells:<{room}}", role), (f" {text}", "text")]


def _wrapped(sentence: str, width: int, role: str) -> list[list[Part]]:
    """Return a sentence as lines, without a break between a number and its unit."""
    glued = re.sub(r"(?<=\d) (?=(?:[nµm]?s|[GT](?:FLOP|B)/s)\b)", "\xa0", sentence)
    return [[(piece.replace("\xa0", " "), role)] for piece in textwrap.wrap(glued, width)]


def _device(
    found: model.Ceilings, cpu: model.Ceilings | None, gpu: model.Ceilings | None, bar: Bar, width: int
) -> list[list[Part]]:
    """Return a device's heading, float32 rate and memory rate, on scales shared with the other device."""
    both = [each for each in (cpu, gpu) if each is not None]
    role = "cpu" if found is cpu else "gpu"
    threads = f", {count_of(found.threads, 'thread')}" if found is cpu else ""
    label = found.label[: max(width - len("CPU ") - len(threads), 0)]
    lines: list[list[Part]] = [[(f"{role.upper()} ", role), (label, "strong"), (threads, "text")]]
    for label, rates, text in (
        ("float32 compute", [each.flops.get("float32", 0.0) for each in both], _flops),
        ("memory bandwidth", [each.copy_bytes_per_s for each in both], _bytes),
    ):
        rate = rates[both.index(found)]
        ratio = f", {factor(rate / rates[0])} the CPU's" if found is gpu and cpu is not None and rates[0] else ""
        lines.append(bar(label, rate, max(rates), f"{text(rate)}{ratio}", role))
    return lines


def _overheads(gpu: model.Ceilings, cpu: model.Ceilings | None, bar: Bar) -> list[list[Part]]:
    """Return the times that every call takes, however small its work."""
    costs = [
        ("one CPU call", cpu.launch_ns if cpu is not None else None, "cpu"),
        ("one launch", gpu.launch_ns, "gpu"),
        ("one synchronisation", gpu.synchronize_ns, "gpu"),
        ("one round trip", gpu.round_trip_ns, "gpu"),
    ]
    most = max(value for _, value, _ in costs if value is not None)
    lines: list[list[Part]] = [[("Fixed overheads", "title")]]
    lines += [bar(label, value, most, time_text(value), role) for label, value, role in costs if value is not None]
    return lines


def _pcie(gpu: model.Ceilings, cpu: model.Ceilings | None, bar: Bar) -> list[list[Part]]:
    """Return the bars of PCIe copies, on the scale of the fastest copy or the CPU's memory."""
    if not gpu.transfers:
        return []
    most = max([line.bytes_per_s for line in gpu.transfers.values()] + ([cpu.copy_bytes_per_s] if cpu else []))
    ways = {"h2d": "to the GPU", "d2h": "to the host"}
    lines: list[list[Part]] = [[("PCIe", "title")]]
    for name, line in gpu.transfers.items():
        way, _, memory = name.partition("_")
        text = f"{_bytes(line.bytes_per_s)}, plus {time_text(line.alpha_ns)} a copy"
        lines.append(bar(f"{memory} {ways.get(way, way)}", line.bytes_per_s, most, text, "text"))
    return lines


def _others(gpus: Sequence[model.Ceilings], width: int) -> list[list[Part]]:
    """Return a line for each of several GPUs; the bars above show only the first."""
    if len(gpus) < 2:
        return []
    lines: list[list[Part]] = [[("All GPUs", "title"), (f"  (above: {gpus[0].device})", "muted")]]
    for found in gpus:
        pinned = found.transfers.get("h2d_pinned")
        copies = f", pinned copies {_bytes(pinned.bytes_per_s)}" if pinned is not None else ""
        text = (
            f"{_flops(found.flops.get('float32', 0.0))}, memory {_bytes(found.copy_bytes_per_s)}{copies}  {found.label}"
        )
        lines.append([(f"  {found.device:<8}", "gpu"), (text[: max(width - 10, 0)], "text")])
    return lines


def sentences(cpu: model.Ceilings | None, gpu: model.Ceilings | None) -> list[str]:
    """Return why small work is slower on the GPU, with this machine's numbers."""
    if gpu is None:
        return ["Only the CPU was measured. With a GPU, this card also shows why small work is slower on the GPU."]
    if cpu is None or gpu.round_trip_ns is None or not cpu.flops.get("float32"):
        return ["Only the GPU was measured. With the CPU, this card also shows why small work is slower on the GPU."]
    operations = gpu.round_trip_ns * cpu.flops["float32"] / 1e9
    side = (operations / 2) ** (1 / 3)
    texts = [
        f"An empty GPU call takes {time_text(gpu.round_trip_ns)}. In that time, the CPU at its peak rate multiplies "
        f"two matrices of n = {side:,.0f}. Below that, it can win."
    ]
    line = gpu.transfers.get("h2d_pageable")
    if line is not None and cpu.copy_bytes_per_s and gpu.copy_bytes_per_s:
        texts.append(_moving(line.elapsed_ns(MEGABYTE), cpu, gpu))
    return texts


def _moving(copy_ns: float, cpu: model.Ceilings, gpu: model.Ceilings) -> str:
    """Return whether copying 1 MB to the GPU pays off if it is read and written there once."""
    gpu_ns, cpu_ns = (2 * MEGABYTE / each.copy_bytes_per_s * 1e9 for each in (gpu, cpu))
    side = "CPU" if copy_ns + gpu_ns > cpu_ns else "GPU"
    return (
        f"The CPU reads and writes 1 MB in {time_text(cpu_ns)}, the GPU in {time_text(gpu_ns)}, or in "
        f"{time_text(copy_ns + gpu_ns)} if the data must first be copied to it. For data used once, "
        f"the {side} wins."
    )


def _footnote(found: model.Ceilings, now_wall_ns: int) -> str:
    """Return when a device was measured, and its rates for all dtypes."""
    simulated = "SIMULATED: " if found.simulated else ""
    build = f" with torch {found.torch}" if found.torch else ""
    build += ", briefly after a run (a full measurement is more precise)" if found.quick else ""
    size = found.matmul_sizes.get("float32")
    largest = f" (matmul of n = {size_text(size)})" if size else ""
    others = "".join(f", {dtype} {_flops(rate)}" for dtype, rate in found.flops.items() if dtype != "float32")
    return (
        f"{simulated}{found.device} was measured {age(found.measured_wall_ns, now_wall_ns)}{build}: float32 "
        f"{_flops(found.flops.get('float32', 0.0))}{largest}{others}."
    )


def age(measured_wall_ns: int, now_wall_ns: int) -> str:
    """Return an age in words: `just now`, `3 days ago`."""
    age_s = max(0.0, (now_wall_ns - measured_wall_ns) / 1e9)
    for unit_s, unit in ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        count = int(age_s // unit_s)
        if count:
            return f"{count_of(count, unit)} ago"
    return "just now"


# ------------------------------------------------------------------ roofline


COMPUTE, MEMORY, LAUNCH, CALL, TRANSFER, NEITHER = "compute", "memory", "launch", "call", "transfer", "neither peak"

LEAST_SHARE = 0.2
"""Below this share of both peak rates neither of them limits an operation: `compute 9 %` was said of small kernels.
Starting it does, if that takes so large a share of the latency."""

LAUNCH_SHARE = 0.5
"""If kernel time is less than this share of the latency, launch overhead and waiting are most of the time. On a CPU the
smallest call must take more than this share of it."""


class Limit(NamedTuple):
    """What an operation would need more of to be faster."""

    kind: str
    """`compute`, `memory`, `transfer`, `neither peak`, or the start of the work: `launch` on a GPU, `call` on a CPU."""
    share: float | None
    """Share of the peak rate that was reached; None for the kinds without one."""


def least_ns(flops: float, bytes_moved: float, dtype: str, ceilings: model.Ceilings) -> tuple[str, float] | None:
    """Return the binding limit and the least time, ns; None if a needed peak rate was not measured."""
    bounds = []
    if flops:
        # Without a tf32 rate the float32 rate stands in, as on CPUs.
        rate = ceilings.flops.get(dtype) or (ceilings.flops.get("float32") if dtype == "tf32" else None)
        if rate is None:
            return None
        bounds.append((COMPUTE, flops / rate * 1e9))
    if bytes_moved and ceilings.copy_bytes_per_s:
        bounds.append((MEMORY, bytes_moved / ceilings.copy_bytes_per_s * 1e9))
    return max(bounds, key=lambda bound: bound[1], default=None)


def limit(
    flops: float, bytes_moved: float, dtype: str, link: str | None, hardware_ns: float, latency_ns: float,
    ceilings: model.Ceilings,
) -> Limit | None:  # fmt: skip
    """Return what limits an operation of kernel time `hardware_ns` and latency `latency_ns`.

    None if the deciding peak rate was not measured.
    """
    if link is not None:
        line = ceilings.transfers.get(link)
        if line is not None:
            # A small copy is mostly start-up, and its low share of the bandwidth shows that.
            return Limit(TRANSFER, bytes_moved / line.bytes_per_s * 1e9 / latency_ns)
    is_gpu = ceilings.synchronize_ns is not None
    kind, start_ns = (LAUNCH, latency_ns - hardware_ns) if is_gpu else (CALL, ceilings.launch_ns)
    if start_ns > LAUNCH_SHARE * latency_ns:
        return Limit(kind, None)
    bound = least_ns(flops, bytes_moved, dtype, ceilings)
    if bound is None:
        return None
    share = bound[1] / hardware_ns
    if share >= LEAST_SHARE:
        return Limit(bound[0], share)
    return Limit(kind if start_ns >= LEAST_SHARE * latency_ns else NEITHER, None)


class Written(NamedTuple):
    """One `as_written` time, judged."""

    printed_ns: float
    """Time by the paper's clock."""
    clock_factor: float
    """The paper's error: how many times longer the same work takes when that clock waits for the GPU."""
    scope_factor: float | None
    """How many times longer that time is than the operations alone; None without their latency."""
    impossible_factor: float | None
    """How many times shorter the printed time is than this machine's least time; None if possible or unknown."""
    implied: str = ""
    """The rate that an impossible printed time implies."""


def judge_clock(
    printed_ns: float, synced_ns: float, operations: int, latency_ns: float | None,
    flops: float, bytes_moved: float, dtype: str, ceilings: model.Ceilings | None,
) -> Written:  # fmt: skip
    """Return a printed time, judged; `operations` calls with these FLOPs and bytes each were inside the clock."""
    scope = synced_ns / (operations * latency_ns) if operations and latency_ns else None
    judged = Written(printed_ns, synced_ns / printed_ns, scope, None)
    bound = least_ns(flops, bytes_moved, dtype, ceilings) if ceilings is not None else None
    if bound is None or operations * bound[1] <= printed_ns:
        return judged
    amount, unit = (flops, "TFLOP/s") if bound[0] == COMPUTE else (bytes_moved, "TB/s")
    rate = operations * amount / (printed_ns / 1e9)
    implied = f"{rate / 1e12:,.4g} {unit}"
    return judged._replace(impossible_factor=operations * bound[1] / printed_ns, implied=implied)


UNAFFECTED = "Latency, winners and crossover do not use that clock."


def clock_text(found: model.EventClock) -> str:
    """Return the outcome of a check as a predicate: `agrees with the wall clock within 0.2 %, resolves 1.25 µs`."""
    if not found.is_sound:
        return f"is not used, because {fault_text(found, 'it')}"
    floor = "" if found.floor_ns is None else f", resolves {time_text(found.floor_ns)}"
    share = agreement(found)
    within = "" if share is None else f" within {percent(share)} %"
    return f"agrees with the wall clock{within}{floor}"


def agreement(found: model.EventClock) -> float | None:
    """Return how far the event clock may be from the wall clock, as a share; None if they were not compared."""
    block_ns, least_ns, most_ns = found.block_ns, found.wall_least_ns, found.wall_most_ns
    if not block_ns or not least_ns or not most_ns:
        return None
    return max(abs(block_ns / least_ns - 1), abs(block_ns / most_ns - 1))


def fault_text(found: model.EventClock, subject: str = "the event clock") -> str:
    """Return why a clock is not used, as a clause; empty for a sound one."""
    read, took = time_text(found.block_ns or 0), time_text(found.wall_most_ns or 0)
    texts = {
        "": "",
        "hang": f"{subject} did not answer within {(found.limit_ns or 0) / 1e6:,.0f} ms",
        "zero": f"{subject} always reads 0",
        "back": f"{subject} stepped back by {time_text(found.back_ns or 0)}",
        "wall": f"{subject} read {read} for work of {took}",
        "coarse": f"{subject} advances in steps of {time_text(found.step_ns or 0)}",
        "late": f"{subject} reads {time_text(found.pair_ns or 0)} where nothing ran",
        "bend": f"{subject} does not grow in proportion to the number of calls ({percent(found.bend or 0)} % off)",
    }
    return texts.get(found.fault, f"{subject} has a fault that this version does not know")


def clock_sentences(clocks: Mapping[str, model.EventClock]) -> list[str]:
    """Return a sentence for each GPU without kernel times, by its name."""
    return [
        f"{device} has no kernel times: {fault_text(clock, 'its event clock')}. {UNAFFECTED}"
        for device, clock in clocks.items()
        if not clock.is_sound
    ]


def clock_data(clocks: Mapping[str, model.EventClock]) -> dict[str, dict[str, object]]:
    """Return the outcome for each GPU as JSON values."""
    return {
        device: {
            "sound": clock.is_sound, "fault": clock.fault or None, "text": clock_text(clock),
            "floor_ns": clock.floor_ns, "block_ns": clock.block_ns, "wall_least_ns": clock.wall_least_ns,
            "wall_most_ns": clock.wall_most_ns,
        }
        for device, clock in clocks.items()
    }  # fmt: skip
