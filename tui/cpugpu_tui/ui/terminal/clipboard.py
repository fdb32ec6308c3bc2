"""Copy to the clipboard of the user's terminal, also over ssh: escape sequence OSC 52.

tmux reads the sequence itself if `set-clipboard` is on, and passes it through in an envelope if `allow-passthrough` is.
screen has its own envelope. Programs ignore forms that they do not know, so each form that may be needed is sent. No
terminal reports whether it took the text.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

SCREEN_ROOM = 240
"""Bytes in one envelope for screen, which drops sequences longer than 256."""


def envelope(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that makes tmux or screen pass `text` through; empty without them."""
    plain = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a"
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith("tmux"):
        return _for_tmux(plain)
    # Over ssh, tmux often also sets TERM=screen; it takes the plain form.
    if environ.get("STY") or term.startswith("screen"):
        return _for_screen(plain)
    return ""


def way(environ: Mapping[str, str]) -> str:
    """Return the condition for the text to arrive."""
    if environ.get("TMUX") or environ.get("TERM", "").startswith("tmux"):
        return "tmux and the terminal allow it"
    return "screen and the terminal allow it" if environ.get("STY") else "the terminal allows it"


def _for_tmux(sequence: str) -> str:
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"


def _for_screen(sequence: str) -> str:
    pieces = (sequence[start : start + SCREEN_ROOM] for start in range(0, len(sequence), SCREEN_ROOM))
    return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
