"""Drift between runs of a simulated machine, from the command line: on by default, off with `drift=0`."""

from tests.helpers.command_line import FAST

from cpugpu_tui.model import LATENCY, DeviceSampled, RunStarted

RUN = ("run", "matmul", "--size", "64", "--rounds", "1", "--no-save", "--json", "--simulate")


def latencies(cpugpu, simulated):
    done = cpugpu.here(*RUN, simulated, code=0)
    (started,) = (event for event in done.events if isinstance(event, RunStarted))
    # A drawn seed stays out of the saved plan, where it would count as a difference between runs.
    assert (started.plan.simulation.drift_seed == 0) == ("drift_seed" not in simulated)
    return [event.samples[LATENCY] for event in done.events if isinstance(event, DeviceSampled) and event.round_index]


def test_two_runs_of_the_same_seed_differ_unless_drift_is_off(cpugpu):
    drifting = FAST.replace("drift=0", "noise=0")
    assert latencies(cpugpu, drifting) != latencies(cpugpu, drifting)
    assert latencies(cpugpu, FAST) == latencies(cpugpu, FAST)
    assert latencies(cpugpu, f"{drifting},drift_seed=7") == latencies(cpugpu, f"{drifting},drift_seed=7")
