"""The part of the app that has themes: ours, Textual's and the person's own, which are picked up while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from textual.app import App
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

from cpugpu_tui.config import config
from cpugpu_tui.errors import UsageError
from cpugpu_tui.ui import themes
from cpugpu_tui.ui.controllers.repeating import Repeating
from cpugpu_tui.ui.glyphs import ASCII
from cpugpu_tui.ui.legible import legible
from cpugpu_tui.ui.panes.timings import TimingsPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.terminal.ascii_only import line_filters
from cpugpu_tui.ui.themes import BrokenTheme, ThemeChoices

LOOK_S = 1.0
"""How often the folder of the person's themes is looked at, by its entries' times; never while something is timed."""


class Theming(Repeating):
    """Colours every screen."""

    _folder: Path | None = None
    """Folder of the person's own themes; None where there can be none."""
    _folder_seen: frozenset[tuple[str, int, int, int]] = frozenset()
    _own: Mapping[str, Theme] = MappingProxyType({})
    """The person's themes by the names of their files."""
    _broken: tuple[BrokenTheme, ...] = ()
    _sixteen_colours = False
    _wished: str | None = None
    """Theme that was asked for and whose file is broken: it is put on once it is mended."""

    def start_theme(self, name: str, folder: Path | None, *, sixteen_colours: bool) -> None:
        """Make all themes known and put on `name`, or what stands in for it.

        Raises:
            UsageError: there is no theme of that name, and no broken file of the person's that might be it.
        """
        self._folder, self._sixteen_colours = folder, sixteen_colours
        self._shipped = {theme.name: theme for theme in themes.load_themes(themes.shipped_folder())[0]}
        for theme in self._shipped.values():
            self.register_theme(theme)
        self.set_class(self.no_color, "-nocolor")
        if folder is not None:
            self._folder_seen = themes.folder_state(folder)
            self._take(themes.read_folder(folder))
        if name not in self.available_themes:
            if not any(broken.path.stem == name for broken in self._broken):
                raise UsageError(f"There is no theme {name!r}.", f"There are: {', '.join(self.theme_names)}.")
            self._wished, name = name, themes.DEFAULT_THEME
        self.theme = self._possible(name)
        self.state = replace(self.state, theme_notice=self._theme_notice(name))

    @property
    def theme_names(self) -> list[str]:
        """Names of the themes that this terminal can show: the person's own, then ours, then Textual's."""
        own = {theme.name for theme in self._own.values()}
        order = sorted(own) + [name for name in sorted(self._shipped) if name not in own]
        order += [name for name in sorted(self.available_themes) if name not in self._shipped and name not in own]
        return [name for name in order if self.available_themes[name].ansi or not self._sixteen_colours]

    def _possible(self, name: str) -> str:
        """Return the theme, or for 16 colours, where RGB values become mud, one of the terminal's own colours."""
        theme = self.available_themes[name]
        if theme.ansi or not self._sixteen_colours:
            return name
        return "ansi-dark" if theme.dark else "ansi-light"

    def _theme_notice(self, name: str) -> str:
        if self._broken:
            return self._broken[0].brief
        if name != self._possible(name):
            return f"Theme {name} needs 256 colours, this terminal has 16: {self._possible(name)} stands in for it."
        return ""

    # ---------------------------------------------------------------- how it is drawn

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return our own CSS variables for themes that do not set them."""
        return themes.variable_defaults(self.current_theme)

    def get_css_variables(self) -> dict[str, str]:
        """Return all CSS variables, with colours that can be read on our screens."""
        variables = super().get_css_variables()
        self.theme_variables = {**variables, **legible(variables)}
        return self.theme_variables

    def refresh_css(self, animate: bool = True) -> None:
        """Parse the style sheets anew; before the first screen, which the start theme is set, take its colours alone.

        All of them are parsed for that screen anyway: doing it here too took 16 ms of the time to the first frame.
        """
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def get_line_filters(self) -> list[LineFilter]:
        """Return what each line of each widget goes through."""
        return line_filters(super().get_line_filters(), no_colour=self.no_color, ascii_only=self._glyphs is ASCII)

    def watch_theme(self) -> None:
        """Colour the cells of the table, which carry their colours, in the new theme."""
        self.call_after_refresh(self._restyle)

    def _restyle(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen):
                screen.query_one(TimingsPane).restyle()

    # ---------------------------------------------------------------- choosing

    def action_next_theme(self) -> None:
        """Change to the next theme."""
        names = self.theme_names
        self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else names[0]

    def action_choose_theme(self) -> None:
        """List the themes."""
        from cpugpu_tui.ui.screens.themes import ThemesScreen

        self.push_screen(ThemesScreen(self._choices(), self._glyphs))

    def _choices(self) -> ThemeChoices:
        own = {theme.name for theme in self._own.values()}
        remark = "This terminal has 16 colours: the other themes need 256." if self._sixteen_colours else ""
        remark = "NO_COLOR is set, so all themes look alike." if self.no_color else remark
        return ThemeChoices(
            tuple((name, self._kind(name, own)) for name in self.theme_names), self.theme,
            tuple(map(str, self._broken)), remark, str(config.path()),
        )  # fmt: skip

    def _kind(self, name: str, own: set[str]) -> str:
        """Return whether a theme is dark and whose it is; nothing is said of ours."""
        brightness = "dark" if self.available_themes[name].dark else "light"
        if name in own:
            return f"{brightness} yours"
        return brightness if name in self._shipped else f"{brightness} textual"

    # ---------------------------------------------------------------- the person's own, while the app runs

    def follow_theme_files(self) -> None:
        """Look at the person's folder from now on."""
        if self._folder is not None:
            self.set_interval(LOOK_S, self._look)

    def _look(self) -> None:
        """See whether a theme file is new, gone or different; during a run, reading would be in the numbers."""
        from cpugpu_tui.ui.screens.themes import ThemesScreen

        if self._folder is None or self.gate.held:
            return
        state = themes.folder_state(self._folder)
        if state != self._folder_seen:
            self._folder_seen = state
            self._take(themes.read_folder(self._folder))
            self.change(theme_notice=self._theme_notice(self.theme))
            if isinstance(self.screen, ThemesScreen):
                self.screen.show(self._choices())

    def _take(self, found: dict[str, Theme | BrokenTheme]) -> None:
        """Take the person's themes as their files are now; of a file that is broken the theme it had stays."""
        before = self._own
        self._broken = tuple(each for each in found.values() if isinstance(each, BrokenTheme))
        kept = {file: before[file] for file, each in found.items() if isinstance(each, BrokenTheme) and file in before}
        self._own = kept | {file: each for file, each in found.items() if isinstance(each, Theme)}
        now = {theme.name: theme for theme in self._own.values()}
        for name in {theme.name for theme in before.values()} - set(now):
            self._drop(name)
        for name, theme in now.items():
            if self.available_themes.get(name) != theme:
                self.register_theme(theme)
                if name == self._wished:
                    self.theme, self._wished = self._possible(name), None
                elif name == self.theme:
                    self.mutate_reactive(App.theme)  # the name is the old one, the colours are not

    def _drop(self, name: str) -> None:
        """Take a theme away whose file is gone; where it is on, or stood for one of the same name, that comes back."""
        instead = self._shipped.get(name) or BUILTIN_THEMES.get(name)
        if instead is not None:
            self.register_theme(instead)
            if name == self.theme:
                self.mutate_reactive(App.theme)
        elif name != self.theme:
            self.unregister_theme(name)
