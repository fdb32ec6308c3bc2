"""The app, started by `disturbance` or `worker` on a pseudo-terminal: runs one long plan by itself, then leaves.

Arguments: arrangement (`process`, `thread`, `gated`, `ungated`), paints a second, seconds, database.
Monotonic time is cut into windows of `WINDOW_S`: in even ones the interface lives, in odd ones it does
not (`process`: `disturbance` suspends this program; `gated`: it takes no notice of gaps; `ungated`: it
does not repaint), so that both are measured in the same process, in turn. `thread` is `gated` without such windows.
SIGUSR1 pauses the run, SIGUSR2 resumes it and SIGTERM stops it, all without a paint. At the end, the times of gaps and
paints are written beside the database.
"""

import asyncio
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual import on

from cpugpu_tui.model import LATENCY, Case, Gap, Plan
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui import app as app_module
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.controllers import running
from cpugpu_tui.ui.live.messages import AgentReported, RunAdvanced, SeriesEnded
from cpugpu_tui.ui.terminal.guard import private_terminal

WINDOW_S = 1.0
SETTLE_S = 0.15
"""Time left out after each change, seconds: a resumed program first reads its backlog, which is not typical."""

CASES = (Case("matmul", 64, threads=1), Case("matmul", 512))


def is_live(mono_s: float) -> bool:
    """Whether the interface lives at this moment."""
    return int(mono_s / WINDOW_S) % 2 == 0


class Driven(CpuGpuApp):
    """Starts the run when the agent is ready and leaves when it is over."""

    CSS_PATH = Path(app_module.__file__).with_name("app.tcss")
    arrangement = "process"
    rate_hz = 1.0
    kept: tuple[Any, ...] = ()

    def on_mount(self) -> None:
        """Repaint without gaps, where that is what is measured."""
        super().on_mount()
        self.gap_ns: list[int] = []
        self.paint_ns: list[int] = []
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.bridge.pause)
        loop.add_signal_handler(signal.SIGUSR2, self.bridge.resume)
        loop.add_signal_handler(signal.SIGTERM, self.bridge.stop)
        if self.arrangement == "ungated":
            self.set_interval(1 / self.rate_hz, self.repaint_all)

    def repaint_all(self) -> None:
        """Paint the whole screen, as stock widgets do for any change."""
        self.gate.release()
        if is_live(time.monotonic()):
            self.screen.refresh(layout=True)

    def frame_done(self, *, in_vain: bool) -> None:
        """Note when a frame was written."""
        super().frame_done(in_vain=in_vain)
        if not in_vain and self.is_timing():
            self.paint_ns.append(time.monotonic_ns())

    @on(AgentReported)
    def start(self) -> None:
        """Press r."""
        if not self.state.situation.live and not self.state.situation.ran:
            self.running.run()

    @on(RunAdvanced)
    def hold_back(self, message: RunAdvanced) -> None:
        """In a window without interface, keep what came for the next one with."""
        self.gap_ns += [event.mono_ns for event in message.events if isinstance(event, Gap)]
        if self.arrangement == "gated" and not is_live(time.monotonic()):
            self.kept += message.events
            message.events = ()
            message.prevent_default()
        else:
            message.events, self.kept = self.kept + message.events, ()

    @on(SeriesEnded)
    def finish(self) -> None:
        """Press q."""
        self.leaving.leave()


def main() -> None:
    """Run the app."""
    arrangement, rate_hz, seconds, database = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])

    def plan(request: PlanRequest) -> Plan:
        del request
        return Plan(
            "disturbance", CASES, ("auto",), metrics=(LATENCY,), rounds=1_000_000, window=1_000_000, budget_s=1e9,
            max_seconds=seconds, gaps=arrangement != "ungated", gap_every_s=1 / rate_hz,
        )  # fmt: skip

    running.build_plan = plan
    Driven.arrangement, Driven.rate_hz = arrangement, rate_hz
    worker = "process" if arrangement == "process" else "thread"
    options = AppOptions(request=replace(PlanRequest(), names=("quick",)), worker=worker, database=database)
    with private_terminal(database.with_suffix(".log")):
        app = Driven(options)
        app.run(mouse=False)
        database.with_suffix(".json").write_text(json.dumps({"gaps": app.gap_ns, "paints": app.paint_ns}))
        app.bridge.backend.close()


if __name__ == "__main__":
    main()
