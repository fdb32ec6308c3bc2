"""A search in real processes: an agent that dies costs one size, and what the person reads is the same everywhere."""

import json

from tests.helpers.command_line import FAST

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.model import CaseFailed, CasesChosen

SEARCH = ("run", "matmul", "--find-crossover", "--max-size", "2000")
SLOW = f"{FAST},sync_ns=160000,kernel_overhead_ns=40000,cpu_ns_per_flop=0.4,gpu_ns_per_flop=0.001"


def answer_of(out):
    """The one line that is no event."""
    (line,) = [json.loads(line) for line in out.splitlines() if '"event": "Answer"' in line]
    return dict(line)


def test_a_dead_agent_costs_one_size_of_a_search(cpugpu):
    done = cpugpu(*SEARCH, "--simulate", f"{SLOW},crash_size=200", "--json", code=EXIT_CASES_FAILED)
    crashed = [event for event in done.events if isinstance(event, CaseFailed)]
    assert [(event.case.split("/")[2], event.kind) for event in crashed] == [("200", "crashed")]
    assert any(isinstance(event, CasesChosen) for event in done.events)
    (sweep,) = answer_of(done.out)["sweeps"]  # type: ignore[misc, call-overload]
    found = sweep["crossover"]
    assert found["kind"] == "crossover"
    assert found["high"] / found["low"] <= 1.1


def test_the_time_limit_ends_a_search_with_what_it_has(cpugpu, limits_when_ready):
    done = cpugpu.here(*SEARCH, "--simulate", f"{SLOW},pace=0.5", "--max-seconds", "1.5", code=EXIT_OK)
    assert "--max-seconds" in done.out
