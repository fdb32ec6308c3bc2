from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cpugpu_tui.ui.glyphs import ASCII, UNICODE, ascii_text
from cpugpu_tui.ui.panes.lines import spelled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n = 16 … 2048", "n = 16 > 2048"),
        ("×3.00 faster – 12 µs", "x3.00 faster - 12 us"),
        ("Jürgen's café", "Jurgen's cafe"),
        ("漢字", "????"),
        ("╭─Themes─╮", "+-Themes-+"),
        ("10²", "102"),
    ],
)
def test_what_looks_alike_stands_for_it(text: str, said: str) -> None:
    assert ascii_text(text) == said


@given(st.text())
def test_everything_becomes_ascii_of_the_same_width(text: str) -> None:
    found = ascii_text(text)
    assert found.isascii()
    assert cell_len(found) == cell_len(text)


def test_a_range_is_no_comparison() -> None:
    assert spelled("n = 16 … 2048", ASCII) == "n = 16 ... 2048"


def test_no_sign_of_ours_becomes_a_question_mark() -> None:
    signs = "".join(value for name, value in vars(UNICODE).items() if name != "spinner")
    assert "?" not in ascii_text(signs)
