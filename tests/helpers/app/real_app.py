"""The app itself on a simulated machine, for a pseudo-terminal: `real_app.py FOLDER [PACE [WORDS]]`.

`watched` reads the driver of this machine nevertheless, which the app itself never mixes. With `busy` or `blocked` help
never comes back to the event loop, once the file `wedged` is in FOLDER. PACE is real seconds per virtual second.
`endless` plans 500 sizes, more than any test or bench waits for. After the app it prints the run's status and the exit
code, as a shell would see them on the normal screen.
"""

import sys
import threading
from pathlib import Path
from typing import Any

from cpugpu_tui.model import Simulation
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.telemetry import sampler
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.start import run_app


def wedge(app: Any) -> None:
    (folder / "wedged").touch()
    if "blocked" in sys.argv:
        nobody_lets_go = threading.Lock()
        with nobody_lets_go:
            nobody_lets_go.acquire()
    while True:
        pass


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    pace = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    if "watched" in sys.argv:
        sampler.SimulatedSampler = lambda interval_s, emit, _gpus: Sampler(interval_s, emit)  # type: ignore[misc,assignment]
    if "busy" in sys.argv or "blocked" in sys.argv:
        from cpugpu_tui.ui.controllers.paging import Paging  # imports Textual, which reads its colours then

        Paging.toggle_help = wedge  # type: ignore[method-assign]
    simulation = Simulation(pace=pace)
    endless = PlanRequest(("matmul",), sizes="64:4056:8", simulation=simulation)
    result = run_app(
        AppOptions(
            request=endless if "endless" in sys.argv else PlanRequest(rounds=6, simulation=simulation),
            database=folder / "results.db",
            log_path=folder / "log.txt",
        )
    )
    if result.exit_code:
        sys.exit(result.exit_code)  # after a hang-up there is no terminal to print on
    print(f"left with {result.run.status}, run {result.number}, {result.run.settled} rows")
