"""`cpugpu-tui noise` as a person meets it."""

import re

import pytest
from tests.helpers.command_line import FAST

from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE

pytestmark = pytest.mark.usefixtures("agents_here")

QUIET = f"{FAST},noise=0.005,drift=0.005"
LOUD = f"{FAST},noise=0.005,drift=0.1"


def test_it_tells_the_floor_and_what_made_it_worse_than_the_last_time(cpugpu, words):
    first = cpugpu.here("noise", "--simulate", QUIET)
    assert (first.code, first.err) == (EXIT_OK, "")
    assert len(re.findall(r"^ matmul [\d,]+ +(CPU|GPU|GPU kernels) ", first.out, flags=re.MULTILINE)) == 9
    assert "last time" not in first.out
    words("\n".join(first.out.splitlines()[-2:]))
    second = cpugpu.here("noise", "--simulate", LOUD)
    last = second.out.splitlines()[-1]
    assert last.startswith("Noisier than the last time (runs 1-5): CPU ")
    assert last.endswith("What differs: simulation: drift=0.005 before, drift=0.1 now.") or "drift=0.1" in last
    assert (
        cpugpu.here("noise", "--simulate", QUIET).out.splitlines()[-1] == "No noisier than the last time (runs 6-10)."
    )


def test_json_has_the_change_that_shows_by_runs(cpugpu):
    (told,) = cpugpu.here("noise", "--simulate", QUIET, "--repeat", "3", "--json").objects
    assert told["event"] == "Noise"
    assert told["simulated"] is True
    assert told["before"] is None
    assert len(told["series"]["numbers"]) == 3
    for each in told["floors"]:
        assert each["change"]["1"] > 0
        assert each["change"]["10"] < each["change"]["5"]


def test_it_needs_two_runs_and_leaves_out_what_failed(cpugpu, words):
    refused = cpugpu.here("noise", "--repeat", "1", code=EXIT_USAGE)
    words(refused.err)
    failed = cpugpu.here("noise", "--simulate", f"{QUIET},error_size=64", "--repeat", "2")
    assert "matmul 512" in failed.out
    assert "matmul 64" not in failed.out
