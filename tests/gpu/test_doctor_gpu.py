"""`doctor` on a real GPU: no check fails, and telemetry hardly slows a launch-bound loop."""

from __future__ import annotations

import pytest
from tests.helpers.command_line import CommandLine

from cpugpu_tui.analysis.costs import ALLOWED
from cpugpu_tui.doctor.sampler_cost import measure_cost

pytestmark = pytest.mark.gpu


def test_a_machine_that_works_has_no_failed_check(cpugpu: CommandLine) -> None:
    done = cpugpu("doctor", "--json")
    failed = [found for found in done.objects if found["verdict"] == "fail"]
    assert (done.code, failed) == (0, []), done.err
    found = {line["check"]: line["found"] for line in done.objects}
    assert "CUDA" in found["driver"]
    assert "cuda:0" in found["cuda.devices"]
    assert "NVML" in found["cuda.devices"]


@pytest.mark.timeout(300)
def test_telemetry_at_its_default_rate_costs_no_more_than_promised() -> None:
    measured = measure_cost(None, None, 120.0, print)
    assert measured.ratio is not None
    print(measured.ratio, measured.pairs)
    # Where the interval stays wide the answer is open; what must not be is an interval wholly above the promise.
    assert measured.ratio.low <= ALLOWED
