"""The clipboard of the person's own terminal, which may be two machines away: escape sequence OSC 52.

tmux reads the sequence itself where `set-clipboard` is on, and hands it through in an envelope where
`allow-passthrough` is; screen hands it through in one of its own. Whoever does not know a form drops it in silence, so
those that may be needed are sent one after the other. No terminal says whether it took the text.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

SCREEN_ROOM = 240
"""Bytes of one envelope for screen, which drops what is longer than 256."""


def envelope(text: str, environ: Mapping[str, str]) -> str:
    """Return what asks tmux or screen to hand `text` through, beside the plain form; nothing without them."""
    plain = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a"
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith("tmux"):
        return _for_tmux(plain)
    # TERM=screen is what many a tmux says, too, seen from the other end of ssh: it takes the plain form.
    if environ.get("STY") or term.startswith("screen"):
        return _for_screen(plain)
    return ""


def way(environ: Mapping[str, str]) -> str:
    """Return what has to be so for it to arrive."""
    if environ.get("TMUX") or environ.get("TERM", "").startswith("tmux"):
        return "tmux and the terminal allow it"
    return "screen and the terminal allow it" if environ.get("STY") else "the terminal allows it"


def _for_tmux(sequence: str) -> str:
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"


def _for_screen(sequence: str) -> str:
    pieces = (sequence[start : start + SCREEN_ROOM] for start in range(0, len(sequence), SCREEN_ROOM))
    return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
