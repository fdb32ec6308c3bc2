"""Text about the machine: untrusted names made safe to print on a terminal, and reasons for missing readings."""

from __future__ import annotations

import re
import unicodedata

_ESCAPE_SEQUENCE = (
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
    safe = "".join(map(_safe, re.sub(_ESCAPE_SEQUENCE, "", text[: 10 * limit])))
    return safe.strip()[:limit].strip()


def shortened(text: str, most: int = 40) -> str:
    """Return a text with at most `most` characters, for tables and error messages."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ------------------------------------------------------------------ reasons


REASONS = {
    "not-supported": "not supported here",
    "no-permission": "no permission",
    "gpu-lost": "GPU is lost",
    "function-missing": "driver too old for this value",
    "no-driver": "no NVIDIA driver",
    "mig": "not available in MIG mode",
    "timeout": "driver does not answer",
    "not-yet": "not read yet",
    "not-asked": "not asked for",
    "window-too-short": "too short for its sensor",
    "counter-reset": "counter was reset",
    "window-too-long": "too long for its counter",
    "no-value": "driver reported no number",
    "out-of-range": "impossible value",
    "call-failed": "reading it failed",
    "not-in-run": "not read during a run",
    "no-sample": "idle, or no sample",
    "unresolved": "not visible here (another container, or ended)",
    "in-used": "counted as used (old driver)",
    "unknown": "unknown driver error",
}
"""Code of a reading without a number → text for people."""
