import ctypes
import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import tty
from contextlib import contextmanager

import pytest

from cpugpu_tui.render.capabilities import capabilities
from cpugpu_tui.ui.terminal.guard import private_terminal, refuse


def found(encoding="utf-8", isatty=True, **environ):
    return capabilities(environ, encoding, isatty, (80, 24))


# ------------------------------------------------------------------ capabilities


@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "truecolor"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "tmux-256color"}, "256"),
        ({"TERM": "xterm-kitty"}, "truecolor"),
        ({"TERM": "xterm-direct"}, "truecolor"),
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "linux"}, "16"),
        ({}, "16"),
        ({"TERM": "screen.xterm-256color", "COLORTERM": "truecolor", "STY": "7.pts-0"}, "256"),
        ({"TERM": "tmux-256color", "COLORTERM": "truecolor", "STY": "7.pts-0", "TMUX": "/tmp/t"}, "truecolor"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm", "NO_COLOR": "1", "TEXTUAL_COLOR_SYSTEM": "truecolor"}, "none"),
        ({"TERM": "xterm-256color", "TEXTUAL_COLOR_SYSTEM": "standard"}, "16"),
        ({"TERM": "xterm-256color", "TEXTUAL_COLOR_SYSTEM": "purple"}, "256"),
    ],
)
def test_colours_are_those_the_environment_names(environ, colours):
    assert found(**environ).colours == colours


def test_few_or_no_colours_start_on_the_ansi_theme():
    assert found(TERM="xterm").wants_ansi_theme
    assert found(TERM="xterm-256color", NO_COLOR="").wants_ansi_theme
    assert not found(TERM="xterm-256color").wants_ansi_theme


def test_textual_is_told_a_colour_system_that_it_knows():
    from rich.console import COLOR_SYSTEMS

    for term in ({"TERM": "xterm"}, {"TERM": "xterm-256color"}, {"TERM": "foot"}, {"NO_COLOR": "1"}):
        assert found(**term).textual_color_system in COLOR_SYSTEMS


@pytest.mark.parametrize(
    ("encoding", "environ", "utf8"),
    [
        ("utf-8", {"LANG": "de_DE.UTF-8"}, True), ("UTF8", {"LANG": "de_DE.utf8"}, True),
        ("utf-8", {"LC_ALL": "C"}, False), ("utf-8", {"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, False),
        ("utf-8", {"LANG": "C"}, True), ("utf-8", {}, True), ("utf-8", {"LANG": "de_DE.ISO-8859-1@euro"}, False),
        ("utf-8", {"LC_ALL": "C.UTF-8", "LANG": "de_DE.ISO-8859-1"}, True),
        ("ascii", {"LANG": "de_DE.UTF-8"}, False), ("iso8859-1", {}, False), ("no-such-codec", {}, False),
        (None, {}, False), ("utf-8", {"TERM": "linux"}, False),
    ],
)  # fmt: skip
def test_utf8_needs_an_encoding_and_no_locale_against_it(encoding, environ, utf8):
    assert found(encoding, **environ).utf8 is utf8


def test_terminals_that_cannot_be_drawn_on_are_refused_with_a_way_out():
    for capable, word in ((found(isatty=False, TERM="xterm"), "not a terminal"), (found(TERM="dumb"), "cursor")):
        error = refuse(capable)
        assert word in error.message
        assert "`cpugpu-tui run`" in error.remedy
    assert refuse(found(TERM="xterm")) is None
    assert refuse(capabilities({"TERM": "xterm"}, "utf-8", True, (20, 5))) is None


# ------------------------------------------------------------------ the guard


class Terminal:
    """A pseudo-terminal under file descriptors 1 and 2."""

    END = b"<end>"

    def __init__(self):
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)

    def seen(self):
        """Return the output since the last call, up to a mark that is written first."""
        os.write(self.slave, self.END)
        data = b""
        while not data.endswith(self.END):
            data += os.read(self.master, 1 << 16)
        return data.removesuffix(self.END).decode()


@contextmanager
def on_terminal():
    """Not a fixture, because pytest restores file descriptors 1 and 2 between set-up and call."""
    terminal = Terminal()
    before = os.dup(1), os.dup(2)
    try:
        os.dup2(terminal.slave, 1)
        os.dup2(terminal.slave, 2)
        yield terminal
    finally:
        os.dup2(before[0], 1)
        os.dup2(before[1], 2)
        for fd in (*before, terminal.slave, terminal.master):
            os.close(fd)


def noise(word):
    """Write to both file descriptors like native code and children, without Python's streams."""
    os.write(1, f"{word} one\n".encode())
    os.write(2, f"{word} two\n".encode())
    subprocess.run([sys.executable, "-Ec", f"import os; os.write(2, b'{word} child')"], check=True)
    ctypes.CDLL(None).printf(f"{word} printf".encode())


def test_native_noise_goes_to_the_log_and_not_to_the_screen(tmp_path):
    with on_terminal() as terminal:
        log = tmp_path / "state" / "app.log"
        with private_terminal(log):
            noise("inside")
        assert terminal.seen() == ""
        for words in ("inside one", "inside two", "inside child", "inside printf"):
            assert words in log.read_text()


def test_everything_is_as_before_afterwards_even_after_a_crash(tmp_path):
    with on_terminal() as terminal:
        streams = sys.__stdout__, sys.__stderr__
        open_before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(ZeroDivisionError), private_terminal(tmp_path / "log"):
            raise ZeroDivisionError
        assert (sys.__stdout__, sys.__stderr__) == streams
        assert len(os.listdir("/proc/self/fd")) == open_before
        os.write(1, b"out ")
        os.write(2, b"err")
        assert terminal.seen() == "out err"


def test_textual_draws_on_the_terminal_whatever_the_locale_and_knows_its_size(tmp_path, monkeypatch):
    with on_terminal() as terminal:
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.delenv("LINES", raising=False)
        fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        with private_terminal(tmp_path / "log"):
            sys.__stderr__.write("▲ µs")
            sys.__stderr__.flush()
            assert terminal.seen() == "▲ µs"
            assert shutil.get_terminal_size() == (111, 33)  # what Textual asks; fd 1 is the log


def test_a_terminal_without_utf8_gets_one_cell_for_each_character(tmp_path):
    with on_terminal() as terminal:
        with private_terminal(tmp_path / "log", utf8=False) as stream:
            stream.write("│ 3 µs")
        assert terminal.seen() == "? 3 ?s"


def test_the_log_is_appended_to_and_private(tmp_path):
    with on_terminal():
        for word in (b"first ", b"second"):
            with private_terminal(tmp_path / "log"):
                os.write(2, word)
        assert (tmp_path / "log").read_text() == "first second"
        assert (tmp_path / "log").stat().st_mode & 0o077 == 0


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path):
    with on_terminal() as terminal:
        (tmp_path / "file").write_text("")
        with private_terminal(tmp_path / "file" / "log") as stream:
            os.write(1, b"dropped")
            stream.write("drawn")
        assert terminal.seen() == "drawn"
