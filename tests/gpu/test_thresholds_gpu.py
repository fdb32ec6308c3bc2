"""Thresholds of a real GPU: made, used on this machine, and verified."""

import pytest

from cpugpu_tui.thresholds import load, this_machine

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


def test_a_file_of_this_machine_is_used_and_kept(cpugpu, tmp_path):
    path = tmp_path / "thresholds.json"
    cpugpu.here("thresholds", "make", "matmul", "--max-seconds", 40, "--out", path, code=0)
    found = load(path)
    assert found.differences == (), this_machine()
    for each in found.entries:
        for device, first, last in each.faster:
            assert {found.choose(each.operation, n, each.dtype, each.resident) for n in (first, last)} == {device}
    (matmul,) = (each for each in found.entries if each.operation == "matmul" and each.resident)
    assert [device for device, _, _ in matmul.faster][-1] == "cuda"
    cpugpu.here("thresholds", "verify", path, "--max-seconds", 30, code=0)
