"""Commands on a real GPU: the receipt, the refusals, and what the command sees."""

import sys

import pytest

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.model import CaseFailed, CodeTraced

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(240)]

WORK = "import sys, torch; x = torch.rand(4000, 4000, device=sys.argv[1]); print(float((x @ x).sum()))"
HERE = ("--rounds", "3", "--max-seconds", "110", "--json", "--no-save")
"""A command and its start-up run eight times on each device, 3.9 s each on four cores of an H100 server."""


def test_a_command_that_takes_the_device_is_timed_on_both(cpugpu):
    done = cpugpu("time", *HERE, "--", sys.executable, "-c", WORK, "{device}", code=EXIT_OK)
    traced = {event.device: event for event in done.events if isinstance(event, CodeTraced)}
    assert set(traced) == {"cpu", "cuda:0"}
    assert not traced["cpu"].used.hides_gpus
    gpu = traced["cuda:0"]
    assert gpu.used.gpu_reason is None, gpu
    assert gpu.peak_bytes is None or gpu.peak_bytes > 64e6  # a container may hide the memory of a process
    assert gpu.used.startup_ns is not None


def test_without_the_device_it_sees_the_gpu_in_its_turn_only(cpugpu):
    picks = WORK.replace("sys.argv[1]", "'cuda' if torch.cuda.is_available() else 'cpu'")
    done = cpugpu("time", *HERE, "--", sys.executable, "-c", picks, code=EXIT_OK)
    traced = {event.device: event for event in done.events if isinstance(event, CodeTraced)}
    assert traced["cpu"].used.hides_gpus
    assert not traced["cuda:0"].used.hides_gpus


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((sys.executable, "-c", "import time; time.sleep(0.2)"), "Never used the GPU"),
        ((sys.executable, "-c", WORK.replace("sys.argv[1]", "'cuda'"), "{device}"), "had a context on cuda:0"),
    ],
)
def test_a_run_on_the_other_device_is_refused(cpugpu, words, named):
    done = cpugpu("time", *HERE, "--", *words, code=EXIT_CASES_FAILED)
    (failed,) = (event for event in done.events if isinstance(event, CaseFailed))
    assert failed.kind == "refused"
    assert named in failed.message
