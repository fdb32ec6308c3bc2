"""`doctor` on a real GPU: no check fails."""

from __future__ import annotations

import pytest
from tests.helpers.command_line import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


def test_a_machine_that_works_has_no_failed_check(cpugpu: CommandLine) -> None:
    done = cpugpu("doctor", "--json")
    failed = [found for found in done.objects if found["verdict"] == "fail"]
    assert (done.code, failed) == (0, []), done.err
    found = {line["check"]: line["found"] for line in done.objects}
    assert "CUDA" in found["driver"]
    assert "cuda:0" in found["cuda.devices"]
    assert "NVML" in found["cuda.devices"]
