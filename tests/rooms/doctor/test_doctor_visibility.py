"""CUDA_VISIBLE_DEVICES in all forms that people and schedulers write."""

import pytest

from cpugpu_tui.doctor.checks_torch import read_list

UUIDS = ("GPU-aaaa1111-0000", "GPU-aaaa2222-0000")
SLICES = ("MIG-cccc3333-0000", "MIG-cccc4444-0000")


@pytest.mark.parametrize(
    ("text", "entries", "is_whole"),
    [
        ("0,1", ("0", "1"), True), (" 1 , 0", ("1", "0"), True), ("0,2,1", ("0",), False), ("7", (), False),
        ("0,-1,1", ("0",), False), ("0,0", (), False), ("0,twice", ("0",), False), ("all", (), False),
        ("0,,1", ("0",), False), ("GPU-aaaa1", ("GPU-aaaa1",), True), ("gpu-aaaa1", (), False),
        ("GPU-aaaa", (), False), ("GPU-ffff", (), False), ("GPU-aaaa1,1", ("GPU-aaaa1",), False),
        ("MIG-cccc3333-0000", ("MIG-cccc3333-0000",), True), ("MIG-cccc3,MIG-cccc4", ("MIG-cccc3",), False),
        ("MIG-GPU-aaaa1111-0000/1/0", ("MIG-GPU-aaaa1111-0000/1/0",), True), ("MIG-GPU-ffff/1/0", (), False),
    ],
)  # fmt: skip
def test_the_list_is_read_as_cuda_reads_it(text, entries, is_whole, words):
    read = read_list(text, UUIDS, SLICES)
    assert read.entries == entries
    assert (read.problem == "") == is_whole
    if not is_whole:
        words(read.problem)
