"""Themes: TOML files with the fields of `textual.theme.Theme`, shipped ones and the user's own.

Everything is checked while loading: Textual checks a colour in `variables` only when the theme is applied, and then
ends the app with a StylesheetParseError.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tomllib
from textual.color import Color, ColorParseError
from textual.css.constants import VALID_STYLE_FLAGS
from textual.theme import BUILTIN_THEMES, Theme

from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.text import printable

if TYPE_CHECKING:
    from cpugpu_tui.config.validation import TomlFile

SERIES_CPU, SERIES_GPU = "series-cpu", "series-gpu"
"""Names of our CSS variables for the colours of CPU and GPU."""

DEFAULT_THEME = "slate"
"""The default theme."""


class BrokenTheme(UsageError):
    """A theme file that is ignored."""

    def __init__(self, path: Path, line: int | None, problem: str, remedy: str) -> None:
        what = f"is ignored (line {line}): {problem}" if line else f"is ignored: {problem}"
        super().__init__(f"Theme file {path} {what}", remedy)
        self.path = path
        self.brief = f"Theme {printable(path.name)} {what} {remedy}"
        """The same without the folder, for the status line."""


@dataclass(frozen=True)
class ThemeChoices:
    """Content of the list of themes."""

    themes: tuple[tuple[str, str], ...]
    """Name and kind of each: `dark`, `light yours`, `dark textual`."""
    current: str
    broken: tuple[str, ...] = ()
    """Problems of the user's other files, with cause and remedy."""
    remark: str = ""
    """Why themes are missing, or look alike."""
    config_file: str = ""
    """The file in which a choice can be saved."""


_DARK_SERIES = {SERIES_CPU: "#7cc4ff", SERIES_GPU: "#ffb870"}
_LIGHT_SERIES = {SERIES_CPU: "#00509e", SERIES_GPU: "#8f3f00"}
_ANSI_DARK_SERIES = {SERIES_CPU: "ansi_bright_cyan", SERIES_GPU: "ansi_yellow"}
_ANSI_LIGHT_SERIES = {SERIES_CPU: "ansi_blue", SERIES_GPU: "ansi_magenta"}

_SHARES = ("luminosity_spread", "text_alpha")
_NAME = re.compile(r"\w[\w .-]*")  # without commas, which separate names in App.theme
_OPACITY = re.compile(r"\s+\d{1,3}%$")


def variable_defaults(theme: Theme) -> dict[str, str]:
    """Return our CSS variables for a theme that does not set them, such as Textual's.

    For `App.get_theme_variable_defaults`: without them our TCSS does not parse.
    """
    if theme.ansi:
        return dict(_ANSI_DARK_SERIES if theme.dark else _ANSI_LIGHT_SERIES)
    return dict(_DARK_SERIES if theme.dark else _LIGHT_SERIES)


def shipped_folder() -> Path:
    """Return the folder of the shipped themes: in the package, or in the repository of an editable install."""
    package = Path(__file__).resolve().parents[1]  # `importlib.resources` would take 10 ms
    packaged = package / "themes"
    return packaged if packaged.is_dir() else package.parents[1] / "themes"


def shipped() -> dict[str, Theme]:
    """Return the shipped themes by name. They are checked by tests, not here, to save time before the first frame."""
    texts = [path.read_text(encoding="utf-8") for path in shipped_folder().glob("*.toml")]
    themes = [Theme(**tomllib.loads(text)) for text in texts]
    return {theme.name: theme for theme in themes}


def available(person_folder: Path | None = None) -> tuple[list[Theme], list[BrokenTheme]]:
    """Return the shipped themes and those of the user's folder, sorted by name, and the errors of broken files.

    A theme of the user replaces a shipped one of the same name.
    """
    own, errors = load_themes(person_folder) if person_folder is not None else ([], [])
    by_name = shipped() | {theme.name: theme for theme in own}
    return [by_name[name] for name in sorted(by_name)], errors


def all_themes(person_folder: Path) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return (name, `dark` or `light`, origin) of each theme, and the errors of the user's broken files."""
    own, errors = load_themes(person_folder)
    groups = [("your own", own), ("shipped", shipped().values()), ("Textual", BUILTIN_THEMES.values())]
    found: dict[str, tuple[str, str, str]] = {}
    for origin, themes in groups:
        for theme in themes:
            found.setdefault(theme.name, (theme.name, "dark" if theme.dark else "light", origin))
    return list(found.values()), list(map(str, errors))


def load_themes(folder: Path) -> tuple[list[Theme], list[BrokenTheme]]:
    """Return the themes in a folder's `*.toml` files, and an error for each broken file.

    A broken file does not raise. A missing folder has no themes.
    """
    found = read_folder(folder).values()
    return [each for each in found if isinstance(each, Theme)], [each for each in found if not isinstance(each, Theme)]


def read_folder(folder: Path) -> dict[str, Theme | BrokenTheme]:
    """Return file name → theme or error, for each `*.toml` file of a folder."""
    found: dict[str, Theme | BrokenTheme] = {}
    names: set[str] = set()
    for path in sorted(folder.glob("*.toml")):
        theme = _load(path)
        if isinstance(theme, Theme) and theme.name in names:
            theme = BrokenTheme(path, None, f"another file also has `name` {theme.name!r}.", "Rename one of them.")
        elif isinstance(theme, Theme):
            names.add(theme.name)
        found[path.name] = theme
    return found


def folder_state(folder: Path) -> frozenset[tuple[str, int, int, int]]:
    """Return name, inode, size and time of each theme file, to detect changes. Opens no file; takes 20 µs."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(_file_state(entry) for entry in entries if entry.name.endswith(".toml"))
    except OSError:  # most users have no such folder
        return frozenset()


def _file_state(entry: os.DirEntry[str]) -> tuple[str, int, int, int]:
    try:
        found = entry.stat()
    except OSError:  # a broken link, or deleted meanwhile
        return entry.name, 0, 0, 0
    return entry.name, found.st_ino, found.st_size, found.st_mtime_ns


def _load(path: Path) -> Theme | BrokenTheme:
    # Imported here, because without themes of the user nothing needs to be checked before the first frame.
    from cpugpu_tui.config.validation import TomlError, TomlFile

    try:
        file = TomlFile(path)
        theme = file.table(Theme, file.data)
        _check(file, theme)
    except TomlError as error:
        return BrokenTheme(path, error.line, error.problem, error.remedy)
    return theme


def _check(file: TomlFile, theme: Theme) -> None:
    """Raise TomlError if Textual cannot use the values. Their types were checked before."""
    if not _NAME.fullmatch(theme.name):
        raise file.wrong_value(("name",), theme.name, "letters, digits, spaces, dots and dashes")
    for key in _SHARES:
        share = getattr(theme, key)
        if not 0 <= share <= 1:
            raise file.wrong_value((key,), share, "a number from 0 to 1")
    for key, value in file.data.items():
        if isinstance(value, str) and key != "name":
            _check_colour(file, (key,), value)
    known = frozenset(Theme("any", primary="#000000").to_color_system().generate()) | {SERIES_CPU, SERIES_GPU}
    file.refuse_unknown(theme.variables, known, ("variables",))
    for name, value in theme.variables.items():
        if "-style" not in name:
            _check_colour(file, ("variables", name), _OPACITY.sub("", value))
        elif not value or set(value.split()) - VALID_STYLE_FLAGS:
            raise file.wrong_value(("variables", name), value, f"words among {', '.join(sorted(VALID_STYLE_FLAGS))}")


def _check_colour(file: TomlFile, key: tuple[str, ...], value: str) -> None:
    try:
        Color.parse(value)
    except (ColorParseError, ValueError):
        raise file.wrong_value(key, value, "a colour as #rrggbb or as a CSS name") from None
