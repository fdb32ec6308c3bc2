"""Names of processes must not reach the terminal as escape sequences."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui.machine.text import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python train.py", "python train.py"),
        ("Müller 東京 ×2", "Müller 東京 ×2"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;new title\x07python", "python"),
        ("\x1b]52;c;Zm9v\x1b\\python", "python"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b]0;never closed python", ""),
        ("\x1b(0python", "python"),
        ("a\x1bcb", "ab"),
        ("one\ntwo\tthree\r", "one two three"),
        ("\u202egnp.exe", "gnp.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("lone\ud800surrogate", "lonesurrogate"),
        ("nul\0bell\x07del\x7f", "nulbelldel"),
        ("x" * 300, "x" * 200),
        ("", ""),
    ],
)
def test_what_a_terminal_would_obey_is_gone_and_the_rest_stays(text, expected):
    assert printable(text) == expected


hostile = st.text(st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x9d\x07\\[]0;m\u202e\ud800\n")))


@given(hostile, st.integers(1, 50))
def test_any_text_becomes_harmless(text, limit):
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert not [character for character in shown if unicodedata.category(character)[0] == "C" or character in "\n\r\t"]
    shown.encode()
    assert printable(shown, limit) == shown
