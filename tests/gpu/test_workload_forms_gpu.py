"""Every form of a workload class on a real GPU: placed, checked, and timed with copies where that has a meaning."""

import pytest
from tests.helpers.command_line import ROOT, CommandLine

from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import PAGEABLE, PINNED, CaseFinished, DeviceSampled

pytestmark = pytest.mark.gpu

FILE = ROOT / "tests" / "helpers" / "runs" / "workload_forms.py"
COPIED = {f"form-{name}" for name in ("softmax", "sort", "fft", "embedding", "sparse", "solve", "random")}
NAMES = {*COPIED, "form-perceptron"}


def test_every_form_runs_on_a_gpu(cpugpu: CommandLine) -> None:
    run = ("run", *NAMES, "--workloads", FILE, "--rounds", 3, "--no-ceilings", "--json", "--no-save")
    done = cpugpu(*run)
    assert done.code == EXIT_OK
    checks = {event.case.split("/")[0]: event.check for event in done.events if isinstance(event, CaseFinished)}
    assert set(checks) == NAMES
    assert all(check is not None and check.error <= check.tolerance for check in checks.values())
    for memory in (PAGEABLE, PINNED):
        moved = {event.case.split("/")[0] for event in done.events
                 if isinstance(event, DeviceSampled) and memory in event.samples}  # fmt: skip
        assert moved == COPIED
