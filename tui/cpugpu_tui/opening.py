"""Opens the app, and leaves the result of its last run on the normal screen."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpugpu_tui.errors import UsageError, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.cli.export import Outputs
    from cpugpu_tui.cli.fleet import Asked
    from cpugpu_tui.cli.options import RunOptions
    from cpugpu_tui.model import Simulation
    from cpugpu_tui.session.fleet.running import Deliver, Fleet
    from cpugpu_tui.session.fleet.state import FleetState
    from cpugpu_tui.session.planning import PlanRequest
    from cpugpu_tui.telemetry.recording import Trace
    from cpugpu_tui.ui.options import AppResult


def open_app(
    python: str | None = None,
    worker: str = "process",
    database: Path | None = None,
    save: bool = True,
    theme: str | None = None,
    simulate: str | None = None,
    replay: Path | None = None,
    workloads: Sequence[Path | str] | None = None,
    ceilings: bool = True,
) -> int:
    """Open the app and return its exit code; without a terminal, run `quick` instead and say so.

    Raises:
        UsageError: an option, the terminal, the theme or the trace to replay cannot be used.
    """
    from cpugpu_tui.cli.options import RunOptions, check_worker, found_python, simulation
    from cpugpu_tui.config import config, paths
    from cpugpu_tui.config.settings import resolved
    from cpugpu_tui.session.own import offers_installed
    from cpugpu_tui.session.planning import PlanRequest
    from cpugpu_tui.ui.custom_keys import keymap_of

    files = tuple(map(str, workloads or ()))
    configured = config.load()
    settings = resolved(configured, os.environ)
    mnist, asked = settings["mnist"].value, settings["device"].value
    request = PlanRequest(
        devices=asked if isinstance(asked, tuple) else ("auto",),
        mnist=paths.absolute(str(mnist)) if mnist else None,
        simulation=simulation(simulate),
    )
    check_worker(worker)
    keymap = keymap_of(configured.keys)
    trace = _trace(replay, request.simulation) if replay is not None else None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        from cpugpu_tui.cli.run import run_headless

        print_notice("cpugpu-tui: no terminal, so this is `cpugpu-tui run quick`.")
        found = found_python(python, worker, request.simulation)
        return run_headless(request, RunOptions(worker, found, database, save, files, ceilings), as_json=False)
    if files or offers_installed():  # whoever loads them is needed now; else the app searches after its first frame
        python = found_python(python, worker, request.simulation)
    request = _with_own(request, files, python)
    from cpugpu_tui.ui.options import AppOptions
    from cpugpu_tui.ui.start import run_app

    result = run_app(
        AppOptions(
            request,
            python,
            worker,
            database,
            save,
            theme,
            paths.config_dir(),
            replay=trace,
            keymap=keymap,
            ceilings=ceilings,
        )
    )
    return _left(result)


def _left(result: AppResult) -> int:
    """Leave the last run's table, save what is not saved yet, close the history; return the exit code."""
    from cpugpu_tui.cli.run import as_saved
    from cpugpu_tui.cli.saving import closed, save_rest

    outbox, run = result.outbox, result.run.run
    with closed(outbox) if outbox is not None else nullcontext():
        # After a hang-up there is no terminal to print to, and the signal's exit code must stand.
        if result.run.rows and result.exit_code == 0:
            from cpugpu_tui.cli.tables import print_state

            unsaved = outbox.unsaved.of(run.run_id) if outbox is not None and run is not None else None
            print_state(*as_saved(result.run, unsaved, result.notice))
        return save_rest(outbox, result.exit_code)


def open_demo(
    file: Path | None = None,
    pace: str | None = None,
    theme: str | None = None,
    *,
    table: bool = False,
    as_json: bool = False,
) -> int:
    """Play the recording, and leave the last run's table; without a terminal, or with `table`, print it all.

    Raises:
        UsageError: the pace is none, the recording cannot be read, or the terminal or the theme cannot be used.
    """
    from cpugpu_tui.demo.recording import load, shipped
    from cpugpu_tui.demo.timeline import pace_of

    factor = pace_of(pace)
    recording = load(file) if file is not None else shipped()
    if table or as_json or not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        from cpugpu_tui.cli.demo import print_demo

        print_demo(recording, as_json=as_json)
        return 0
    from cpugpu_tui.config import config, paths
    from cpugpu_tui.ui.custom_keys import keymap_of
    from cpugpu_tui.ui.options import AppOptions
    from cpugpu_tui.ui.start import run_app

    options = AppOptions(
        theme=theme, save=False, config_dir=paths.config_dir(), keymap=keymap_of(config.load().keys),
        demo=recording, demo_pace=factor,
    )  # fmt: skip
    result = run_app(options)
    if result.run.rows and result.exit_code == 0:
        from cpugpu_tui.cli.demo import print_last

        print_last(recording, result.run)
    return result.exit_code


def open_fleet(
    request: PlanRequest, asked: Asked, options: RunOptions, outputs: Outputs, theme: str | None = None
) -> int:
    """Run a fleet in the app, leave its tables on the normal screen, and return the exit code.

    Raises:
        UsageError: request, hosts or theme are wrong.
        UnfitError: this terminal cannot show it, or Slurm cannot be asked.
    """
    from cpugpu_tui.cli.fleet import run_fleet
    from cpugpu_tui.config import config, paths
    from cpugpu_tui.ui.custom_keys import keymap_of
    from cpugpu_tui.ui.options import FleetOptions
    from cpugpu_tui.ui.start import run_fleet_app

    looks = FleetOptions(theme, paths.config_dir(), keymap_of(config.load().keys))

    def show(fleet: Fleet, state: FleetState, take: Deliver) -> None:
        run_fleet_app(fleet, state, take, looks)

    return run_fleet(request, asked, options, as_json=False, outputs=outputs, show=show)


def open_as_configured() -> int:
    """Open the app as environment and config say, where nobody typed an option; return its exit code.

    Raises:
        UsageError: as `open_app`, or the config is wrong.
    """
    from cpugpu_tui.config import config
    from cpugpu_tui.config.settings import resolved

    settings = resolved(config.load(), os.environ)
    text = {name: None if each.value is None else str(each.value) for name, each in settings.items()}
    workloads, database = settings["workloads"].value, text["database"]
    return open_app(
        text["python"],
        text["worker"] or "process",
        Path(database) if database else None,
        theme=text["theme"],
        simulate=os.environ.get("CPUGPU_SIMULATE"),
        workloads=workloads if isinstance(workloads, tuple) else None,
        ceilings=settings["ceilings"].value is not False,
    )


def _with_own(request: PlanRequest, files: tuple[str, ...], python: str | None) -> PlanRequest:
    """Return a request that knows the person's own presets, files and packages.

    Raises:
        UsageError: the config or a file is wrong; a bad package is said on stderr, for later.
    """
    from cpugpu_tui.cli.own import all_own, refuse, say
    from cpugpu_tui.config.paths import absolute

    own, refused = all_own(files, python)
    named = set(map(absolute, files))
    refuse(tuple(each for each in refused if each.source in named))
    say(refused)
    return replace(request, own=own)


def _trace(path: Path, simulation: Simulation | None) -> Trace:
    """Return the trace to replay, checked before the screen changes."""
    from cpugpu_tui.telemetry.recording import load

    if simulation is not None:
        raise UsageError("--replay and --simulate exclude each other.", "Leave one out, or unset CPUGPU_SIMULATE.")
    trace = load(path)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "The app needs a terminal to replay a trace.",
            f"Print it with `cpugpu-tui telemetry --replay {trace.name}`.",
        )
    return trace
