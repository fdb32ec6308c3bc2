"""From the command line to the app and back. Imports Textual only on a terminal that can show the app."""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from cpugpu_tui.ui.options import AppOptions, AppResult
from cpugpu_tui.ui.terminal.guard import Capabilities, private_terminal, refuse, this_terminal

if TYPE_CHECKING:
    from cpugpu_tui.session.fleet.running import Deliver, Fleet
    from cpugpu_tui.session.fleet.state import FleetState
    from cpugpu_tui.ui.app import CpuGpuApp
    from cpugpu_tui.ui.fleet import FleetOptions

WAIT_S = 5.0
"""How long a fleet's agents may take to be gone once the app is closed; they go with this process in any case."""


def run_app(options: AppOptions) -> AppResult:
    """Run the app until the person leaves. Whoever called closes the way into the history that it returns.

    Raises:
        UsageError: there is no theme of that name.
        UnfitError: this terminal cannot show it.
    """
    found = _usable_terminal()
    # Collections among imports and style sheets take a tenth of the time to the first frame; it turns them on again.
    gc.disable()
    from rich.console import Console

    from cpugpu_tui.config import paths
    from cpugpu_tui.ui.app import CpuGpuApp
    from cpugpu_tui.ui.glyphs import glyphs_for
    from cpugpu_tui.ui.terminal.diff_driver import DiffDriver
    from cpugpu_tui.ui.terminal.signals import LoopSignals
    from cpugpu_tui.ui.themes import DEFAULT_THEME

    theme = "ansi-dark" if found.wants_ansi_theme else DEFAULT_THEME
    log_path = options.log_path or paths.log_path()
    with private_terminal(log_path, utf8=found.utf8) as terminal:
        kind = CpuGpuApp if options.demo is None else _demo_app()
        app = kind(
            options, glyphs_for(found), theme=theme, sixteen_colours=found.colours == "16", driver_class=DiffDriver
        )  # fmt: skip
        # Tracebacks of a crash would otherwise go where fd 2 goes: to the log.
        app.error_console = Console(file=terminal.stream, markup=False, highlight=False, emoji=False)
        app.signals = LoopSignals()
        with app.signals.obeyed() as tty:
            try:
                result = app.run(mouse=False)
            finally:
                tty.is_back = True
                app.bridge.close()
    result = result or AppResult(app.state.run, None, app.state.notice, app.return_code or 1)
    return replace(result, outbox=app.bridge.outbox)


def run_fleet_app(fleet: Fleet, state: FleetState, also: Deliver, options: FleetOptions) -> None:
    """Run the app of a fleet until the person leaves, and then until no agent is left.

    Raises:
        UsageError: there is no theme of that name.
        UnfitError: this terminal cannot show it.
    """
    found = _usable_terminal()
    from rich.console import Console

    from cpugpu_tui.config import paths
    from cpugpu_tui.ui.fleet import FleetApp
    from cpugpu_tui.ui.glyphs import glyphs_for
    from cpugpu_tui.ui.terminal.diff_driver import DiffDriver
    from cpugpu_tui.ui.terminal.signals import LoopSignals
    from cpugpu_tui.ui.themes import DEFAULT_THEME

    theme = "ansi-dark" if found.wants_ansi_theme else DEFAULT_THEME
    with private_terminal(paths.log_path(), utf8=found.utf8) as terminal:
        app = FleetApp(
            fleet, state, also, options, glyphs_for(found), theme=theme, sixteen_colours=found.colours == "16",
            driver_class=DiffDriver,
        )  # fmt: skip
        app.error_console = Console(file=terminal.stream, markup=False, highlight=False, emoji=False)
        app.signals = LoopSignals()
        with app.signals.obeyed() as tty:
            try:
                app.run(mouse=False)
            finally:
                tty.is_back = True
                if not app.is_over:
                    fleet.kill()
                    app.wait(WAIT_S)
    if app.failure is not None:
        raise app.failure


def _usable_terminal() -> Capabilities:
    """Return what this terminal can do, once it can be drawn on and Textual, not imported yet, will use its colours."""
    found = this_terminal()
    refusal = refuse(found)
    if refusal is not None:
        raise refusal
    os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", found.textual_color_system)
    return found


def _demo_app() -> type[CpuGpuApp]:
    from cpugpu_tui.ui.controllers.demo import DemoApp

    return DemoApp
