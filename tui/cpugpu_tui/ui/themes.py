"""Themes: TOML files with the fields of `textual.theme.Theme`, shipped ones and the person's own.

Everything is checked while loading, because Textual checks a colour in `variables` only when the theme is applied, and
then ends the app with a StylesheetParseError.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.css.constants import VALID_STYLE_FLAGS
from textual.theme import BUILTIN_THEMES, Theme

from cpugpu_tui.config import toml
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.text import printable

SERIES_CPU, SERIES_GPU = "series-cpu", "series-gpu"
"""Names of our own CSS variables: the colours of everything that belongs to the CPU, and to the GPU."""

DEFAULT_THEME = "slate"
"""The theme of a person who never chose one."""


class BrokenTheme(UsageError):
    """A theme file that is left out."""

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        """Say what is wrong with it."""
        super().__init__(f"Theme file {path} is left out: {what}", remedy)
        self.path = path
        self.brief = f"Theme {printable(path.name)} is left out: {what} {remedy}"
        """The same without the folder, for the status line, where a path would take all the room."""


@dataclass(frozen=True)
class ThemeChoices:
    """What the list of themes shows."""

    themes: tuple[tuple[str, str], ...]
    """Name of each, and what kind it is: `dark`, `light yours`, `dark textual`."""
    current: str
    broken: tuple[str, ...] = ()
    """What is wrong with the person's other files, cause and remedy."""
    remark: str = ""
    """Why there are no more, or why they all look alike."""
    config_file: str = ""
    """Where a choice can be kept."""


_DARK_SERIES = {SERIES_CPU: "#7cc4ff", SERIES_GPU: "#ffb870"}
_LIGHT_SERIES = {SERIES_CPU: "#00509e", SERIES_GPU: "#8f3f00"}
_ANSI_DARK_SERIES = {SERIES_CPU: "ansi_bright_cyan", SERIES_GPU: "ansi_yellow"}
_ANSI_LIGHT_SERIES = {SERIES_CPU: "ansi_blue", SERIES_GPU: "ansi_magenta"}

_KEYS = {field.name for field in fields(Theme)}
_SHARES = {"luminosity_spread", "text_alpha"}
_FLAGS = {"dark", "ansi"}
_COLOURS = _KEYS - _SHARES - _FLAGS - {"name", "variables"}
_NAME = re.compile(r"\w[\w .-]*")  # no comma: App.theme takes a list of names apart at commas
_OPACITY = re.compile(r"\s+\d{1,3}%$")


def variable_defaults(theme: Theme) -> dict[str, str]:
    """Return our own CSS variables for a theme that does not set them, such as Textual's.

    For `App.get_theme_variable_defaults`; without it their first use in TCSS fails to parse.
    """
    if theme.ansi:
        return dict(_ANSI_DARK_SERIES if theme.dark else _ANSI_LIGHT_SERIES)
    return dict(_DARK_SERIES if theme.dark else _LIGHT_SERIES)


def shipped_folder() -> Path:
    """Return the folder of the themes that come with the package: inside it, or the repository's if editable."""
    package = Path(__file__).resolve().parents[1]  # `importlib.resources` takes 10 ms to say the same
    packaged = package / "themes"
    return packaged if packaged.is_dir() else package.parents[1] / "themes"


def available(person_folder: Path | None = None) -> tuple[list[Theme], list[BrokenTheme]]:
    """Return the shipped themes and those of the person's folder, sorted by name, and what is wrong with the rest.

    A theme of the person's replaces a shipped one of the same name.
    """
    themes, errors = load_themes(shipped_folder())
    if person_folder is not None:
        own, own_errors = load_themes(person_folder)
        themes, errors = themes + own, errors + own_errors
    by_name = {theme.name: theme for theme in themes}
    return [by_name[name] for name in sorted(by_name)], errors


def all_themes(person_folder: Path) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return name, `dark` or `light`, and origin of each theme there is, and what is wrong with the person's others."""
    own, errors = load_themes(person_folder)
    groups = [("your own", own), ("shipped", load_themes(shipped_folder())[0]), ("Textual", BUILTIN_THEMES.values())]
    found: dict[str, tuple[str, str, str]] = {}
    for origin, themes in groups:
        for theme in themes:
            found.setdefault(theme.name, (theme.name, "dark" if theme.dark else "light", origin))
    return list(found.values()), list(map(str, errors))


def load_themes(folder: Path) -> tuple[list[Theme], list[BrokenTheme]]:
    """Return the themes of all `*.toml` files of a folder, and one error for each file that holds none.

    A broken file never raises. A folder that does not exist has no themes.
    """
    found = read_folder(folder).values()
    return [each for each in found if isinstance(each, Theme)], [each for each in found if not isinstance(each, Theme)]


def read_folder(folder: Path) -> dict[str, Theme | BrokenTheme]:
    """Return what each `*.toml` file of a folder holds, by the file's name: a theme, or what is wrong with it."""
    found: dict[str, Theme | BrokenTheme] = {}
    names: set[str] = set()
    for path in sorted(folder.glob("*.toml")):
        theme = _load(path)
        if isinstance(theme, Theme) and theme.name in names:
            theme = _wrong(path, f"another file of the folder has the `name` {theme.name!r}.", "Rename one.")
        elif isinstance(theme, Theme):
            names.add(theme.name)
        found[path.name] = theme
    return found


def folder_state(folder: Path) -> frozenset[tuple[str, int, int, int]]:
    """Return what changes when a theme file does: name, inode, size and time of each. Opens no file; 20 µs."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(_file_state(entry) for entry in entries if entry.name.endswith(".toml"))
    except OSError:  # there is none, which is how most people have it
        return frozenset()


def _file_state(entry: os.DirEntry[str]) -> tuple[str, int, int, int]:
    try:
        found = entry.stat()
    except OSError:  # a link to nowhere, or gone since
        return entry.name, 0, 0, 0
    return entry.name, found.st_ino, found.st_size, found.st_mtime_ns


def _load(path: Path) -> Theme | BrokenTheme:
    try:
        data = toml.loads(path.read_text(encoding="utf-8"))
        for key in ("name", "primary"):
            if key not in data:
                raise _wrong(path, f"`{key}` is missing.", f"Add a line `{key} = …`.")
        for key, value in data.items():
            _check(path, key, value)
        return Theme(**data)
    except BrokenTheme as error:
        return error
    except OSError as error:
        return _wrong(path, f"it cannot be read ({error.strerror}).", "Make it readable, or remove it.")
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        return _wrong(path, f"it is not TOML: {error}.", "Correct that place.")


def _check(path: Path, key: str, value: Any) -> None:
    """Raise UsageError unless Textual can take this value for this key."""
    if key not in _KEYS:
        raise _unknown(path, key, _KEYS)
    if key == "name" and not (isinstance(value, str) and _NAME.fullmatch(value)):
        raise _wrong(path, f"`name` is {value!r}.", "Use letters, digits, spaces, dots and dashes.")
    if key in _COLOURS:
        _check_colour(path, key, value)
    if key in _FLAGS and not isinstance(value, bool):
        raise _wrong(path, f"`{key}` is {value!r}.", "Write true or false.")
    if key in _SHARES and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
        raise _wrong(path, f"`{key}` is {value!r}.", "Write a number from 0 to 1.")
    if key == "variables":
        _check_variables(path, value)


def _check_variables(path: Path, variables: Any) -> None:
    if not isinstance(variables, dict):
        raise _wrong(
            path, "`variables` is not a table.", "Write a section `[variables]` with one `name = value` a line."
        )
    for name, value in variables.items():
        if name not in _variable_names():
            raise _unknown(path, name, _variable_names())
        if "-style" not in name:
            _check_colour(path, name, _OPACITY.sub("", value) if isinstance(value, str) else value)
        elif not isinstance(value, str) or not value or set(value.split()) - VALID_STYLE_FLAGS:
            raise _wrong(path, f"`{name}` is {value!r}.", f"Use words among {', '.join(sorted(VALID_STYLE_FLAGS))}.")


@cache
def _variable_names() -> frozenset[str]:
    return frozenset(Theme("any", primary="#000000").to_color_system().generate()) | {SERIES_CPU, SERIES_GPU}


def _check_colour(path: Path, key: str, value: Any) -> None:
    try:
        if not isinstance(value, str):
            raise ValueError
        Color.parse(value)
    except (ColorParseError, ValueError) as error:
        raise _wrong(path, f"`{key}` is {value!r}, not a colour.", "Write it as #rrggbb or as a CSS name.") from error


def _unknown(path: Path, key: str, known: set[str] | frozenset[str]) -> BrokenTheme:
    near = get_close_matches(key, known, n=1)
    remedy = f"Did you mean `{near[0]}`?" if near else "Remove it."
    return _wrong(path, f"a theme has no key `{key}`.", remedy)


def _wrong(path: Path, what: str, remedy: str) -> BrokenTheme:
    return BrokenTheme(path, what, remedy)
