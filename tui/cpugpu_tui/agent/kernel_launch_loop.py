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
from typing import Protocol

from cpugpu_tui.agent.guardian import guard
from cpugpu_tui.agent.main import private_stdout, quiet_interpreter
from cpugpu_tui.model import Simulation
from cpugpu_tui.timing.timers import Stopwatch

CALLS = 200
"""Calls between two readings of the clock: 5 ms at 25 µs a call."""

WARM_UP_S = 1.0
"""An idle GPU needs up to half a second to reach its full clock (method.md)."""


class Loop(Protocol):
    """A loop that runs in blocks."""

    label: str
    """Name of the device."""

    def block(self, seconds: float) -> tuple[int, float]:
        """Call for about `seconds`; return the number of calls and their time, ns."""


class GpuLoop:
    """The loop on torch's first GPU."""

    def __init__(self) -> None:
        """Create a GPU context and warm up.

        Raises:
            ValueError: torch cannot use a GPU; the text has a sentence of cause and one of remedy.
        """
        import torch

        from cpugpu_tui.timing.torch_devices import why_no_gpu

        problem = why_no_gpu()
        if problem is not None:
            raise ValueError(problem)
        self.label = str(torch.cuda.get_device_name(0))
        self._number = torch.zeros(1, device="cuda:0")
        self._synchronize: Callable[[], None] = torch.cuda.synchronize
        self.block(WARM_UP_S)

    def block(self, seconds: float) -> tuple[int, float]:
        """See `Loop`."""
        add, synchronize, calls = self._number.add_, self._synchronize, 0
        watch = Stopwatch()
        while (elapsed_s := watch.elapsed_s()) < seconds:
            for _ in range(CALLS):
                add(1.0)
                synchronize()
            calls += CALLS
        return calls, 1e9 * elapsed_s


class SimulatedLoop:
    """A simulated GPU in virtual time, which telemetry does not disturb."""

    def __init__(self, simulation: Simulation) -> None:
        """Raise ValueError if the simulated machine has no GPU."""
        if simulation.gpus < 1:
            raise ValueError("The simulated machine has no GPU. Leave gpus=0 out.")
        self.label = "simulated GPU"
        self._call_ns = simulation.launch_ns + simulation.kernel_overhead_ns + simulation.sync_ns
        self._noise = simulation.noise
        self._random = random.Random(simulation.seed)

    def block(self, seconds: float) -> tuple[int, float]:
        """See `Loop`."""
        calls = max(1, int(seconds * 1e9 / self._call_ns))
        return calls, calls * self._call_ns * self._random.lognormvariate(0.0, self._noise)


def main() -> None:
    """Answer each line until stdin ends."""
    guard()
    answers = os.fdopen(private_stdout(), "w", encoding="utf-8")

    def answer(**data: object) -> None:
        print(json.dumps(data), file=answers, flush=True)

    try:
        simulation = json.loads(sys.stdin.readline())["simulation"]
        loop: Loop = GpuLoop() if simulation is None else SimulatedLoop(Simulation(**simulation))
    except Exception as error:  # noqa: BLE001 - the controller shows the error
        is_sentence = type(error) is ValueError
        answer(problem=str(error) if is_sentence else f"The GPU cannot be used: {type(error).__name__}: {error}")
        return
    answer(label=loop.label)
    with quiet_interpreter():
        for line in sys.stdin:
            calls, elapsed_ns = loop.block(float(json.loads(line)["seconds"]))
            answer(calls=calls, elapsed_ns=elapsed_ns)


if __name__ == "__main__":
    main()
