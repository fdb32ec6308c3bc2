"""The launch-bound loop that `doctor --telemetry-cost` times: a tiny kernel and a synchronise, over and over.

An agent of its own kind: one JSON object a line on stdin (first the device, then a block each) and one back. The
sampler runs in the controller, as in real life; this process knows nothing of it. Bound by launches because that
is what telemetry disturbs: both wait for the driver's locks.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from typing import Protocol

from cpugpu_tui.agent.guardian import guard
from cpugpu_tui.agent.main import private_stdout
from cpugpu_tui.agent.worker import quiet_interpreter
from cpugpu_tui.model import Simulation
from cpugpu_tui.timing.timers import Stopwatch

CALLS = 200
"""Calls between two looks at the clock: 5 ms at 25 µs a call."""

WARM_UP_S = 1.0
"""A GPU that slept needs up to half a second to reach its clock (method.md)."""


class Loop(Protocol):
    """Something that can be timed in blocks."""

    label: str
    """The device, in words."""

    def block(self, seconds: float) -> tuple[int, float]:
        """Return the calls made within `seconds`, and the time they took, ns."""


class GpuLoop:
    """The real thing, on torch's first GPU."""

    def __init__(self) -> None:
        """Take the GPU's context.

        Raises:
            ValueError: torch can use no GPU; its text is one sentence of cause and one of remedy.
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
    """A made-up GPU in virtual time, on which telemetry costs nothing."""

    def __init__(self, simulation: Simulation) -> None:
        """Raise ValueError where the simulated machine has no GPU."""
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
    except Exception as error:  # noqa: BLE001 - the controller tells the person, whatever it is
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
