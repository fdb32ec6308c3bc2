"""A paste ends at its end mark only, whatever escape sequences the pasted text holds."""

import pytest
from textual import events
from textual._xterm_parser import XTermParser


@pytest.mark.parametrize("text", ["plain", "\x1b[31mred\x1b[0m text", "\x1b", "a\x1b[201b", "\x1b[A" * 40])
def test_a_paste_is_one_event(text):
    """The parser sends one Paste with the whole text, then the key after it."""
    parser = XTermParser()
    found = [*parser.feed(f"\x1b[200~{text}\x1b[201~x")]
    assert [type(event) for event in found] == [events.Paste, events.Key]
    assert found[0].text == text
