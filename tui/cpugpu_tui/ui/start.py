"""Start the app from the command line. Textual is imported only on a terminal that can show the app."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cpugpu_tui.config import paths
from cpugpu_tui.render.capabilities import Capabilities, this_terminal
from cpugpu_tui.ui.app_state import AppOptions, AppResult, FleetOptions
from cpugpu_tui.ui.terminal.guard import LoopSignals, private_terminal, refuse

if TYPE_CHECKING:
    from cpugpu_tui.session.fleet_running import Deliver, Fleet
    from cpugpu_tui.session.fleet_state import FleetState
    from cpugpu_tui.ui.shell import Shell

AnyShell = TypeVar("AnyShell", bound="Shell[Any]")


def run_app(options: AppOptions) -> AppResult:
    """Run the app until the user quits. The caller closes the outbox of the result.

    Raises:
        UsageError: the theme is unknown.
        UnfitError: this terminal cannot show the app.
    """
    found = _usable_terminal()
    from cpugpu_tui.ui.app import CpuGpuApp

    app, result = _run(
        lambda glyphs, **looks: CpuGpuApp(options, glyphs, **looks), found, options.log_path, mouse=options.mouse
    )
    result = result or AppResult(app.state.run, None, app.state.notice, app.return_code or 1)
    return result._replace(outbox=app.bridge.backend.outbox)


def run_fleet_app(fleet: Fleet, state: FleetState, also: Deliver, options: FleetOptions) -> None:
    """Run the app of a fleet until the user quits and all agents have ended.

    Raises:
        UsageError: the theme is unknown.
        UnfitError: this terminal cannot show the app.
    """
    found = _usable_terminal()
    from cpugpu_tui.ui.fleet import FleetApp

    app, _ = _run(
        lambda glyphs, **looks: FleetApp(fleet, state, also, options, glyphs, **looks), found, None, mouse=options.mouse
    )
    if app.running.failure is not None:
        raise app.running.failure


def _run(
    make: Callable[..., AnyShell], found: Capabilities, log_path: Path | None, *, mouse: bool
) -> tuple[AnyShell, Any]:
    """Run the app that `make` returns; return it with its result, which is None after a crash."""
    from rich.console import Console

    from cpugpu_tui.ui.glyphs import glyphs_for
    from cpugpu_tui.ui.terminal.diff_driver import DiffDriver
    from cpugpu_tui.ui.themes import DEFAULT_THEME

    theme = "ansi-dark" if found.wants_ansi_theme else DEFAULT_THEME
    with private_terminal(log_path or paths.log_path(), utf8=found.utf8) as terminal:
        app = make(glyphs_for(found), theme=theme, sixteen_colours=found.colours == "16", driver_class=DiffDriver)
        # Otherwise tracebacks go to the log, like the rest of fd 2.
        app.error_console = Console(file=terminal, markup=False, highlight=False, emoji=False)
        app.signals = LoopSignals()
        with app.signals.obeyed() as tty:
            try:
                result = app.run(mouse=mouse)
            finally:
                tty.is_back = True
                app.close()
    return app, result


def _usable_terminal() -> Capabilities:
    """Return the terminal's capabilities and set Textual's colour system before its import.

    Raises:
        UnfitError: this terminal cannot show the app.
    """
    found = this_terminal()
    refusal = refuse(found)
    if refusal is not None:
        raise refusal
    os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", found.textual_color_system)
    return found
