"""The driver writes less, and the terminal looks the same."""

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpugpu_tui.ui.terminal.diff_driver import ScreenMemory

COLUMNS, ROWS = 24, 5

CODES = ["0", "", "1", "3", "4", "7", "9", "31", "38;2;1;2;3", "38;5;9", "97", "39", "42", "48;2;9;8;7", "49",
         "1;31;44"]  # fmt: skip


@st.composite
def frames(draw):
    """Frames as Textual writes them: positions, styled pieces with a reset behind each, line feeds before positions."""
    written = []
    for _ in range(draw(st.integers(1, 4))):
        lines = []
        for row in sorted(draw(st.lists(st.integers(1, ROWS), max_size=4))):
            column = draw(st.integers(1, COLUMNS))
            pieces = []
            room = COLUMNS - column + 1
            for _ in range(draw(st.integers(0, 4))):
                text = draw(st.text(alphabet="ab  –█µ×", max_size=room))
                room -= len(text)
                if text:
                    pieces.append(f"\x1b[{draw(st.sampled_from(CODES))}m{text}\x1b[0m")
            feed = "\n" if row < ROWS else ""  # the last line of a frame is followed by none
            lines.append(f"\x1b[{row};{column}H{''.join(pieces)}{feed}")
        written.append("".join(lines) + f"\x1b[{draw(st.integers(1, ROWS))};1H")
    return written


class Terminal:
    """A terminal whose cells can be read."""

    def __init__(self):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self.screen)

    def write(self, data):
        self._stream.feed(data.replace("\n", "\r\n"))

    def look(self):
        return [[_seen(self.screen.buffer[y][x]) for x in range(COLUMNS)] for y in range(ROWS)]


def _seen(cell):
    """Return the visible part of a cell: a blank has no ink unless an attribute shows on it."""
    if cell.data == " " and not (cell.underscore or cell.reverse or cell.strikethrough):
        return (" ", cell.bg)
    return cell


@settings(max_examples=300, deadline=None)
@given(frames())
def test_the_screen_looks_as_if_everything_had_been_written(written):
    whole, thrifty, memory = Terminal(), Terminal(), ScreenMemory()
    for frame in written:
        whole.write(frame)
        thrifty.write(memory.missing(frame))
        assert thrifty.look() == whole.look()
        assert (thrifty.screen.cursor.x, thrifty.screen.cursor.y) == (whole.screen.cursor.x, whole.screen.cursor.y)


def test_the_same_frame_again_writes_nothing():
    memory, frame = ScreenMemory(), "\x1b[1;1H\x1b[1;38;2;1;2;3mabc\x1b[0m\x1b[1;1H"
    assert memory.missing(frame)
    assert memory.missing(frame) == ""


def test_one_digit_is_one_digit():
    memory = ScreenMemory()
    memory.missing("\x1b[2;1H\x1b[31mspeed-up 12.3\x1b[0m\x1b[1;1H")
    assert memory.missing("\x1b[2;1H\x1b[31mspeed-up 12.4\x1b[0m\x1b[1;1H") == "\x1b[2;13H\x1b[31m4\x1b[1;1H\x1b[0m"


@pytest.mark.parametrize("other", ["\x1b[?2026h", "\x1b]2;title\x07", "\x07", "\x1b[6n", "\x1b[?25l"])
def test_what_is_no_frame_passes_untouched(other):
    memory = ScreenMemory()
    memory.missing("\x1b[1;1Habc\x1b[1;1H")
    assert (memory.missing(other), memory.missing("\x1b[1;1Habc\x1b[1;1H")) == (other, "")


def test_after_another_screen_or_another_size_everything_is_written_again():
    memory, frame = ScreenMemory(), "\x1b[1;1Habc\x1b[1;1H"
    first = memory.missing(frame)
    memory.missing("\x1b[?1049h")
    assert memory.missing(frame) == first
    memory.forget()
    assert memory.missing(frame) == first


def test_a_frame_with_wide_characters_is_written_whole():
    memory, frame = ScreenMemory(), "\x1b[1;1H漢字\x1b[1;1H"
    assert (memory.missing(frame), memory.missing(frame)) == (frame, frame)


def test_neighbours_of_the_same_colour_are_written_together():
    """Two rows in two colours: each colour is chosen once, in the order of the first row."""
    memory = ScreenMemory()
    rows = "".join(f"\x1b[{row};1H\x1b[31m{{0}}\x1b[0m  \x1b[32m{{1}}\x1b[0m\n" for row in (1, 2))
    memory.missing(rows.format("a", "b"))
    written = memory.missing(rows.format("c", "d"))
    assert (written.count("\x1b[31m"), written.count("\x1b[32m")) == (1, 1)


def test_the_end_of_bold_keeps_the_colours():
    memory = ScreenMemory()
    frame = "\x1b[1;1H\x1b[1;31;44m{0}\x1b[0m\x1b[31;44m{0}\x1b[0m"
    memory.missing(frame.format("a"))
    assert "\x1b[22m" in memory.missing(frame.format("b"))
