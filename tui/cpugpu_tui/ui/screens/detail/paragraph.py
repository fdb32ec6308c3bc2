"""Sentences under a heading."""

from __future__ import annotations

import textwrap

from cpugpu_tui.ui.roles import Spans

INDENT = "  "
"""Of everything that stands under a heading."""


def paragraph(text: str, width: int, role: str = "text") -> list[Spans]:
    """Return a sentence as lines of at most `width` cells, each indented; nothing for an empty one."""
    pieces = textwrap.wrap(text, max(width, 12), initial_indent=INDENT, subsequent_indent=INDENT) if text else []
    return [((piece, role),) for piece in pieces]
