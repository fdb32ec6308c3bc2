"""CUDA_VISIBLE_DEVICES in all the forms that people and schedulers write."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.runs.checked_machine import gpu, machine, said

from cpugpu_tui.doctor.checks_torch import read_list
from cpugpu_tui.model import MigInstance

UUIDS = ("GPU-aaaa1111-0000", "GPU-aaaa2222-0000")
SLICES = ("MIG-cccc3333-0000", "MIG-cccc4444-0000")


@pytest.mark.parametrize(
    ("text", "entries", "problem"),
    [
        ("0,1", ("0", "1"), ""),
        (" 1 , 0", ("1", "0"), ""),
        ("0,2,1", ("0",), "There is no GPU 2"),
        ("7", (), "There is no GPU 7: the driver lists 2 GPUs."),
        ("0,-1,1", ("0",), "'-1' names no GPU"),
        ("0,0", (), "named twice"),
        ("0,twice", ("0",), "'twice' names no GPU"),
        ("all", (), "'all' names no GPU"),
        ("0,,1", ("0",), "'' names no GPU"),
        ("GPU-aaaa1", ("GPU-aaaa1",), ""),
        ("gpu-aaaa1", (), "names no GPU"),
        ("GPU-aaaa", (), "the beginning of 2 UUIDs"),
        ("GPU-ffff", (), "No GPU has the UUID"),
        ("GPU-aaaa1,1", ("GPU-aaaa1",), "do not mix"),
        ("MIG-cccc3333-0000", ("MIG-cccc3333-0000",), ""),
        ("MIG-cccc3,MIG-cccc4", ("MIG-cccc3",), "one MIG slice only"),
        ("MIG-GPU-aaaa1111-0000/1/0", ("MIG-GPU-aaaa1111-0000/1/0",), ""),
        ("MIG-GPU-ffff/1/0", (), "No GPU has the UUID"),
    ],
)
def test_the_list_is_read_as_cuda_reads_it(text: str, entries: tuple[str, ...], problem: str) -> None:
    read = read_list(text, UUIDS, SLICES)
    assert read.entries == entries
    assert problem in read.problem
    assert bool(read.problem) == bool(problem)


@given(st.text(max_size=40))
def test_garbage_is_a_sentence_never_a_crash(text: str) -> None:
    facts = machine(environ={"CUDA_VISIBLE_DEVICES": text})
    assert "It raised" not in said(facts, "cuda.visible").cause


@pytest.mark.parametrize(
    ("text", "verdict", "words"),
    [
        ("", "warn", "hides every GPU"), ("-1", "warn", "hides every GPU"), ("NoDevFiles", "warn", "was given no GPU"),
        ("0", "ok", ""), ("0,5", "warn", "Only 0 count."), ("5", "fail", "No GPU is left."),
    ],
)  # fmt: skip
def test_hiding_on_purpose_is_a_warning_and_an_error_a_failure(text: str, verdict: str, words: str) -> None:
    finding = said(machine(environ={"CUDA_VISIBLE_DEVICES": text}), "cuda.visible")
    assert (finding.verdict, words in finding.cause) == (verdict, True)


def test_slices_of_the_driver_are_known() -> None:
    cut = replace(gpu(), instances=(MigInstance(0, SLICES[0], "1g", {}),))
    assert said(machine(cut, environ={"CUDA_VISIBLE_DEVICES": SLICES[0]}), "cuda.visible").verdict == "ok"
    assert said(machine(cut, environ={"CUDA_VISIBLE_DEVICES": SLICES[1]}), "cuda.visible").verdict == "fail"


@pytest.mark.parametrize(
    ("order", "verdict"), [(None, "warn"), ("FASTEST_FIRST", "warn"), ("PCI_BUS_ID", "ok"), ("pci", "warn")]
)
def test_the_order_matters_where_gpus_differ(order: str | None, verdict: str) -> None:
    mixed = machine(gpu(0), replace(gpu(1, "GPU-1"), name="NVIDIA T4"))
    environ = {} if order is None else {"CUDA_DEVICE_ORDER": order}
    assert said(replace(mixed, environ=environ), "cuda.order").verdict == verdict
    if order in (None, "FASTEST_FIRST"):
        assert said(machine(environ=environ), "cuda.order").verdict == "ok"
