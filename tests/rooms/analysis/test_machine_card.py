"""The machine card: sentences, bars and footnotes, at several widths."""

import re
from dataclasses import replace

import pytest

from cpugpu_tui.analysis.ceilings import age, card, newest, sentences
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


def shown(*known, width=76):
    lines = card(known, width, 3 * HOUR_NS)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def row(lines, label):
    (found,) = [line for line in lines if line.strip().startswith(label)]
    return " ".join(found.split())


def bar(lines, label):
    (found,) = [line for line in lines if line.strip().startswith(label)]
    return found.count("█")


# ------------------------------------------------------------------ what a newcomer reads


def test_it_begins_with_why_small_work_is_slower_on_the_gpu(words):
    lines = shown(CPU, GPU)
    words(lines[: lines.index("")])
    assert any("21.0 µs" in each for each in sentences(CPU, GPU))


def test_a_cpu_slower_than_the_copy_changes_the_advice(words):
    words(sentences(replace(CPU, copy_bytes_per_s=1e9), GPU)[1])


def test_both_devices_share_their_scales_and_the_gpu_is_so_many_times_the_cpu():
    lines = shown(CPU, GPU)
    at = lines.index("GPU NVIDIA H200")
    cpu, gpu = lines[at - 2 : at], lines[at + 1 : at + 3]
    assert lines[at - 3] == "CPU Intel(R) Xeon(R) Platinum 8480C Processor, 16 threads"
    assert row(cpu, "float32 compute").endswith("1.35 TFLOP/s")
    assert row(gpu, "float32 compute").endswith("51.0 TFLOP/s, 37.8× the CPU's")
    assert row(cpu, "memory bandwidth").endswith("102 GB/s")
    assert row(gpu, "memory bandwidth").endswith("4.29 TB/s, 42.1× the CPU's")
    assert bar(cpu, "float32 compute") == 1
    assert bar(gpu, "float32 compute") == bar(gpu, "memory bandwidth") > 20


def test_overheads_and_pcie_are_bars_in_proportion():
    lines = shown(CPU, GPU, width=116)
    assert row(lines, "one round trip").endswith("21.0 µs")
    assert bar(lines, "one launch") == pytest.approx(bar(lines, "one round trip") / 2, abs=1)
    assert bar(lines, "one synchronisation") == pytest.approx(bar(lines, "one round trip") * 0.4, abs=1)
    assert row(lines, "one CPU call").endswith("1.30 µs")
    assert row(lines, "pageable to the GPU").endswith("7.00 GB/s, plus 11.0 µs a copy")
    assert row(lines, "pinned to the host").endswith("55.0 GB/s, plus 9.70 µs a copy")
    assert bar(lines, "pinned to the GPU") > 6 * bar(lines, "pageable to the GPU")


def test_age_build_and_the_other_dtypes_are_footnotes(words):
    lines = shown(CPU, GPU)
    words(lines[len(lines) - lines[::-1].index("") :])
    assert "SIMULATED" not in " ".join(lines)
    assert "SIMULATED: cpu" in " ".join(shown(replace(CPU, simulated=True)))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "just now"), (59, "just now"), (60, "1 minute ago"), (7_199, "1 hour ago"), (86_400 * 30, "30 days ago")],
)
def test_ages(seconds, words):
    assert age(0, seconds * 10**9) == words


# ------------------------------------------------------------------ where it is shown


@pytest.mark.parametrize("width", [76, 80, 116, 200])
@pytest.mark.parametrize("known", [(CPU, GPU), (CPU,), (GPU,)], ids=["both", "cpu", "gpu"])
def test_no_line_is_longer_than_the_room(known, width):
    assert max(map(len, shown(*known, width=width))) <= width


def test_all_but_the_footnotes_fit_on_a_terminal_of_80_by_24():
    lines = shown(CPU, GPU)
    last = len(lines) - lines[::-1].index("")
    assert last <= 22


def test_no_number_is_parted_from_its_unit():
    unit = re.compile(r"(?:[nµm]?s|[GT]FLOP/s|[GT]B/s|×)(?!\w)")
    for width in range(56, 120):
        lines = shown(CPU, GPU, width=width)
        assert not [line for line in lines if unit.match(line)], width


# ------------------------------------------------------------------ what is missing


def test_a_cpu_alone_has_no_ratio(words):
    lines = shown(CPU)
    words(lines[: lines.index("")])
    assert not any("the CPU's" in line or "round trip" in line for line in lines)


def test_a_gpu_alone_too(words):
    lines = shown(GPU)
    words(lines[: lines.index("")])
    assert row(lines, "float32 compute").endswith("51.0 TFLOP/s")


def test_a_gpu_without_copies_has_no_pcie_lines():
    assert any("PCIe" in line for line in shown(CPU, GPU))
    assert not any("PCIe" in line for line in shown(CPU, replace(GPU, transfers={})))


def test_the_newest_of_each_device_under_the_torch_that_was_measured_last():
    old, new = replace(CPU, measured_wall_ns=1), replace(CPU, measured_wall_ns=3)
    gpu, other = replace(GPU, measured_wall_ns=2), replace(GPU, measured_wall_ns=2, torch="2.9")
    assert set(map(id, newest([new, old, gpu, other]))) == {id(new), id(gpu)}
    assert newest([]) == ()
