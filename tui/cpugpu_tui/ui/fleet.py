"""The app of a fleet run: hosts live, their cases, and how to stop them. What it shows runs elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.timer import Timer

from cpugpu_tui.errors import UsageError
from cpugpu_tui.session.fleet.running import Deliver, Fleet
from cpugpu_tui.session.fleet.state import FleetState, Told
from cpugpu_tui.ui import keys as commands
from cpugpu_tui.ui import themes
from cpugpu_tui.ui.app import HEIGHTS, WIDTHS
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.controllers.live import SAID_S
from cpugpu_tui.ui.custom_keys import DEFAULT_KEYMAP, Keymap
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.legible import legible
from cpugpu_tui.ui.live.messages import InputDropped
from cpugpu_tui.ui.screens.confirm import ConfirmScreen
from cpugpu_tui.ui.screens.fleet import FleetList, FleetScreen
from cpugpu_tui.ui.screens.help import HelpScreen
from cpugpu_tui.ui.screens.page import Page
from cpugpu_tui.ui.terminal.ascii_only import line_filters
from cpugpu_tui.ui.terminal.signals import LoopSignals
from cpugpu_tui.ui.terminal.textual_internals import WatchedApp

LOOK_S = 0.5
"""How often what has come in is shown: the hosts are other machines, no paint is in their numbers."""

ALSO_KEYS = ("back", "next-theme", "help", "quit")
"""Commands that help lists beside its words on the fleet's own: what a run's panes answer does nothing here."""

GRACE_S = 1.6
"""How long leaving waits for the hosts' agents to be gone: a signal must be obeyed within 2 s."""


@dataclass(frozen=True)
class FleetOptions:
    """How it looks."""

    theme: str | None = None
    """Name of a theme; None for the default."""
    config_dir: Path | None = None
    """Folder whose `themes` are the person's own."""
    keymap: Keymap = DEFAULT_KEYMAP


class FleetApp(WatchedApp[int]):
    """Runs a fleet on a thread of its own, folds what comes in there, and shows it twice a second."""

    CSS_PATH = "app.tcss"
    TITLE = "cpugpu-tui fleet"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = commands.bindings(["stop", "back", "next-theme", "help", "quit"])  # type: ignore[assignment]  # a list is invariant

    signals: LoopSignals | None = None
    """What passes signals on; set by whoever runs the app on a terminal."""

    def __init__(
        self, fleet: Fleet, state: FleetState, also: Deliver, options: FleetOptions, glyphs: Glyphs = UNICODE, *,
        theme: str = themes.DEFAULT_THEME, sixteen_colours: bool = False, driver_class: type[Driver] | None = None,
    ) -> None:  # fmt: skip
        """Show `fleet`; `also` is told everything, too, on the fleet's thread.

        Raises:
            UsageError: there is no theme of that name.
        """
        super().__init__(driver_class=driver_class)
        self.animation_level = "none"
        self._fleet, self._also, self._glyphs = fleet, also, glyphs
        self.fleet_state = self._shown = state
        """What has come in so far; replaced whole by the fleet's thread."""
        self._state = AppState(keymap=options.keymap, situation=Situation(live=True))
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self._silence: Timer | None = None
        self._exit_code: int | None = None
        self.failure: BaseException | None = None
        """What ended the fleet, if it was an error of ours."""
        self.set_class(glyphs is ASCII, "-ascii")
        self.set_keymap(options.keymap.for_textual())
        self._start_theme(options, theme, sixteen_colours=sixteen_colours)

    # ---------------------------------------------------------------- the fleet

    def _run(self) -> None:
        def deliver(host: str, told: Told) -> None:
            self.fleet_state = self.fleet_state.apply(host, told)
            self._also(host, told)

        try:
            self._fleet.run(deliver)
        except BaseException as error:  # noqa: BLE001 - the thread's last words; whoever waits for the app raises it
            self.failure = error

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no agent is left; return whether that has come."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_over(self) -> bool:
        """Whether every host is done with."""
        return not self._thread.is_alive()

    def on_mount(self) -> None:
        """Begin."""
        if self.signals is not None:
            self.signals.answer(self._signalled)
        self._thread.start()
        self.set_interval(LOOK_S, self._look)
        if self._theme_notice:
            self._say(self._theme_notice)

    def _say(self, text: str) -> None:
        """Say something for a while in the last line of the list."""
        self._show(replace(self._state, said=text))
        if self._silence is not None:
            self._silence.stop()
        self._silence = self.set_timer(SAID_S, lambda: self._show(replace(self._state, said="")))

    @on(InputDropped)
    def _say_dropped(self, message: InputDropped) -> None:
        self._say(str(message))

    def _look(self) -> None:
        """Show what has come in; leave, once nothing is left to wait for."""
        if self._exit_code is not None and self.is_over:
            self._go()
            return
        situation = replace(self._state.situation, live=not self.is_over, stopping=self._fleet.stopping)
        if self._shown is self.fleet_state and situation == self._state.situation:
            return
        if self._state.situation.live and not situation.live:
            self.bell()
        self._show(replace(self._state, situation=situation))

    def _show(self, state: AppState) -> None:
        self._state, self._shown = state, self.fleet_state
        for screen in self.screen_stack:
            if isinstance(screen, FleetList):
                screen.state = self._state
                screen.show_fleet(self._shown)

    def get_default_screen(self) -> Screen[None]:
        """Open on the list of hosts."""
        return FleetScreen(self._state, self.fleet_state, self._glyphs)

    # ---------------------------------------------------------------- what keys do

    def action_stop(self) -> None:
        """Stop every host after its block in flight; when that was asked for already, at once."""
        if self._fleet.stopping:
            self._fleet.kill()
        else:
            self._fleet.stop()
        self._look()

    def action_close(self) -> None:
        """Close the page that is open."""
        if isinstance(self.screen, Page) and not isinstance(self.screen, FleetScreen):
            self.pop_screen()

    def action_help(self) -> None:
        """Explain the fleet; pressed again, go back."""
        if isinstance(self.screen, HelpScreen):
            self.pop_screen()
        else:
            self.push_screen(HelpScreen(self._state, "fleet", self._glyphs, ALSO_KEYS))

    def action_leave(self) -> None:
        """Quit; ask first while hosts are at work."""
        if self.is_over:
            self._exit_code = 0
            self._go()
            return

        def decide(yes: bool | None) -> None:
            if yes:
                self._leave(0)

        self.push_screen(
            ConfirmScreen("Hosts are at work. Stop them and quit?", "stop and quit", "let them run"), decide
        )

    async def action_quit(self) -> None:
        """Quit as on any other key."""
        self.action_leave()

    def _signalled(self, code: int) -> None:
        self._fleet.signal_exit = code
        self._leave(code)

    def _leave(self, code: int) -> None:
        """Stop all hosts at once, and go when they are gone, or when that takes too long."""
        self._exit_code = code
        self._fleet.kill()
        self.set_timer(GRACE_S, self._go)

    def _go(self) -> None:
        self.exit(self._exit_code or 0, return_code=self._exit_code or 0)

    # ---------------------------------------------------------------- how it looks

    def _start_theme(self, options: FleetOptions, name: str, *, sixteen_colours: bool) -> None:
        own_folder = options.config_dir / "themes" if options.config_dir is not None else None
        found, broken = themes.available(own_folder)
        for theme in found:
            self.register_theme(theme)
        wanted = options.theme or name
        self._theme_notice = broken[0].brief if broken else ""
        if wanted not in self.available_themes and any(each.path.stem == wanted for each in broken):
            wanted = themes.DEFAULT_THEME
        if wanted not in self.available_themes:
            raise UsageError(f"There is no theme {wanted!r}.", f"There are: {', '.join(self.available_themes)}.")
        self._names = [
            each for each in self.available_themes if self.available_themes[each].ansi or not sixteen_colours
        ]
        dark = self.available_themes[wanted].dark
        self.theme = wanted if wanted in self._names else ("ansi-dark" if dark else "ansi-light")

    def action_next_theme(self) -> None:
        """Change to the next theme."""
        place = self._names.index(self.theme) if self.theme in self._names else -1
        self.theme = self._names[(place + 1) % len(self._names)]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return our own CSS variables for themes that do not set them."""
        return themes.variable_defaults(self.current_theme)

    def get_css_variables(self) -> dict[str, str]:
        """Return all CSS variables, with colours that can be read on our screens."""
        variables = super().get_css_variables()
        return {**variables, **legible(variables)}

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what each line goes through."""
        return line_filters(super().get_line_filters(), no_colour=self.no_color, ascii_only=self._glyphs is ASCII)
