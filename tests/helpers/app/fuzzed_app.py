"""The app, the demo or a fleet on a simulated machine, telling how many bytes it has read: `fuzzed_app.py KIND FOLDER`.

KIND is `app`, `gpus`, `demo` or `fleet`. FOLDER holds the history, and a file `seen` whose first eight bytes are the
number of bytes read; names of the screens that were painted follow, a line each, the one on top last.
"""

import faulthandler
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from textual.app import App

from cpugpu_tui.__main__ import main as command_line
from cpugpu_tui.demo.recording import shipped
from cpugpu_tui.model import Simulation
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.start import run_app
from cpugpu_tui.ui.terminal.bounded_input import BoundedInputDriver
from cpugpu_tui.ui.terminal.textual_internals import WatchedApp

COUNT_BYTES = 8
QUICK_MACHINE = "cpu_overhead_ns=200000,launch_ns=200000,first_call_ns=0"
QUICK = Simulation(cpu_overhead_ns=200_000, launch_ns=200_000, first_call_ns=0)


def watch(seen: Path) -> None:
    """Let the app note what it reads and shows."""
    file = os.open(seen, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.pwrite(file, bytes(COUNT_BYTES), 0)
    count, last = 0, ""
    read, display = BoundedInputDriver._read, WatchedApp._display

    def counted(driver: BoundedInputDriver) -> bytes:
        nonlocal count
        data = read(driver)
        count += len(data)
        os.pwrite(file, count.to_bytes(COUNT_BYTES, "little"), 0)
        return data

    def noted(app: WatchedApp[Any], screen: Any, renderable: Any) -> None:
        nonlocal last
        display(app, screen, renderable)
        name = type(app.screen).__name__ if app.screen_stack else ""
        if name and name != last:
            os.pwrite(file, f"{name}\n".encode(), os.fstat(file).st_size)
            last = name

    handle = App._handle_exception

    def kept(app: App[Any], error: Exception) -> None:
        seen.with_name("crash").write_text("".join(traceback.format_exception(error)[-12:]))  # a terminal may be 1x1
        handle(app, error)

    run_thread = BoundedInputDriver.run_input_thread

    def watched(driver: BoundedInputDriver) -> None:
        try:
            run_thread(driver)
        except Exception:
            seen.with_name("crash").write_text(traceback.format_exc())
            raise

    BoundedInputDriver.run_input_thread = watched  # type: ignore[method-assign]
    App._handle_exception = kept  # type: ignore[method-assign]
    faulthandler.register(signal.SIGUSR1, seen.with_name("hang").open("w"))
    BoundedInputDriver._read = counted  # type: ignore[method-assign]
    WatchedApp._display = noted  # type: ignore[method-assign]


def main() -> int:
    """Run what was asked for; return the exit code."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    watch(folder / "seen")
    if kind == "fleet":
        hosts = ["-w", "n[1-2],bad", "--launcher", "local", "--tui", "--python", sys.executable]
        sys.argv[1:] = ["fleet", "run", *hosts, "matmul", "--size", "64,128", "--simulate", f"{QUICK_MACHINE},gpus=2"]
        command_line()
    gpus = 3 if kind == "gpus" else 1
    options = AppOptions(
        request=PlanRequest(rounds=2, simulation=Simulation(gpus=3) if gpus > 1 else QUICK),
        worker="process" if gpus > 1 else "thread",
        database=folder / f"{kind}.db",
        log_path=folder / "log.txt",
        config_dir=folder,
        demo=shipped() if kind == "demo" else None,
    )
    return run_app(options).exit_code


if __name__ == "__main__":
    sys.exit(main())
