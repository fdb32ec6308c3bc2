"""`time -- COMMAND` agrees with hyperfine, which times whole processes too. Skipped where hyperfine is missing."""

import json
import shlex
import shutil
import subprocess
import sys
from statistics import median

import pytest

from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import LATENCY, DeviceSampled

pytestmark = [
    pytest.mark.gpu, pytest.mark.alone,
    pytest.mark.skipif(shutil.which("hyperfine") is None, reason="hyperfine is not installed"),
]  # fmt: skip

PAIRS = 3
"""Alternated pairs: a machine that drifts, drifts for both."""

RUNS = 3

WORK = "import sys, torch; x = torch.rand(1000, 1000, device=sys.argv[1]); print(float((x @ x).sum()))"
"""Nearly all of it is start-up: it imports torch, and on a GPU it makes a context."""


def hyperfine_s(words, folder):
    """Return the times of the command, s, after a run that does not count."""
    out = folder / "hyperfine.json"
    subprocess.run(
        ["hyperfine", "--shell=none", "--warmup", "1", "--runs", str(RUNS), "--export-json", out, shlex.join(words)],
        check=True, capture_output=True,
    )  # fmt: skip
    (found,) = json.loads(out.read_text())["results"]
    return [float(each) for each in found["times"]]


def ours_s(cpugpu, words, device):
    """Return the times of the command as this program takes them, s."""
    done = cpugpu("time", "--device", device, "--rounds", RUNS, "--json", "--no-save", "--", *words, code=EXIT_OK)
    events = [event for event in done.events if isinstance(event, DeviceSampled)]
    return [ns / 1e9 for event in events for ns in event.samples.get(LATENCY, ())]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_command_takes_as_long_as_hyperfine_says(cpugpu, tmp_path, device):
    typed = (sys.executable, "-c", WORK, "{device}")
    ours, theirs = list[float](), list[float]()
    for _ in range(PAIRS):
        ours += ours_s(cpugpu, typed, device)
        theirs += hyperfine_s((*typed[:-1], device), tmp_path)
    print(f"{device}: {median(ours):.4f} s here, {median(theirs):.4f} s in hyperfine")
    assert median(ours) == pytest.approx(median(theirs), rel=0.03)
