"""Colours that can be read: a theme made elsewhere never saw our table, our tags or CPU and GPU under its cursor.

Contrast is that of WCAG 2.2. A colour below its floor is moved toward white on dark grounds, toward black on light
ones, until it reaches it; what can be read already stays exactly as its author chose it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from textual.color import Color

TEXT_CONTRAST = 4.5
"""Least contrast of what is read as text, on every ground it stands on."""
MARK_CONTRAST = 3.0
"""Least contrast of series and states where a sign or a word says the same: under the cursor, too."""

_SERIES = ("series-cpu", "series-gpu")
_STATES = ("primary", "accent", "success", "warning", "error")
_TEXTS = ("foreground", "foreground-muted", "text-muted")
_GROUNDS = ("background", "surface", "panel")
_CURSORS = ("block-cursor", "block-cursor-blurred")
_CURSOR_SHARES = (0.24, 0.12)
"""How much of `primary` is in the ground under the cursor, with and without the focus, in place of too strong a one."""
_CURSOR_CONTRAST = 2.0
"""Most contrast of the ground under the cursor: on a stronger one no colour of a row could be seen."""
_OPACITY = re.compile(r"\s+(\d{1,3})%$")
_STEPS = 40
"""A colour is moved by fortieths of the way, which the eye cannot tell apart."""


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
    """Return those of a theme's CSS variables that have to differ for our screens to be read.

    `variables` are all of them, as Textual generates them.
    """
    grounds = [Color.parse(variables[name]) for name in _GROUNDS]
    if any(ground.a < 1 or ground.ansi is not None for ground in grounds):
        return {}  # the terminal's own colours: nobody here knows them
    changed = _cursor_grounds(variables, grounds[0])
    cursors = [Color.parse(changed.get(name, variables[name])) for name in _cursor_names("background")]
    for name in (*_TEXTS, *_STATES, *_SERIES):
        floor = MARK_CONTRAST if name in _SERIES else TEXT_CONTRAST
        floors = [(ground, floor) for ground in grounds] + [(cursor, MARK_CONTRAST) for cursor in cursors]
        if name == "foreground":  # what stands under the cursor has to be read
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
    """Return calm grounds for the cursor where the theme has none: Textual's own is `primary` in full."""
    primary = Color.parse(variables["primary"])
    found = {}
    for name, share in zip(_cursor_names("background"), _CURSOR_SHARES, strict=True):
        given = Color.parse(variables[name])
        if given.a < 1 or contrast(given, ground) > _CURSOR_CONTRAST:
            found[name] = ground.blend(primary, share).hex
    return found


def _raise(changed: dict[str, str], variables: Mapping[str, str], name: str, floors: list[tuple[Color, float]]) -> None:
    """Note another colour under `name` unless it reaches every floor; (ground, least contrast) each."""
    ground = floors[0][0]
    given = _on(variables[name], ground)
    # Where white and black stand out alike.
    end = Color(255, 255, 255) if luminance(ground) < 0.18 else Color(0, 0, 0)
    for step in range(_STEPS + 1):
        colour = given.blend(end, step / _STEPS)
        if all(contrast(colour, below) >= floor for below, floor in floors):
            break
    if step:
        changed[name] = colour.hex


def _on(text: str, ground: Color) -> Color:
    """Return how a CSS colour such as `#ff0000 60%` or `auto 60%` looks on a ground."""
    found = _OPACITY.search(text)
    named, opacity = (text[: found.start()], int(found[1]) / 100) if found else (text, 1.0)
    colour = ground.get_contrast_text(1.0) if named == "auto" else Color.parse(named)
    return ground + colour.multiply_alpha(opacity)
