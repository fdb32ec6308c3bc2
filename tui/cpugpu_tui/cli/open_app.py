"""Opens the app, and prints the result of its last run after it has closed."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from cpugpu_tui.errors import UsageError, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.model import Simulation
    from cpugpu_tui.session.request import PlanRequest
    from cpugpu_tui.telemetry.recording import Trace
    from cpugpu_tui.ui.app_state import AppResult


def open_app(
    options: RunOptions, *, theme: str | None, mouse: bool, simulate: str | None, replay: Path | None = None
) -> int:
    """Open the app and return its exit code. Without a terminal, print a notice and run `quick` instead.

    Raises:
        UsageError: an option, the terminal, the theme or the trace to replay cannot be used.
    """
    # Collections during imports take a tenth of the time to the first frame. The app enables them after it.
    gc.disable()
    from cpugpu_tui.cli.running.options import found_python
    from cpugpu_tui.config import load_config, paths
    from cpugpu_tui.config.parsing import parse_simulation
    from cpugpu_tui.config.settings import resolved
    from cpugpu_tui.session.own_workloads import has_installed_workloads
    from cpugpu_tui.session.request import PlanRequest, usual_starts
    from cpugpu_tui.ui.keys import keymap_of

    configured = load_config()
    settings = resolved(configured, os.environ)
    mnist, devices = settings["mnist"].value, settings["device"].value
    request = PlanRequest(
        devices=devices if isinstance(devices, tuple) else ("auto",),
        mnist=paths.absolute(str(mnist)) if mnist else None,
        simulation=None if simulate is None else parse_simulation(simulate),
        starts=usual_starts(os.environ),
    )
    keymap = keymap_of(configured.keys)
    trace = _trace(replay, request.simulation) if replay is not None else None
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not is_terminal:
        if theme is not None:  # in a terminal the app checks it
            from cpugpu_tui.ui.themes import require_theme

            require_theme(theme, paths.config_dir() / "themes")
        print_notice("cpugpu-tui: Not in a terminal, so `cpugpu-tui run quick` runs instead of the app.")
    # The interpreter must be known now if it loads workloads. Otherwise the app searches after its first frame.
    installed = has_installed_workloads()
    if not is_terminal or options.workloads or installed:
        options = options._replace(python=found_python(options.python, options.worker, request.simulation))
    if not is_terminal:
        from cpugpu_tui.cli.running.modes import run_headless

        gc.enable()
        return run_headless(request, options, as_json=False)
    request = _with_own(request, options, installed=installed)
    from cpugpu_tui.ui.app_state import AppOptions
    from cpugpu_tui.ui.start import run_app

    result = run_app(
        AppOptions(
            request=request, python=options.python, worker=options.worker, database=options.database,
            save=options.save, theme=theme, config_dir=paths.config_dir(), replay=trace, keymap=keymap,
            ceilings=options.ceilings, mouse=mouse,
        )
    )  # fmt: skip
    return _finish(result)


def _finish(result: AppResult) -> int:
    """Print the last run's table, save what is not saved yet, close the history, and return the exit code."""
    from cpugpu_tui.cli.running.saving import as_saved, closing_outbox, save_rest

    outbox, run = result.outbox, result.run.run
    with closing_outbox(outbox) if outbox is not None else nullcontext():
        # After a hang-up there is no terminal to print to, and the signal's exit code must stay.
        if result.run.rows and result.exit_code == 0:
            from cpugpu_tui.cli.output.tables import print_state

            unsaved = outbox.unsaved.of(run.run_id) if outbox is not None and run is not None else None
            print_state(*as_saved(result.run, unsaved, result.notice))
        return save_rest(outbox, result.exit_code)


def open_measured() -> None:
    """Open the app for `doctor --telemetry-cost`, which gives its options as JSON in the first argument.

    It has a terminal of its own and no settings, so that every machine shows the same screen.
    """
    import fcntl
    import json
    import termios

    from cpugpu_tui.model import Simulation
    from cpugpu_tui.session.request import PlanRequest
    from cpugpu_tui.ui.app_state import AppOptions
    from cpugpu_tui.ui.start import run_app

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the end of this terminal then ends even a suspended app
    given = json.loads(sys.argv[1])
    folder, simulation = Path(given["folder"]), given["simulation"]
    # As many rounds as there may be: each case then lasts for its 5 s on each device.
    request = PlanRequest(
        ("matmul",), sizes="64,128,256,512", threads="1,all", rounds=1000, max_seconds=given["seconds"],
        simulation=None if simulation is None else Simulation(**simulation),
    )  # fmt: skip
    result = run_app(
        AppOptions(
            request=request, python=given["python"], database=folder / "results.db", log_path=folder / "log.txt",
            ceilings=False,
        )
    )  # fmt: skip
    sys.exit(_finish(result))


def open_as_configured() -> int:
    """Open the app with the settings of environment and config file, and return its exit code.

    Raises:
        UsageError: see `open_app`; or the config is wrong.
    """
    gc.disable()  # see `open_app`
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.config import load_config
    from cpugpu_tui.config.settings import resolved

    settings = resolved(load_config(), os.environ)
    simulate = os.environ.get("CPUGPU_SIMULATE")
    variables = {name: f"CPUGPU_{name.upper()}" for name in ("device", "worker", "simulate")}
    if given := {name: variable for name, variable in variables.items() if os.environ.get(variable)}:
        from cpugpu_tui.config.parsing import check_variables  # only here, to not delay the first frame

        check_variables(given, {"simulate": simulate, **{name: each.value for name, each in settings.items()}})
    text = {name: None if each.value is None else str(each.value) for name, each in settings.items()}
    workloads, database = settings["workloads"].value, text["database"]
    options = RunOptions(
        worker=text["worker"] or "process", python=text["python"], database=Path(database) if database else None,
        workloads=workloads if isinstance(workloads, tuple) else (), ceilings=settings["ceilings"].value is not False,
    )  # fmt: skip
    return open_app(options, theme=text["theme"], mouse=settings["mouse"].value is not False, simulate=simulate)


def _with_own(request: PlanRequest, options: RunOptions, *, installed: bool) -> PlanRequest:
    """Return a request that includes the user's presets, workload files and packages.

    A package that fails to load is only reported on stderr.

    Raises:
        UsageError: the config or a file is wrong.
    """
    from cpugpu_tui.cli.running.options import all_own, refuse, say
    from cpugpu_tui.config.paths import absolute

    own, refused = all_own(options.workloads, options.python, installed=installed)
    named = set(map(absolute, options.workloads))
    refuse(tuple(each for each in refused if each.source in named))
    say(refused)
    return request._replace(own=own)


def _trace(path: Path, simulation: Simulation | None) -> Trace:
    """Load and check the trace to replay, before the app takes over the screen."""
    from cpugpu_tui.telemetry.recording import load

    if simulation is not None:
        raise UsageError("--simulate cannot be combined with --replay.", "Leave one out, or unset CPUGPU_SIMULATE.")
    trace = load(path)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "The app needs a terminal to replay a trace.",
            f"Print it with `cpugpu-tui telemetry --replay {trace.name}`.",
        )
    return trace
