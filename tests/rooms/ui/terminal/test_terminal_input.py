"""A terminal's input: every byte is read, a paste is one piece with a limit, and the rest is counted."""

import random
import time

import pytest
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS

from cpugpu_tui.ui.terminal.bounded_input import LONGEST_LINE, PASTE_PAUSE_S, Paste, TerminalInput, keys_of

BEGIN, END = b"\x1b[200~", b"\x1b[201~"


def taken(data, *cuts):
    """Return the pieces of these bytes, read in parts, with a pause at the end; adjoining text is joined."""
    terminal, pieces = TerminalInput(), list[str | Paste]()
    for begin, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        pieces += terminal.feed(data[begin:end])
    pieces += terminal.pause(PASTE_PAUSE_S)
    joined: list[str | Paste] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def test_every_byte_is_taken_and_what_is_no_text_gets_a_sign():
    for byte in range(256):
        typed = taken(bytes([byte]) + b"q")
        assert len(typed) == 1
        assert str(typed[0]).endswith("q")
    assert taken("ä".encode("latin-1") + b"j") == ["\ufffdj"]
    assert taken(b"\xff\xfe\xc3") == ["\ufffd\ufffd\ufffd"]
    assert taken("漢ä".encode(), 1, 4) == ["漢ä"], "a character may come in two reads"


def test_a_paste_is_one_piece_wherever_it_is_cut():
    data = b"j" + BEGIN + "a\x1b[31m漢\tb\x00\x1b]0;title\x07\r".encode() + END + b"\x1b[Ak"
    for cut in range(1, len(data)):
        assert taken(data, cut) == ["j", Paste("a漢 b\r"), "\x1b[Ak"], cut


def test_what_goes_over_the_cap_is_counted_and_dropped():
    assert taken(BEGIN + b"x" * (LONGEST_LINE + 5) + END) == [Paste("x" * LONGEST_LINE, 5)]
    text = "漢" * (LONGEST_LINE * 5)
    assert taken(BEGIN + text.encode() + END, 1000, 30_000) == [Paste("漢" * LONGEST_LINE, LONGEST_LINE * 4)]


def test_a_megabyte_is_dropped_before_it_costs_anything():
    data = b"red\x1b[31mtext " * 80_000
    started_s = time.thread_time()
    pieces = taken(BEGIN + data + END, *range(4096, len(data), 4096))
    assert time.thread_time() - started_s < 1.0, "it takes 5 ms; a parser of single characters takes 20 s"
    assert len(pieces) == 1
    assert pieces[0].dropped == len(data) - LONGEST_LINE


def test_a_paste_without_an_end_ends_by_itself():
    terminal = TerminalInput()
    assert (terminal.feed(BEGIN + b"cut"), terminal.pause(0.1)) == ([], [])
    assert (terminal.pause(PASTE_PAUSE_S), terminal.feed(b"j")) == ([Paste("cut")], ["j"])


@pytest.mark.parametrize("data", [b"\x1b", b"\x1b[", b"\x1bO", b"\x1b[20", b"\x1b[3$", b"\xe6\xbc"])
def test_what_was_cut_in_the_middle_comes_out_after_a_pause(data):
    terminal = TerminalInput()
    assert (terminal.feed(data), terminal.pause(0.1)) == ([], [data.decode(errors="replace")])
    assert terminal.pause(0.2) == []


def test_each_sequence_that_textual_knows_is_one_key():
    known = [sequence for sequence in ANSI_SEQUENCES_KEYS if not sequence.startswith("\x1b\x1b")]
    assert [list(keys_of(sequence)) for sequence in known] == [[sequence] for sequence in known]
    assert list(keys_of("a\x1b\x1b[A\x1b[[Bä\x1b[1;")) == ["a", "\x1b", "\x1b[A", "\x1b[[B", "ä", "\x1b", *"[1;"]


def test_no_bytes_are_lost_or_raise_whatever_they_are():
    chance = random.Random(14)
    parts = [BEGIN, END, b"\x1b", b"[", b"\x1b[", b"~", b"\x1b[31m", b"\x1b]0;", b"\x07", "漢".encode(), b"x" * 50]
    for _ in range(500):
        data = b"".join(chance.choice([*parts, chance.randbytes(3)]) for _ in range(20))
        cuts = sorted(chance.sample(range(1, len(data)), 5))
        for piece in taken(data, *cuts):
            if isinstance(piece, str):
                assert "".join(keys_of(piece)) == piece
