"""Make untrusted text (process, user and GPU names) safe to print on a terminal."""

from __future__ import annotations

import re
import unicodedata

_ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, …: titles, clipboard
    r"|\x1b[ -/]*[0-~]?"  # all other sequences
)
_WHITE = frozenset("\t\n\v\f\r\x85\u2028\u2029")


def _safe(character: str) -> str:
    """Return the character, a space for a line break or tab, or nothing for a control character."""
    if character in _WHITE:
        return " "
    # C is every kind of control: Cc (C0, C1), Cf (bidi, zero width), Cs (lone surrogates), Co, Cn (no glyph).
    return "" if unicodedata.category(character).startswith("C") else character


def printable(text: str, limit: int = 200) -> str:
    """Return `text` without escape sequences, control and format characters and lone surrogates.

    The result has at most `limit` characters. Markup such as `[red]` stays; code that renders markup must escape it.
    """
    # Read ten limits: a megabyte of escapes stays cheap, and a coloured name stays complete.
    safe = "".join(map(_safe, _ESCAPE_SEQUENCE.sub("", text[: 10 * limit])))
    return safe.strip()[:limit].strip()
