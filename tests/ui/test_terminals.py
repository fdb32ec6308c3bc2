"""The app on terminals of every kind: which colours and signs reach them, and which terminal is refused."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pty_app import PtyApp

SCRIPT = Path(__file__).parent / "real_app.py"
LEAVES = b"\x1b[?1049l"

KINDS = [
    ({"NO_COLOR": "1"}, "none"),
    ({"NO_COLOR": "1", "TERM": "xterm", "COLORTERM": None}, "none"),
    ({"TERM": "xterm", "COLORTERM": None}, "16"),
    ({"TERM": "linux", "COLORTERM": None}, "16"),
    ({"TERM": "screen", "COLORTERM": None, "STY": "7.pts-0"}, "16"),
    ({"TERM": "screen.xterm-256color", "STY": "7.pts-0"}, "256"),
    ({"TERM": "tmux-256color", "COLORTERM": None, "TMUX": "/tmp/t,1,0"}, "256"),
    ({"TERM": "tmux-256color", "TMUX": "/tmp/t,1,0"}, "truecolor"),
    ({"TERM": "xterm", "COLORTERM": "truecolor"}, "truecolor"),
]


def kinds_of_colour(output: bytes) -> set[str]:
    """What kinds of colour were written: `16`, `256`, `truecolor`."""
    found = set()
    for parameters in re.findall(rb"\x1b\[([0-9;]*)m", output):
        codes = iter(parameters.decode().split(";"))
        for code in codes:
            if code in ("38", "48"):
                kind = next(codes)
                found.add({"5": "256", "2": "truecolor"}[kind])
                for _ in range(1 if kind == "5" else 3):
                    next(codes)
            elif code and (30 <= int(code) <= 37 or 40 <= int(code) <= 47 or 90 <= int(code) <= 107):
                found.add("16")
    return found


def visit(app: PtyApp) -> Iterator[str]:
    """Run, look at the pages and at two themes; give the screen each time."""
    app.until_text("ready")
    yield app.text
    app.send("r")
    app.until(lambda app: re.search(r"done (\d+)/\1\b", app.text) is not None)
    app.until_text("end to end")  # the answer
    yield app.text
    for key, seen in (("?", "theme"), ("m", "measure"), ("T", "as it was")):
        app.send(key)
        app.until_text(seen)
        yield app.text
        if key == "T":
            app.send("jj")
            app.bytes_until_quiet()
            yield app.text
        app.send("\x1b")
        app.until_text("GPU is faster from")
    app.send("q")
    assert app.exit_code() == 0


@pytest.mark.parametrize(("env", "kind"), KINDS, ids=lambda value: value if isinstance(value, str) else None)
def test_a_terminal_gets_the_colours_it_has_and_no_others(
    tmp_path: Path, env: dict[str, str | None], kind: str
) -> None:
    with PtyApp([sys.executable, SCRIPT, tmp_path, "0"], env=env) as app:
        screens = list(visit(app))
        drawn = bytes(app.output[: app.output.find(LEAVES)])
        assert kinds_of_colour(drawn) == ({kind} if kind != "none" else set())
        assert ("v CPU" if env.get("TERM") == "linux" else "▼ CPU") in screens[1]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "linux", "COLORTERM": None}])
def test_without_colours_of_its_own_the_cursor_is_reversed(tmp_path: Path, env: dict[str, str | None]) -> None:
    with PtyApp([sys.executable, SCRIPT, tmp_path, "0"], env=env) as app:
        next(iter_ := visit(app))
        next(iter_)
        row = next(index for index, line in enumerate(app.lines) if "matmul 2048" in line or "matmul 2,048" in line)
        first = next(index for index, line in enumerate(app.lines) if "matmul 16 " in line)
        reverse = {index for index in range(first, row + 1) if app.style_at(app.lines[index].index("m"), index).reverse}
        assert len(reverse) == 1


@pytest.mark.parametrize("env", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"TERM": "linux"},
                                 {"LC_ALL": "C.ISO-8859-1", "PYTHONIOENCODING": "latin-1"}])  # fmt: skip
def test_without_utf8_every_byte_is_ascii(tmp_path: Path, env: dict[str, str]) -> None:
    with PtyApp([sys.executable, SCRIPT, tmp_path, "0"], env=env) as app:
        for screen in visit(app):
            assert screen.isascii()
        assert app.output[: app.output.find(LEAVES)].isascii()


def test_a_dumb_terminal_is_refused_in_two_sentences_and_never_drawn_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cpugpu_tui", "--no-save"]
    with PtyApp(command, env={"TERM": "dumb", "XDG_CONFIG_HOME": str(tmp_path)}) as app:
        assert app.exit_code() == 4
        said = " ".join(app.output.decode().split())
    assert "This terminal cannot move its cursor (TERM says so), and the app needs that." in said
    assert "Use `cpugpu-tui run`" in said
    assert "\x1b" not in said


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_app_inside_tmux(tmp_path: Path) -> None:
    """A server of its own, which ends with its only window."""
    inside = f"{sys.executable} {SCRIPT} {tmp_path} 0"
    command = [
        "tmux",
        "-S",
        str(tmp_path / "socket"),
        "-f",
        "/dev/null",
        "new-session",
        "-x",
        "120",
        "-y",
        "40",
        inside,
    ]
    with PtyApp(command, env={"COLORTERM": None}) as app:
        app.until_text("ready")
        app.send("r")
        app.until(lambda app: re.search(r"done (\d+)/\1\b", app.text) is not None)
        app.until_text("▲ GPU")
        app.send("q")
        assert app.exit_code() == 0
