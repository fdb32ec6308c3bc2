"""The app on readings that a test makes up: `telemetry_app.py [GPUS]`, one new sweep with each SIGUSR1.

Every value of every GPU differs from that of the sweep before.
"""

import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from rich.console import Console
from tests.helpers.app.fake_run import FakeBackend
from tests.helpers.app.machine_readings import moving

from cpugpu_tui.render.capabilities import this_terminal
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.glyphs import glyphs_for
from cpugpu_tui.ui.terminal.diff_driver import DiffDriver
from cpugpu_tui.ui.terminal.guard import private_terminal


class MovingBackend(FakeBackend):
    """Sends sweep number N+1 when it is told to."""

    def __init__(self, gpus: int) -> None:
        super().__init__(telemetry=moving(0, gpus))
        self._gpus = gpus
        self.wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def open(self, *tell: Any) -> None:
        super().open(*tell)
        threading.Thread(target=self._send, daemon=True).start()

    def _send(self) -> None:
        second = 0
        while self.wanted.get():
            second += 1
            self.read(moving(second, self._gpus))


if __name__ == "__main__":
    backend = MovingBackend(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    signal.signal(signal.SIGUSR1, lambda *_: backend.wanted.put(True))
    found = this_terminal()
    os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", found.textual_color_system)
    with private_terminal(Path(os.devnull), utf8=found.utf8) as terminal:
        app = CpuGpuApp(AppOptions(), glyphs_for(found), backend, driver_class=DiffDriver)
        app.error_console = Console(file=terminal, markup=False, highlight=False)
        app.run(mouse=False)
