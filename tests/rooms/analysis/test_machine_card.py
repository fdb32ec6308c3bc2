"""The machine card: readable in five seconds at 80 columns, with and without UTF-8, and honest about its age."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cpugpu_tui.analysis.card import age, card, newest, sentences
from cpugpu_tui.model import Ceilings, Line

HOUR_NS = 3_600 * 10**9
CPU = Ceilings(
    "cpu", "Intel(R) Xeon(R) Platinum 8480C Processor", None, "node1", "2.11.0+cu130", 0, 16,
    {"float32": 1.35e12, "bfloat16": 9.1e12, "float64": 6.7e11}, {"float32": 4096}, 1.02e11, 1 << 30, 1_300.0,
)  # fmt: skip
GPU = Ceilings(
    "cuda:0", "NVIDIA H200", "GPU-1", "node1", "2.11.0+cu130", 0, 16,
    {"float32": 5.1e13, "tf32": 4.06e14, "bfloat16": 7.87e14, "float64": 5.6e13}, {"float32": 8192}, 4.29e12, 1 << 30,
    10_500.0, 8_400.0, 21_000.0,
    {"h2d_pageable": Line(11e3, 7e9), "h2d_pinned": Line(9.5e3, 5.5e10), "d2h_pageable": Line(14e3, 1.5e10),
     "d2h_pinned": Line(9.7e3, 5.5e10)},
)  # fmt: skip


def shown(*known: Ceilings, width: int = 76, unicode: bool = True) -> list[str]:
    lines = card(known, width, 3 * HOUR_NS, unicode=unicode)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def row(lines: list[str], label: str) -> str:
    (found,) = [line for line in lines if line.strip().startswith(label)]
    return " ".join(found.split())


def bar(lines: list[str], label: str) -> int:
    (found,) = [line for line in lines if line.strip().startswith(label)]
    return found.count("█")


# ------------------------------------------------------------------ what a newcomer reads


def test_it_begins_with_why_small_work_loses() -> None:
    text = " ".join(shown(CPU, GPU)[:4])
    assert "One round trip to the GPU costs 21.0 µs." in text
    assert "28.4 million float32 operations, a product of 242 × 242: smaller work loses." in text
    assert "Moving 1 MB there takes 154 µs." in text
    assert "takes the GPU 466 ns, the CPU 19.6 µs: data that is used once had better stay." in text


def test_where_moving_pays_it_says_so() -> None:
    slow_cpu = replace(CPU, copy_bytes_per_s=1e9)
    assert "data that is used once may move all the same." in sentences(slow_cpu, GPU)[1]


def test_both_devices_share_their_scales_and_the_gpu_is_so_many_times_the_cpu() -> None:
    lines = shown(CPU, GPU)
    at = lines.index("GPU NVIDIA H200")
    cpu, gpu = lines[at - 2 : at], lines[at + 1 : at + 3]
    assert lines[at - 3] == "CPU Intel(R) Xeon(R) Platinum 8480C Processor, 16 threads"
    assert row(cpu, "computes").endswith("1.35 TFLOP/s")
    assert row(gpu, "computes").endswith("51.0 TFLOP/s, 37.8 × the CPU's")
    assert row(cpu, "its memory").endswith("102 GB/s")
    assert row(gpu, "its memory").endswith("4.29 TB/s, 42.1 × the CPU's")
    assert bar(cpu, "computes") == 1
    assert bar(gpu, "computes") == bar(gpu, "its memory") > 20


def test_costs_and_cable_are_bars_in_proportion() -> None:
    lines = shown(CPU, GPU, width=116)
    assert row(lines, "one round trip").endswith("21.0 µs")
    assert bar(lines, "one launch") == pytest.approx(bar(lines, "one round trip") / 2, abs=1)
    assert bar(lines, "one synchronise") == pytest.approx(bar(lines, "one round trip") * 0.4, abs=1)
    assert row(lines, "one CPU call").endswith("1.30 µs")
    assert row(lines, "pageable to the GPU").endswith("7.00 GB/s after 11.0 µs")
    assert row(lines, "pinned back").endswith("55.0 GB/s after 9.70 µs")
    assert bar(lines, "pinned to the GPU") > 6 * bar(lines, "pageable to the GPU")


def test_age_build_and_the_other_dtypes_are_footnotes() -> None:
    text = " ".join(shown(CPU, GPU))
    assert "cpu was measured 3 hours ago under torch 2.11.0+cu130" in text
    assert "tf32 406 TFLOP/s, bfloat16 787 TFLOP/s, float64 56.0 TFLOP/s." in text
    assert "float32 51.0 TFLOP/s (matmul of n = 8,192)" in text
    assert "SIMULATED" not in text
    assert "SIMULATED: cpu was measured" in " ".join(shown(replace(CPU, simulated=True)))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "just now"), (59, "just now"), (60, "1 minute ago"), (7_199, "1 hour ago"), (86_400 * 30, "30 days ago")],
)
def test_ages(seconds: int, words: str) -> None:
    assert age(0, seconds * 10**9) == words


# ------------------------------------------------------------------ where it is shown


@pytest.mark.parametrize("width", [76, 80, 116, 200])
@pytest.mark.parametrize("known", [(CPU, GPU), (CPU,), (GPU,)], ids=["both", "cpu", "gpu"])
def test_no_line_is_longer_than_the_room(known: tuple[Ceilings, ...], width: int) -> None:
    assert max(map(len, shown(*known, width=width))) <= width


def test_all_but_the_footnotes_fit_on_a_terminal_of_80_by_24() -> None:
    lines = shown(CPU, GPU)
    last = next(index for index, line in enumerate(lines) if "was measured" in line)
    assert last <= 22


def test_no_number_is_parted_from_its_unit() -> None:
    unit = re.compile(r"(?:[nµm]?s|[GT]FLOP/s|[GT]B/s|×)(?!\w)")
    for width in range(56, 120):
        lines = shown(CPU, GPU, width=width)
        assert not [line for line in lines if unit.match(line)], width


def test_ascii_will_do() -> None:
    lines = shown(CPU, GPU, unicode=False)
    assert all(line.isascii() for line in lines)
    assert row(lines, "one round trip") == f"one round trip {'#' * 22} 21.0 us"
    assert "242 x 242" in " ".join(lines)


def test_no_letter_of_a_word_becomes_a_micro_sign() -> None:
    assert "is used once" in " ".join(shown(CPU, GPU))


# ------------------------------------------------------------------ what is missing


def test_a_cpu_alone_has_no_ratio_and_says_what_would_be_said() -> None:
    lines = shown(CPU)
    assert lines[0].startswith("Only the CPU has been measured here")
    assert not any("the CPU's" in line or "round trip" in line for line in lines)


def test_a_gpu_alone_too() -> None:
    lines = shown(GPU)
    assert lines[0].startswith("Only the GPU has been measured here")
    assert row(lines, "computes").endswith("51.0 TFLOP/s")


def test_a_gpu_without_a_cable_has_no_cable() -> None:
    assert not any("cable" in line for line in shown(CPU, replace(GPU, transfers={})))


def test_the_newest_of_each_device_under_the_torch_that_was_measured_last() -> None:
    old, new = replace(CPU, measured_wall_ns=1), replace(CPU, measured_wall_ns=3)
    gpu, other = replace(GPU, measured_wall_ns=2), replace(GPU, measured_wall_ns=2, torch="2.9")
    assert set(map(id, newest([new, old, gpu, other]))) == {id(new), id(gpu)}
    assert newest([]) == ()
