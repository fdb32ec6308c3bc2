"""The loop that `doctor --telemetry-cost` times: launch a tiny kernel and synchronise, again and again.

Its protocol is one JSON object per line on stdin (first the device, then one for each block), and one as the answer.
Telemetry is sampled by the controller, as in a run. The loop is bound by launches because telemetry delays these:
both wait for the driver's locks.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable

from cpugpu_tui.agent.guardian import guard
from cpugpu_tui.agent.main import private_stdout, quiet_interpreter
from cpugpu_tui.model import Simulation
from cpugpu_tui.timing.timers import Stopwatch
from cpugpu_tui.timing.torch_devices import why_no_gpu

CALLS = 200
"""Calls between two readings of the clock: 5 ms at 25 µs a call."""

WARM_UP_S = 1.0
"""An idle GPU needs up to half a second to reach its full clock (method.md)."""


Block = Callable[[float], tuple[int, float]]
"""Calls for about so many seconds; returns the number of calls and their time, ns."""


def gpu_loop() -> tuple[str, Block]:
    """Return the name of torch's first GPU and the loop on it, warmed up.

    Raises:
        ValueError: torch cannot use a GPU; the text has a sentence of cause and one of remedy.
    """
    import torch

    problem = why_no_gpu()
    if problem is not None:
        raise ValueError(problem)
    add, synchronize = torch.zeros(1, device="cuda:0").add_, torch.cuda.synchronize

    def block(seconds: float) -> tuple[int, float]:
        calls, watch = 0, Stopwatch()
        while (elapsed_s := watch.elapsed_s()) < seconds:
            for _ in range(CALLS):
                add(1.0)
                synchronize()
            calls += CALLS
        return calls, 1e9 * elapsed_s

    block(WARM_UP_S)
    return str(torch.cuda.get_device_name(0)), block


def simulated_loop(simulation: Simulation) -> tuple[str, Block]:
    """Return the same for a simulated GPU in virtual time, which telemetry does not disturb.

    Raises:
        ValueError: the simulated machine has no GPU.
    """
    if simulation.gpus < 1:
        raise ValueError("The simulated machine has no GPU. Leave gpus=0 out.")
    call_ns = simulation.launch_ns + simulation.kernel_overhead_ns + simulation.sync_ns
    chance = random.Random(simulation.seed)

    def block(seconds: float) -> tuple[int, float]:
        calls = max(1, int(seconds * 1e9 / call_ns))
        return calls, calls * call_ns * chance.lognormvariate(0.0, simulation.noise)

    return "simulated GPU", block


def main() -> None:
    """Answer each line until stdin ends."""
    guard()
    answers = os.fdopen(private_stdout(), "w", encoding="utf-8")

    def answer(**data: object) -> None:
        print(json.dumps(data), file=answers, flush=True)

    try:
        simulation = json.loads(sys.stdin.readline())["simulation"]
        label, block = gpu_loop() if simulation is None else simulated_loop(Simulation(**simulation))
    except Exception as error:  # noqa: BLE001 - the controller shows the error
        is_sentence = type(error) is ValueError
        answer(problem=str(error) if is_sentence else f"The GPU cannot be used: {type(error).__name__}: {error}")
        return
    answer(label=label)
    with quiet_interpreter():
        for line in sys.stdin:
            calls, elapsed_ns = block(float(json.loads(line)["seconds"]))
            answer(calls=calls, elapsed_ns=elapsed_ns)


if __name__ == "__main__":
    main()
