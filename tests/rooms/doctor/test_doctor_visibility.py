"""CUDA_VISIBLE_DEVICES in all forms that people and schedulers write."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.golden import GoldenWords
from tests.helpers.runs.checked_machine import gpu, machine, said

from cpugpu_tui.doctor.checks_torch import read_list
from cpugpu_tui.model import MigInstance

UUIDS = ("GPU-aaaa1111-0000", "GPU-aaaa2222-0000")
SLICES = ("MIG-cccc3333-0000", "MIG-cccc4444-0000")


@pytest.mark.parametrize(
    ("text", "entries", "is_whole"),
    [
        ("0,1", ("0", "1"), True),
        (" 1 , 0", ("1", "0"), True),
        ("0,2,1", ("0",), False),
        ("7", (), False),
        ("0,-1,1", ("0",), False),
        ("0,0", (), False),
        ("0,twice", ("0",), False),
        ("all", (), False),
        ("0,,1", ("0",), False),
        ("GPU-aaaa1", ("GPU-aaaa1",), True),
        ("gpu-aaaa1", (), False),
        ("GPU-aaaa", (), False),
        ("GPU-ffff", (), False),
        ("GPU-aaaa1,1", ("GPU-aaaa1",), False),
        ("MIG-cccc3333-0000", ("MIG-cccc3333-0000",), True),
        ("MIG-cccc3,MIG-cccc4", ("MIG-cccc3",), False),
        ("MIG-GPU-aaaa1111-0000/1/0", ("MIG-GPU-aaaa1111-0000/1/0",), True),
        ("MIG-GPU-ffff/1/0", (), False),
    ],
)
def test_the_list_is_read_as_cuda_reads_it(
    text: str, entries: tuple[str, ...], is_whole: bool, words: GoldenWords
) -> None:
    read = read_list(text, UUIDS, SLICES)
    assert read.entries == entries
    assert (read.problem == "") == is_whole
    if not is_whole:
        words(read.problem)


@given(st.text(max_size=40))
def test_garbage_is_a_sentence_never_a_crash(text: str) -> None:
    facts = machine(environ={"CUDA_VISIBLE_DEVICES": text})
    assert "It raised" not in said(facts, "cuda.visible").cause


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("", "warn"), ("-1", "warn"), ("NoDevFiles", "warn"), ("0", "ok"), ("0,5", "warn"), ("5", "fail")],
)
def test_hiding_on_purpose_is_a_warning_and_an_error_a_failure(text: str, verdict: str, words: GoldenWords) -> None:
    finding = said(machine(environ={"CUDA_VISIBLE_DEVICES": text}), "cuda.visible")
    assert finding.verdict == verdict
    words(f"{finding.found} | {finding.cause} | {finding.remedy}")


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
