"""The real machine for commands: processes in place of torch's calls, on the same devices and sensors."""

from __future__ import annotations

import tempfile
from typing import Any

from cpugpu_tui.model import Case, Check, CodeTraced, Plan, Progressed
from cpugpu_tui.timing.channel import Control, Emit
from cpugpu_tui.timing.timers import Timer
from cpugpu_tui.timing.timers.command import CommandOperation, CommandTimer
from cpugpu_tui.timing.torch_machine import TorchMachine


class CommandMachine(TorchMachine):
    """Devices of this process, for which commands are run. This process itself uses no GPU."""

    def __init__(self, plan: Plan, environment: dict[str, Any], emit: Emit, control: Control) -> None:
        super().__init__(plan, environment)
        self._codes = {code.name: code for code in plan.codes}
        self._emit = emit
        self._control = control
        self._folder = ""

    def timer(self, device: str) -> Timer:
        """Return the timer of a device, created on first use."""
        self._folder = self._folder or tempfile.mkdtemp(prefix="cpugpu-tui-output-")
        if device not in self._timers:
            found = next(each for each in self.devices if each.name == device)
            self._timers[device] = CommandTimer(
                found, self._codes, self._folder, self._probes, self._threads,
                lambda: self._control.stopping, self._announce,
            )  # fmt: skip
        return self._timers[device]

    def _announce(self, case: Case, device: str, phase: str) -> None:
        self._emit(Progressed(case=case.key, device=device, phase=phase))
        self._emit.flush()

    def make_inputs(self, case: Case) -> tuple[Any, ...]:
        """Return nothing: a command makes its own inputs."""
        del case
        return ()

    def placement(self, operation: Any, result: Any, device: str) -> tuple[tuple[str, ...], ...]:
        """Return nothing: tensors of other processes are not seen."""
        del operation, result, device
        return (), ()

    def examine(self, operation: CommandOperation, device: str) -> CodeTraced | None:  # type: ignore[override]
        """Return what the first run of the command did."""
        del device
        return operation.traced

    def check_later_call(self, operation: Any) -> None:
        """Do nothing: output is not compared."""

    def check(self, case: Case, inputs: Any, results: dict[str, Any], *, exact: bool) -> Check | None:
        """Return None: output is not compared."""
        del case, inputs, results, exact
        return None
