"""The app itself on a simulated machine, for tests on a pseudo-terminal: `real_app.py FOLDER [PACE [watched]]`.

`watched` reads the driver of this machine nevertheless, which the app itself never mixes. PACE is real seconds per
virtual second. After the app it prints the run's status and the exit code, as a shell would see them on the normal
screen.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cpugpu_tui.model import Simulation
from cpugpu_tui.runs.planning import PlanRequest
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.ui.backend import TELEMETRY_S, Backend
from cpugpu_tui.ui.options import AppOptions
from cpugpu_tui.ui.start import run_app

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    pace = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    if "watched" in sys.argv:
        Backend._new_sampler = lambda self, emit, agents: Sampler(TELEMETRY_S, emit, agents.pids)  # type: ignore[method-assign]
    result = run_app(
        AppOptions(
            request=PlanRequest(rounds=5, simulation=Simulation(pace=pace)),
            database=folder / "results.db",
            log_path=folder / "log.txt",
        )
    )
    if result.exit_code:
        sys.exit(result.exit_code)  # after a hang-up there is no terminal to print on
    print(f"left with {result.run.status}, run {result.number}, {result.run.settled} rows")
