"""Corrects a theme's colours for our screens, such as CPU and GPU colours under its cursor.

Contrast is that of WCAG 2.2. A colour below its minimum is moved toward white on dark grounds and toward black on light
ones until it reaches it. Other colours stay as the theme's author chose them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from textual.color import Color

TEXT_CONTRAST = 4.5
"""Least contrast of text on every background."""
MARK_CONTRAST = 3.0
"""Least contrast of series and states, also under the cursor; a sign or a word says the same."""

_SERIES = ("series-cpu", "series-gpu")
_STATES = ("primary", "accent", "success", "warning", "error")
_TEXTS = ("foreground", "foreground-muted", "text-muted")
_GROUNDS = ("background", "surface", "panel")
_CURSORS = ("block-cursor", "block-cursor-blurred")
_CURSOR_SHARES = (0.24, 0.12)
"""Share of `primary` in the cursor's background, with and without focus, where the theme's own is too strong."""
_CURSOR_CONTRAST = 2.0
"""Greatest contrast of the cursor's background: on a stronger one a row's colours could not be seen."""
_OPACITY = re.compile(r"\s+(\d{1,3})%$")
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
    found = _OPACITY.search(text)
    named, opacity = (text[: found.start()], int(found[1]) / 100) if found else (text, 1.0)
    colour = ground.get_contrast_text(1.0) if named == "auto" else Color.parse(named)
    return ground + colour.multiply_alpha(opacity)
