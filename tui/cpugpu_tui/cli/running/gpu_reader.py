"""What the driver reads of the GPUs, now or during a calibration."""

from __future__ import annotations

from cpugpu_tui.model import Event, GpuTelemetry, Progressed, Simulation
from cpugpu_tui.telemetry.driver import Asker
from cpugpu_tui.telemetry.simulated import simulated_sample

PATIENCE_S = 5.0
"""How long to wait for the driver. Without persistence mode it must wake each GPU first."""

COPIES = "copies"
"""First word of a calibration step in which the GPU copies: an idle GPU may lower its PCIe generation."""


class GpuReader:
    """Asks the driver once, on a thread of its own."""

    def __init__(self, simulation: Simulation | None = None) -> None:
        self._simulation = simulation
        self._asker: Asker | None = None

    def see(self, event: Event) -> None:
        """Ask at the first copies of a calibration."""
        if isinstance(event, Progressed) and event.note.startswith(COPIES):
            self._ask()

    def _ask(self) -> None:
        if self._asker is None and self._simulation is None:
            self._asker = Asker()
            self._asker.start()
            self._asker.ask(set())

    def gpus(self) -> tuple[GpuTelemetry, ...]:
        """Return the answer, asked now if it was not yet; empty if the driver does not answer."""
        if self._simulation is not None:
            return simulated_sample(0.0).gpus
        self._ask()
        assert self._asker is not None
        answer = self._asker.answer(PATIENCE_S)
        self._asker.end()
        if answer is None:  # an NVML call hangs: abandon its thread
            return ()
        self._asker.join(PATIENCE_S)
        return answer.gpus

    def readings(self, uuid: str | None) -> dict[str, float]:
        """Return what a reference holds of a GPU's readings; empty if they are unknown."""
        from cpugpu_tui.state.reference import READINGS

        own = next((gpu.readings for gpu in self.gpus() if gpu.uuid == uuid), {})
        known = {name: own[name].value for name in READINGS if name in own}
        return {name: value for name, value in known.items() if value is not None}
