"""A driver that writes fewer bytes, for slow connections and for tmux, which parses every byte again.

Textual writes a changed line from its widget's left edge, each piece with all its colours and a reset: a row of the
timing table takes 900 bytes in 24-bit colour. This driver remembers what the terminal shows and writes only the cells
that differ. At 120×40 with five changed rows per second, it writes 1.1 kB/s instead of 5.5.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.message import Message

from cpugpu_tui.transport.signal_watch import pressed_ctrl_c
from cpugpu_tui.ui.terminal.bounded_input import BoundedInputDriver

_TOKEN = re.compile(r"\x1b\[([0-9;]*)([mH])|(\n)|([^\x1b\n]+)")
_NO_FRAME = re.compile(r"\x1b(?!\[[0-9;]*[mH])|[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f]")
"""Matches what is not in Textual's frames, which hold positions, colour codes, text, and line feeds."""
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "9": "29"}
"""Attribute → the code that ends it."""
_ON_BLANKS = frozenset("4579")
"""Attributes that are visible on a blank: underline, blink, reverse, strikethrough."""
FEW_CELLS = 3
"""Cells that take no more bytes than a move of the cursor."""


class Pen(NamedTuple):
    """The terminal's current style: attributes such as `1` (bold), and colours as their codes."""

    attributes: frozenset[str] = frozenset()
    foreground: str = ""
    background: str = ""

    @cache  # noqa: B019 - there are as many pens as a theme has styles
    def after(self, parameters: str) -> Pen:
        """Return the pen after one colour code."""
        attributes, foreground, background = set(self.attributes), self.foreground, self.background
        codes = iter(parameters.split(";") if parameters else ["0"])
        for code in codes:
            number = int(code or 0)
            if number == 0:
                attributes, foreground, background = set(), "", ""
            elif number in (38, 48):
                colour = _colour(code, codes)
                foreground, background = (colour, background) if number == 38 else (foreground, colour)
            elif 30 <= number <= 39 or 90 <= number <= 97:
                foreground = "" if number == 39 else code
            elif 40 <= number <= 49 or 100 <= number <= 107:
                background = "" if number == 49 else code
            else:
                attributes.add(code)
        return Pen(frozenset(attributes), foreground, background)

    @cache  # noqa: B019 - as above
    def code_from(self, before: Pen) -> str:
        """Return the shortest code that changes another pen into this one."""
        if self == before:
            return ""
        return min(self._code(before), self._code(Pen(), "0"), key=len)

    def _code(self, before: Pen, first: str = "") -> str:
        """Return the code that changes another pen into this one; `first` is a parameter before it, such as a reset."""
        off = {_OFF[each] for each in before.attributes - self.attributes if each in _OFF}
        if len(off) < len(before.attributes - self.attributes) or {"1", "2"} <= before.attributes | self.attributes:
            before, off, first = Pen(), set(), "0"  # 22 ends both bold and faint
        parts = [first] if first else []
        parts += sorted(off) + sorted(self.attributes - before.attributes)
        changes = ((self.foreground, before.foreground, "39"), (self.background, before.background, "49"))
        parts += [new or default for new, old, default in changes if new != old]
        return f"\x1b[{';'.join(parts)}m"

    @cache  # noqa: B019 - as above
    def on_blank(self) -> Pen:
        """Return the part of this pen that is visible on a blank."""
        return self if self.attributes & _ON_BLANKS else Pen(background=self.background)


def _colour(code: str, codes: Iterator[str]) -> str:
    """Return a 256-colour or 24-bit colour as one string, taking its numbers from the parameters."""
    kind = next(codes, "5")
    return ";".join((code, kind, *(next(codes, "0") for _ in range(3 if kind == "2" else 1))))


class Piece:
    """Neighbouring cells that one pen writes."""

    def __init__(self, row: int, column: int, text: str, pen: Pen) -> None:
        self.row, self.column, self.text, self.pen = row, column, text, pen

    def continues_at(self, row: int, column: int, pen: Pen, blank: bool) -> bool:
        """Return whether cells at this place continue the piece: they follow it, and one pen can write both."""
        if (row, column) != (self.row, self.column + len(self.text)):
            return False
        if pen == self.pen or (blank and pen == self.pen.on_blank()):
            return True
        return self.pen == pen.on_blank() and self.text.isspace()


class ScreenMemory:
    """The cells that the terminal shows, as far as they are known."""

    def __init__(self) -> None:
        self._rows: defaultdict[int, dict[int, tuple[str, Pen]]] = defaultdict(dict)
        self._cursor: tuple[int, int] | None = None
        self._pen = Pen()
        self._pieces: list[Piece] = []
        self._written: list[str] = []

    def forget(self) -> None:
        """Clear the memory, after a resize or a change of the screen."""
        self._rows.clear()
        self._cursor = None

    def missing(self, data: str) -> str:
        """Return output with the same result as `data`, and remember the result.

        Data that is not a frame passes unchanged. So does a frame with wide or combining characters. That frame, and a
        switch to or from the alternate screen, clears the memory.
        """
        if _NO_FRAME.search(data):
            if "\x1b[?1049" in data:  # the alternate screen
                self.forget()
            return data
        self._pen = Pen()
        end = self._follow(data)
        if end is None:
            self._pieces.clear()
            self._written.clear()
            self.forget()
            return data
        self._write_pieces()
        if end[0] and self._cursor != end:
            self._move(*end)
        self._written.append(Pen().code_from(self._pen))
        text = "".join(self._written)
        self._written.clear()
        return text

    def _follow(self, data: str) -> tuple[int, int] | None:
        """Collect the cells of a frame that differ. Return the last position (row 0: unknown); None for wide text."""
        pen = Pen()
        row = column = 0
        reached = (0, 0)
        for parameters, kind, _line_feed, text in _TOKEN.findall(data):
            if kind == "m":
                pen = pen.after(parameters)
            elif kind == "H":
                row, column = _position(parameters)
                if (row, column) < reached:  # it goes back, where a cell may change a second time
                    self._write_pieces()
            elif text:
                if not row or cell_len(text) != len(text):
                    return None
                self._text(text, row, column, pen)
                column += len(text)
                reached = row, column
            else:
                row = 0  # a position always follows a line feed
        return row, column

    def _text(self, text: str, row: int, column: int, pen: Pen) -> None:
        cells, blank = self._rows[row], pen.on_blank()
        if column not in cells and column + len(text) - 1 not in cells:
            # With both ends unknown, as in the first frame, no cell is compared: comparing 4,800 cells would take 9 ms.
            self._put(row, column, text, blank if text.isspace() else pen)
            if text.strip(" "):
                cells.update((place, (sign, blank if sign == " " else pen)) for place, sign in enumerate(text, column))
            else:
                cells.update(dict.fromkeys(range(column, column + len(text)), (" ", blank)))
            return
        for place, character in enumerate(text, column):
            cell = (character, blank if character == " " else pen)
            if cells.get(place) != cell:
                cells[place] = cell
                self._put(row, place, *cell)

    def _put(self, row: int, column: int, text: str, pen: Pen) -> None:
        blank = text.isspace()
        if self._pieces and self._pieces[-1].continues_at(row, column, pen, blank):
            piece = self._pieces[-1]
            piece.text += text
            piece.pen = piece.pen if blank else pen
        else:
            self._pieces.append(Piece(row, column, text, pen))

    def _write_pieces(self) -> None:
        """Write the pieces pen by pen: moving the cursor takes 7 bytes, changing a 24-bit colour 18."""
        groups: dict[Pen, list[Piece]] = {}
        for piece in self._pieces:
            groups.setdefault(piece.pen, []).append(piece)
        self._pieces.clear()
        for piece in (piece for pieces in groups.values() for piece in pieces):
            if self._cursor != (piece.row, piece.column) and not self._step_over(piece):
                self._move(piece.row, piece.column)
            self._written.append(piece.pen.code_from(self._pen) + piece.text)
            self._pen, self._cursor = piece.pen, (piece.row, piece.column + len(piece.text))

    def _step_over(self, piece: Piece) -> bool:
        """Write the few cells before a piece again if its pen has drawn them: shorter than moving the cursor."""
        row, column = self._cursor or (0, 0)
        if row != piece.row or piece.pen != self._pen or not 0 < piece.column - column <= FEW_CELLS:
            return False
        cells, blank = self._rows[row], piece.pen.on_blank()
        known = [cells[place] for place in range(column, piece.column) if place in cells]
        same = [character for character, pen in known if pen == piece.pen or (character == " " and pen == blank)]
        if len(same) < piece.column - column:
            return False
        self._written.append("".join(same))
        return True

    def _move(self, row: int, column: int) -> None:
        cursor = self._cursor
        steps = column - cursor[1] if cursor is not None and cursor[0] == row else 0
        self._written.append(f"\x1b[{steps if steps > 1 else ''}C" if steps > 0 else f"\x1b[{row};{column}H")
        self._cursor = (row, column)


def _position(parameters: str) -> tuple[int, int]:
    row, _, column = parameters.partition(";")
    return int(row or 1), int(column or 1)


class DiffDriver(BoundedInputDriver):
    """Textual's driver, writing only the cells that differ."""

    _memory: ScreenMemory | None = None

    def write(self, data: str) -> None:
        """Write the part of `data` that changes what the terminal shows."""
        if self._memory is None:
            self._memory = ScreenMemory()
        missing = self._memory.missing(data)
        if missing:
            super().write(missing)

    def process_message(self, message: Message) -> None:
        """Pass on input; report ctrl+c to the signal watch, which obeys a second one even if the app is stuck."""
        if isinstance(message, events.Key) and message.key == "ctrl+c":
            pressed_ctrl_c()
        super().process_message(message)

    def forget(self) -> None:
        """Write each cell again when it is next drawn, because the terminal's content is unknown."""
        if self._memory is not None:
            self._memory.forget()
