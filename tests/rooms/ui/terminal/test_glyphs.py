from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cpugpu_tui.render.capabilities import capabilities
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, ascii_text, glyphs_for, trend_lines, trend_text
from cpugpu_tui.ui.panes.lines import spelled

SETS = pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])


def test_even_load_is_an_even_line_at_its_height_and_no_cliff():
    assert trend_text([97, 98, 97, 98, 97], 5, 0, 100, UNICODE) == "█████"
    assert trend_text([40, 41, 40, 41], 4, 0, 100, UNICODE) == "▄▄▄▄"
    assert trend_text([3.0] * 4, 4, 3.0, 3.0, UNICODE) == "▅▅▅▅"


def test_whole_range_is_used_and_newest_is_right():
    assert trend_text([0, 14.3, 28.6, 42.9, 57.1, 71.4, 85.7, 100], 8, 0, 100, UNICODE) == "▁▂▃▄▅▆▇█"
    assert trend_text([0, 14.3, 28.6, 42.9, 57.1, 71.4, 85.7, 100], 8, 0, 100, ASCII) == ".:-=+*#@"
    assert trend_text([0, 0, 100], 6, 0, 100, UNICODE) == "   ▁▁█"


def test_only_the_newest_values_that_fit_are_shown():
    assert trend_text(deque([100, 100, 0, 100, 0]), 3, 0, 100, UNICODE) == "▁█▁"


def test_unknown_is_a_space_and_zero_is_not():
    assert trend_text([0, None, float("nan"), 0], 4, 0, 100, UNICODE) == "▁  ▁"


def test_values_beyond_the_range_are_drawn_at_its_edge():
    assert trend_text([-50, 250], 2, 0, 100, UNICODE) == "▁█"


def test_two_lines_hold_sixteen_heights():
    assert trend_lines([0, 46, 54, 100, None], 6, 2, 0, 100, UNICODE) == ("   ▁█ ", " ▁███ ")


@SETS
@given(
    values=st.lists(st.none() | st.floats(), max_size=20),
    width=st.integers(0, 12),
    height=st.integers(1, 3),
    low=st.floats(-1e6, 1e6),
    high=st.floats(-1e6, 1e6),
)
def test_text_always_fills_exactly_its_cells(glyphs, values, width, height, low, high):
    lines = trend_lines(values, width, height, low, high, glyphs)
    assert [cell_len(line) for line in lines] == [width] * height


@SETS
def test_every_glyph_is_as_wide_as_promised(glyphs):
    assert len(glyphs.bars) == 8
    for name, characters in glyphs._asdict().items():
        assert {cell_len(character) for character in characters} == {1}, name
    singles = glyphs._asdict().keys() - {"bars", "plus_minus"}
    assert {name: len(getattr(glyphs, name)) for name in singles} == dict.fromkeys(singles, 1)


def test_ascii_set_is_ascii_and_chosen_where_unicode_would_break():
    assert all(characters.isascii() for characters in ASCII)
    assert glyphs_for(capabilities({"TERM": "xterm"}, "utf-8", True, (80, 24))) is UNICODE
    assert glyphs_for(capabilities({"TERM": "xterm"}, "iso8859-1", True, (80, 24))) is ASCII


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
def test_what_looks_alike_stands_for_it(text, said):
    assert ascii_text(text) == said


@given(st.text())
def test_everything_becomes_ascii_of_the_same_width(text):
    found = ascii_text(text)
    assert found.isascii()
    assert cell_len(found) == cell_len(text)


def test_a_range_is_no_comparison():
    assert spelled("n = 16 … 2048", ASCII) == "n = 16 ... 2048"


def test_no_sign_of_ours_becomes_a_question_mark():
    signs = "".join(UNICODE)
    assert "?" not in ascii_text(signs)
