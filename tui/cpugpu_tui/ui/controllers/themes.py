"""Themes: built-in ones, Textual's, and the user's own, which are reloaded while the app runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.theme import BUILTIN_THEMES, Theme

from cpugpu_tui.config import config_path
from cpugpu_tui.ui import themes
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.themes import BrokenTheme

if TYPE_CHECKING:
    from cpugpu_tui.ui.screens.palette import ThemeChoices

LOOK_S = 1.0
"""How often the folder of the user's themes is checked for changes; never while something is timed."""


class ThemeSwitcher:
    """Chooses and reloads themes."""

    def __init__(
        self, app: App[Any], glyphs: Glyphs, folder: Path | None, is_timing: Callable[[], bool],
        notify: Callable[[str], object], *, sixteen_colours: bool,
    ) -> None:  # fmt: skip
        """Register the user's themes with Textual's `app`.

        `folder` holds the user's own (None: no folder); nothing is read from it while `is_timing`. `notify` shows which
        theme is ignored or replaced, and why.
        """
        self._app, self._glyphs, self._folder = app, glyphs, folder
        self._is_timing, self._notify, self._sixteen_colours = is_timing, notify, sixteen_colours
        self._own: dict[str, Theme] = {}
        """File name → theme of the user."""
        self._broken: tuple[BrokenTheme, ...] = ()
        self._wished: str | None = None
        """Requested theme whose file is broken; it is used once the file is fixed."""
        self._folder_seen = themes.folder_state(folder) if folder is not None else frozenset()
        if folder is not None:
            self._take(themes.read_folder(folder))

    def start(self, name: str) -> str:
        """Use theme `name` or its substitute; return a notice, empty if none is needed.

        It is about the user's first broken file, whichever theme that is; without one, about the 16-colour substitute.

        Raises:
            UsageError: the name is unknown, and no broken file of the user has it.
        """
        self._register(themes.shipped(name))
        if name not in self._app.available_themes:
            if not any(broken.path.stem == name for broken in self._broken):
                raise themes.unknown_theme(name, self.names)
            self._wished, name = name, themes.DEFAULT_THEME
            self._register(themes.shipped(name))
        self._app.theme = self._displayable(name)
        return self._notice(name)

    @cached_property
    def _all_shipped(self) -> dict[str, Theme]:
        """All shipped themes by name, registered on first use. Before the first frame, that would delay it by 6 ms."""
        found = themes.shipped()
        self._register(found)
        return found

    def _register(self, shipped: Mapping[str, Theme]) -> None:
        """Register shipped themes, unless the user has one of the same name."""
        own = {theme.name for theme in self._own.values()}
        for name in shipped.keys() - own:
            self._app.register_theme(shipped[name])

    @property
    def names(self) -> list[str]:
        """Names of the themes that this terminal can show: the user's own, built-in, Textual's."""
        shipped, known = self._all_shipped, self._app.available_themes
        own = {theme.name for theme in self._own.values()}
        order = sorted(own) + [name for name in sorted(shipped) if name not in own]
        order += [name for name in sorted(known) if name not in shipped and name not in own]
        return [name for name in order if known[name].ansi or not self._sixteen_colours]

    def _displayable(self, name: str) -> str:
        """Return the theme, or for 16 colours, which RGB values do not suit, one of the terminal's own colours."""
        theme = self._app.available_themes[name]
        if theme.ansi or not self._sixteen_colours:
            return name
        return "ansi-dark" if theme.dark else "ansi-light"

    def _notice(self, name: str) -> str:
        if self._broken:
            return self._broken[0].brief
        if name != self._displayable(name):
            return f"Theme {name} needs 256 colours; this terminal has 16, so {self._displayable(name)} is used."
        return ""

    # ---------------------------------------------------------------- choosing

    def use_next(self) -> None:
        """Change to the next theme."""
        names, current = self.names, self._app.theme
        self._app.theme = names[(names.index(current) + 1) % len(names)] if current in names else names[0]

    def show_list(self) -> None:
        """Open the list of themes, from which one is chosen."""
        from cpugpu_tui.ui.screens.palette import ThemesScreen

        self._app.push_screen(ThemesScreen(self._choices(), self._glyphs))

    def _choices(self) -> ThemeChoices:
        from cpugpu_tui.ui.screens.palette import ThemeChoices

        own = {theme.name for theme in self._own.values()}
        remark = "This terminal has 16 colours; the other themes need 256." if self._sixteen_colours else ""
        remark = "NO_COLOR is set, so all themes look alike." if self._app.no_color else remark
        return ThemeChoices(
            tuple((name, self._kind(name, own)) for name in self.names), self._app.theme,
            tuple(map(str, self._broken)), remark, str(config_path()),
        )  # fmt: skip

    def _kind(self, name: str, own: set[str]) -> str:
        """Return whether a theme is dark, and its origin unless it is built in."""
        brightness = "dark" if self._app.available_themes[name].dark else "light"
        if name in own:
            return f"{brightness} yours"
        return brightness if name in self._all_shipped else f"{brightness} textual"

    # ---------------------------------------------------------------- the user's own, while the app runs

    def follow_files(self) -> None:
        """Start checking the user's folder."""
        if self._folder is not None:
            self._app.set_interval(LOOK_S, self.look)

    def look(self) -> None:
        """Reload theme files that changed; not during a run, because reading disturbs timing."""
        from cpugpu_tui.ui.screens.palette import ThemesScreen

        if self._folder is None or self._is_timing():
            return
        state = themes.folder_state(self._folder)
        if state != self._folder_seen:
            self._folder_seen = state
            self._take(themes.read_folder(self._folder))
            self._notify(self._notice(self._app.theme))
            if isinstance(self._app.screen, ThemesScreen):
                self._app.screen.show(self._choices())

    def _take(self, found: dict[str, Theme | BrokenTheme]) -> None:
        """Register the user's themes from their files; a broken file keeps its previous theme."""
        before = self._own
        self._broken = tuple(each for each in found.values() if isinstance(each, BrokenTheme))
        kept = {file: before[file] for file, each in found.items() if isinstance(each, BrokenTheme) and file in before}
        self._own = kept | {file: each for file, each in found.items() if isinstance(each, Theme)}
        own = {theme.name: theme for theme in self._own.values()}
        for name in {theme.name for theme in before.values()} - set(own):
            self._drop(name)
        for name, theme in own.items():
            if self._app.available_themes.get(name) != theme:
                self._app.register_theme(theme)
                if name == self._wished:
                    self._app.theme = self._displayable(name)
                    self._wished = None
                elif name == self._app.theme:
                    self._app.mutate_reactive(App.theme)  # same name, new colours

    def _drop(self, name: str) -> None:
        """Replace a theme whose file was deleted with the built-in one of its name, or else unregister it.

        Without a built-in one, the theme that is in use stays registered.
        """
        instead = self._all_shipped.get(name) or BUILTIN_THEMES.get(name)
        if instead is not None:
            self._app.register_theme(instead)
            if name == self._app.theme:
                self._app.mutate_reactive(App.theme)
        elif name != self._app.theme:
            self._app.unregister_theme(name)
