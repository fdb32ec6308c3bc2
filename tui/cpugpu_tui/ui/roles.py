"""Text with roles instead of colours. The theme maps each role to a style."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.widget import Widget

Spans = tuple[tuple[str, str], ...]
"""A line: pairs of text and role. Plain data, so that functions that write lines need no widget."""

ROLES = (
    "text", "muted", "strong", "title", "cpu", "gpu", "good", "warn", "bad", "key", "tag", "stale", "chosen"
)  # fmt: skip
"""All roles; `app.tcss` has a rule `.role--NAME` for each."""

ROLE_CLASSES = {f"role--{role}" for role in ROLES}
"""COMPONENT_CLASSES of our screens. Not of each widget: the 13 classes of eight widgets delayed the first frame by
50 ms."""


def role_style(widget: Widget, role: str) -> Style:
    """Return the style of a role on the widget's screen."""
    return widget.screen.get_component_rich_style(f"role--{role}", partial=True)


def width_of(spans: Spans) -> int:
    """Return the width of a line in cells."""
    return sum(Text(text).cell_len for text, _ in spans)


def plain(spans: Spans) -> str:
    """Return a line's text without its roles."""
    return "".join(text for text, _ in spans)


def rich_text(widget: Widget, spans: Spans) -> Text:
    """Return a line as rich text in the widget's styles, without interpreting markup."""
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for piece, role in spans:
        text.append(piece, role_style(widget, role))
    return text
