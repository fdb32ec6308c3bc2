"""Themes: the default, TOML files with the fields of `textual.theme.Theme`, and corrections that make any legible.

Everything is checked while loading: Textual checks a colour in `variables` only when the theme is applied, and then
ends the app with a StylesheetParseError.

A theme's colours are corrected for our screens, such as CPU and GPU colours under its cursor. Contrast is that of
WCAG 2.2. A colour below its minimum is moved toward white on dark grounds and toward black on light ones until it
reaches it. Other colours stay as the theme's author chose them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.color import Color, ColorParseError
from textual.css.constants import VALID_STYLE_FLAGS
from textual.theme import BUILTIN_THEMES, Theme

from cpugpu_tui.errors import UsageError, did_you_mean
from cpugpu_tui.machine.text import printable

if TYPE_CHECKING:
    from cpugpu_tui.config.validation import TomlFile

SERIES_CPU, SERIES_GPU, SERIES_COPIES = "series-cpu", "series-gpu", "series-copies"
"""Names of our CSS variables for the colours of CPU, GPU and GPU with copies."""

SLATE = Theme(
    name="slate",
    dark=True,
    background="#12161c",
    surface="#181d25",
    panel="#222934",
    foreground="#d3dae4",
    primary="#6f9fd8",
    secondary="#8fa3bd",
    accent="#d8b26e",
    success="#7fc794",
    warning="#e3b341",
    error="#ec7f7f",
    variables={
        "series-cpu": "#62b0f0",
        "series-gpu": "#f2a65a",
        "series-copies": "#d7a3ff",
        "foreground-muted": "#94a0b2",
        "text-muted": "#94a0b2",
        "border-blurred": "#354052",
        "block-cursor-background": "#2c3e56",
        "block-cursor-foreground": "#eef2f7",
        "block-cursor-blurred-background": "#222c3a",
        "block-cursor-blurred-foreground": "#d3dae4",
        "block-hover-background": "#1c232d",
        "footer-background": "#12161c",
        "footer-key-foreground": "#d8b26e",
        "footer-description-foreground": "#94a0b2",
        "input-selection-background": "#6f9fd8 35%",
        "scrollbar": "#3b4b63",
        "scrollbar-background": "#12161c",
        "scrollbar-corner-color": "#12161c",
    },
)
"""The default: dark, calm, cool greys; colour only where it says something. Reading it
from a file took a hundredth of the work for the first frame."""

DEFAULT_THEME = SLATE.name


class BrokenTheme(UsageError):
    """A theme file that is ignored."""

    def __init__(self, path: Path, line: int | None, problem: str, remedy: str) -> None:
        what = f"is ignored (line {line}): {problem}" if line else f"is ignored: {problem}"
        super().__init__(f"Theme file {path} {what}", remedy)
        self.path = path
        self.brief = f"Theme {printable(path.name)} {what} {remedy}"
        """The same without the folder, for the status line."""


_SERIES = (SERIES_CPU, SERIES_GPU, SERIES_COPIES)
_SERIES_COLOURS = {
    (False, True): ("#7cc4ff", "#ffb870", "#d7a3ff"),
    (False, False): ("#00509e", "#8f3f00", "#7a1fa0"),
    (True, True): ("ansi_bright_cyan", "ansi_yellow", "ansi_bright_magenta"),
    (True, False): ("ansi_blue", "ansi_magenta", "ansi_red"),
}
"""Whether a theme has the terminal's own colours, and whether it is dark → colours of the series."""

_SHARES = ("luminosity_spread", "text_alpha")
_NAME = r"\w[\w .-]*"  # without commas, which separate names in App.theme


def variable_defaults(theme: Theme) -> dict[str, str]:
    """Return our CSS variables for a theme that does not set them, such as Textual's.

    For `App.get_theme_variable_defaults`: without them our TCSS does not parse.
    """
    return dict(zip(_SERIES, _SERIES_COLOURS[theme.ansi, theme.dark], strict=True))


def shipped_path(name: str, folder: str = "") -> Path:
    """Return a shipped file or folder: in the package, or in this folder of the repository of an editable install."""
    package = Path(__file__).resolve().parents[1]  # `importlib.resources` would take 10 ms
    packaged = package / name
    return packaged if packaged.exists() else package.parents[1] / folder / name


def shipped_folder() -> Path:
    """Return the folder of the shipped themes."""
    return shipped_path("themes")


def shipped(name: str = "*") -> dict[str, Theme]:
    """Return the shipped themes, or the one of a name. Tests check them, to save time before the first frame."""
    if name == DEFAULT_THEME:
        return {name: SLATE}
    import tomllib

    texts = [path.read_text(encoding="utf-8") for path in shipped_folder().glob("*.toml") if name in ("*", path.stem)]
    themes = [Theme(**tomllib.loads(text)) for text in texts] + [SLATE] * (name == "*")
    return {theme.name: theme for theme in themes}


def all_themes(person_folder: Path) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return (name, `dark` or `light`, origin) of each theme, and the errors of the user's broken files."""
    own, errors = load_themes(person_folder)
    groups = [("your own", own), ("shipped", shipped().values()), ("Textual", BUILTIN_THEMES.values())]
    found: dict[str, tuple[str, str, str]] = {}
    for origin, themes in groups:
        for theme in themes:
            found.setdefault(theme.name, (theme.name, "dark" if theme.dark else "light", origin))
    return list(found.values()), list(map(str, errors))


def require_theme(name: str, person_folder: Path) -> None:
    """Check the name of a theme where no app opens, which would refuse it.

    Raises:
        UsageError: neither a theme nor a broken file of the user has it.
    """
    names = [each for each, *_ in all_themes(person_folder)[0]]
    if name not in names and not (person_folder / f"{name}.toml").exists():
        raise unknown_theme(name, names)


def unknown_theme(name: str, names: Sequence[str]) -> UsageError:
    """Return the error that no theme has this name."""
    return UsageError(
        f"Unknown theme {name!r}.", did_you_mean(name, names, "List the themes with `cpugpu-tui config themes`.")
    )


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
    for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
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
    if not re.fullmatch(_NAME, theme.name):
        raise file.wrong_value(("name",), theme.name, "letters, digits, spaces, dots and dashes")
    for key in _SHARES:
        share = getattr(theme, key)
        if not 0 <= share <= 1:
            raise file.wrong_value((key,), share, "a number from 0 to 1")
    for key, value in file.data.items():
        if isinstance(value, str) and key != "name":
            _check_colour(file, (key,), value)
    known = frozenset(Theme("any", primary="#000000").to_color_system().generate()) | set(_SERIES)
    file.refuse_unknown(theme.variables, known, ("variables",))
    for name, value in theme.variables.items():
        if "-style" not in name:
            _check_colour(file, ("variables", name), re.sub(_OPACITY, "", value))
        elif not value or set(value.split()) - VALID_STYLE_FLAGS:
            raise file.wrong_value(("variables", name), value, f"words among {', '.join(sorted(VALID_STYLE_FLAGS))}")


def _check_colour(file: TomlFile, key: tuple[str, ...], value: str) -> None:
    try:
        Color.parse(value)
    except (ColorParseError, ValueError):
        raise file.wrong_value(key, value, "a colour as #rrggbb or as a CSS name") from None


TEXT_CONTRAST = 4.5
"""Least contrast of text on every background."""
MARK_CONTRAST = 3.0
"""Least contrast of series and states, also under the cursor; a sign or a word says the same."""

_STATES = ("primary", "accent", "success", "warning", "error")
_TEXTS = ("foreground", "foreground-muted", "text-muted")
_GROUNDS = ("background", "surface", "panel")
_CURSORS = ("block-cursor", "block-cursor-blurred")
_CURSOR_SHARES = (0.24, 0.12)
"""Share of `primary` in the cursor's background, with and without focus, where the theme's own is too strong."""
_CURSOR_CONTRAST = 2.0
"""Greatest contrast of the cursor's background: on a stronger one a row's colours could not be seen."""
_OPACITY = r"\s+(\d{1,3})%$"
_STEPS = 40
"""Steps between a colour and white or black; too small to see."""


def luminance(colour: Color) -> float:
    """Return the relative luminance, from 0 to 1."""
    channels = (channel / 255 for channel in (colour.r, colour.g, colour.b))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two opaque colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def legible(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the CSS variables of a theme that must change for our screens to be legible.

    `variables` are all CSS variables that Textual generates.
    """
    grounds = [Color.parse(variables[name]) for name in _GROUNDS]
    if any(ground.a < 1 or ground.ansi is not None for ground in grounds):
        return {}  # the terminal's own colours, which are unknown
    changed = _cursor_grounds(variables, grounds[0])
    cursors = [Color.parse(changed.get(name, variables[name])) for name in _cursor_names("background")]
    for name in (*_TEXTS, *_STATES, *_SERIES):
        floor = MARK_CONTRAST if name in _SERIES else TEXT_CONTRAST
        floors = [(ground, floor) for ground in grounds] + [(cursor, MARK_CONTRAST) for cursor in cursors]
        if name == "foreground":  # also the text under the cursor
            floors += [(cursor, TEXT_CONTRAST) for cursor in cursors]
        _raise(changed, variables, name, floors)
    for ink, ground_name, cursor in zip(_cursor_names("foreground"), _cursor_names("background"), cursors, strict=True):
        if ground_name in changed:
            changed[ink] = changed.get("foreground", variables["foreground"])
        else:
            _raise(changed, variables, ink, [(cursor, TEXT_CONTRAST)])
    return changed


def _cursor_names(part: str) -> list[str]:
    return [f"{cursor}-{part}" for cursor in _CURSORS]


def _cursor_grounds(variables: Mapping[str, str], ground: Color) -> dict[str, str]:
    """Return weaker backgrounds of the cursor where the theme's are too strong; Textual's default is full `primary`."""
    primary = Color.parse(variables["primary"])
    found = {}
    for name, share in zip(_cursor_names("background"), _CURSOR_SHARES, strict=True):
        given = Color.parse(variables[name])
        if given.a < 1 or contrast(given, ground) > _CURSOR_CONTRAST:
            found[name] = ground.blend(primary, share).hex
    return found


def _raise(changed: dict[str, str], variables: Mapping[str, str], name: str, floors: list[tuple[Color, float]]) -> None:
    """Put a corrected colour into `changed` if it is below one of the floors, pairs of ground and least contrast."""
    ground = floors[0][0]
    given = _on(variables[name], ground)
    # At this luminance white and black have the same contrast.
    end = Color(255, 255, 255) if luminance(ground) < 0.18 else Color(0, 0, 0)
    for step in range(_STEPS + 1):
        colour = given.blend(end, step / _STEPS)
        if all(contrast(colour, below) >= floor for below, floor in floors):
            break
    if step:
        changed[name] = colour.hex


def _on(text: str, ground: Color) -> Color:
    """Return a CSS colour such as `#ff0000 60%` or `auto 60%` blended with a ground."""
    found = re.search(_OPACITY, text) if text.endswith("%") else None
    named, opacity = (text[: found.start()], int(found[1]) / 100) if found else (text, 1.0)
    colour = ground.get_contrast_text(1.0) if named == "auto" else Color.parse(named)
    return ground + colour.multiply_alpha(opacity)
