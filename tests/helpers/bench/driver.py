"""The app, started by the bench `worker` on a pseudo-terminal: runs one long plan by itself, then leaves.

Arguments: worker (`process` or `thread`), seconds, database. SIGUSR1 pauses the run, SIGUSR2 resumes it and SIGTERM
stops it, all without a paint. At the end, the times of gaps and paints are written beside the database.
"""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import ClassVar

from textual import on

from cpugpu_tui.model import LATENCY, Case, Gap, Plan
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui import app as app_module
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.controllers import running
from cpugpu_tui.ui.live.messages import AgentReported, RunAdvanced, SeriesEnded
from cpugpu_tui.ui.terminal.guard import private_terminal

SETTLE_S = 0.15
"""Time left out after each change, seconds: a resumed program first reads its backlog, which is not typical."""

CASES = (Case("matmul", 64, threads=1), Case("matmul", 512))


class Driven(CpuGpuApp):
    """Starts the run when the agent is ready and leaves when it is over."""

    CSS_PATH = Path(app_module.__file__).with_name("app.tcss")

    gap_ns: ClassVar[list[int]] = []
    paint_ns: ClassVar[list[int]] = []

    def on_mount(self) -> None:
        """Listen to signals."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.bridge.pause)
        loop.add_signal_handler(signal.SIGUSR2, self.bridge.resume)
        loop.add_signal_handler(signal.SIGTERM, self.bridge.stop)

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
    def note_gaps(self, message: RunAdvanced) -> None:
        """Note when gaps began."""
        self.gap_ns += [event.mono_ns for event in message.events if isinstance(event, Gap)]

    @on(SeriesEnded)
    def finish(self) -> None:
        """Press q."""
        self.leaving.leave()


def main() -> None:
    """Run the app."""
    worker, seconds, database = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])

    def plan(request: PlanRequest) -> Plan:
        del request
        return Plan(
            "endless", CASES, ("auto",), metrics=(LATENCY,), rounds=1_000_000, window=1_000_000, budget_s=1e9,
            max_seconds=seconds, gaps=True, gap_every_s=1.0,
        )  # fmt: skip

    running.build_plan = plan
    options = AppOptions(request=PlanRequest(("quick",)), worker=worker, database=database)
    with private_terminal(database.with_suffix(".log")):
        app = Driven(options)
        app.run(mouse=False)
        database.with_suffix(".json").write_text(json.dumps({"gaps": app.gap_ns, "paints": app.paint_ns}))
        app.bridge.backend.close()


if __name__ == "__main__":
    main()
