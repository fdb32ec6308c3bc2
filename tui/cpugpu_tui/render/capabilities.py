"""What a terminal can show, derived from its environment; pure, for the app and for `doctor`."""

from __future__ import annotations

import os
import sys
from codecs import lookup
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, NamedTuple

Colours = Literal["truecolor", "256", "16", "none"]
"""How many colours a terminal shows."""

_STDERR_FD = 2
_TEXTUAL_NAMES: dict[str, Colours] = {"truecolor": "truecolor", "256": "256", "standard": "16"}
_TRUECOLOR_TERMS = ("alacritty", "foot", "xterm-kitty", "xterm-ghostty", "wezterm")
"""Terminals known by name: SSH carries TERM to the server but not COLORTERM."""
_UNICODE_CODECS = {"utf-8", "utf-8-sig"}


class Capabilities(NamedTuple):
    """What a terminal can show, derived from its environment."""

    colours: Colours
    """`none` if NO_COLOR is set."""
    utf8: bool
    """Whether it shows block elements and arrows; otherwise use the ASCII glyphs."""
    dumb: bool
    """Whether it cannot move its cursor."""
    interactive: bool
    """Whether it can read keys and draw a screen."""
    columns: int
    rows: int

    @property
    def wants_ansi_theme(self) -> bool:
        """Whether to start with `ansi-dark`: themes of RGB values are unreadable in 16 colours or under NO_COLOR."""
        return self.colours in ("16", "none")

    @property
    def textual_color_system(self) -> str:
        """Value of TEXTUAL_COLOR_SYSTEM; set it before Textual is imported."""
        return {"truecolor": "truecolor", "256": "256"}.get(self.colours, "standard")


def capabilities(environ: Mapping[str, str], encoding: str | None, isatty: bool, size: tuple[int, int]) -> Capabilities:
    """Return what a terminal can show; a pure function.

    `encoding` is that of the output stream, `isatty` whether both input and output are a terminal, `size` is
    (columns, rows).
    """
    term = environ.get("TERM", "").strip().lower()
    columns, rows = size
    return Capabilities(
        colours=_colours(environ, term),
        utf8=_is_utf8(environ, encoding) and term != "linux",  # the kernel console's font has 1 of 8 bar heights
        dumb=term in ("dumb", "unknown"),
        interactive=isatty,
        columns=columns,
        rows=rows,
    )


def _colours(environ: Mapping[str, str], term: str) -> Colours:
    if "NO_COLOR" in environ:  # even if empty, because Textual reads it like this
        return "none"
    forced = _TEXTUAL_NAMES.get(environ.get("TEXTUAL_COLOR_SYSTEM", "").strip().lower())
    if forced is not None:
        return forced
    # GNU screen 4 passes COLORTERM on to programs inside, but cannot show 24-bit colours.
    in_gnu_screen = "STY" in environ and "TMUX" not in environ
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit") and not in_gnu_screen:
        return "truecolor"
    if term.endswith("-direct") or term in _TRUECOLOR_TERMS:
        return "truecolor"
    return "256" if term.endswith("-256color") else "16"


def _is_utf8(environ: Mapping[str, str], encoding: str | None) -> bool:
    try:
        name = lookup(encoding or "ascii").name
    except LookupError:
        return False
    if environ.get("LC_ALL", "").upper() in ("C", "POSIX"):  # an explicit wish for ASCII
        return False
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    charset = locale.partition(".")[2].partition("@")[0].lower().replace("-", "")
    # Other locales without a charset (LANG=C, none) prove nothing: containers have them, but their terminals are UTF-8.
    return name in _UNICODE_CODECS and charset in ("", "utf8")


def this_terminal() -> Capabilities:
    """Return what this process's terminal can show. Call it before `private_terminal` replaces the streams."""
    streams = (sys.stdin, sys.stderr)
    isatty = all(stream is not None and not stream.closed and stream.isatty() for stream in streams)
    size = (80, 24)
    if isatty:
        with suppress(OSError):
            size = os.get_terminal_size(_STDERR_FD)
    return capabilities(os.environ, getattr(sys.stderr, "encoding", None), isatty, size)
