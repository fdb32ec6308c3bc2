"""Copying reaches the user's own terminal, also through tmux and screen."""

import base64
import re

import pytest
from tests.helpers.app.fake_run import new_app, opened
from tests.helpers.app.looking import text_of

from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.session.repeat import repeat_text
from cpugpu_tui.ui.controllers.history import envelope, way


def taken(stream):
    """Return the text that a terminal with OSC 52 takes from this output."""
    found = re.findall(r"\x1b\]52;c;([A-Za-z0-9+/=]*)\a", stream)
    assert len(set(found)) == 1, stream
    return base64.b64decode(found[0]).decode()


def through_tmux(stream):
    """Return the output that tmux with `allow-passthrough` passes to its terminal."""
    return "".join(body.replace("\x1b\x1b", "\x1b") for body in re.findall(r"\x1bPtmux;(.*?\a)\x1b\\", stream))


def through_screen(stream):
    """Return the output that screen passes to its terminal; it drops envelopes above 256 bytes."""
    bodies = re.findall(r"\x1bP(.*?)\x1b\\", stream)
    assert all(len(body) <= 256 for body in bodies)
    return "".join(bodies)


@pytest.mark.parametrize("text", ["cpugpu-tui run quick", "µ × – " * 200])
def test_each_way_carries_the_whole_text(text):
    assert envelope(text, {"TERM": "xterm-256color"}) == "", "Textual itself sends the plain form"
    for environ in ({"TMUX": "/tmp/t,1,0", "TERM": "screen-256color"}, {"TERM": "tmux-256color"}):
        assert taken(through_tmux(envelope(text, environ))) == text
    for environ in ({"STY": "1.pts", "TERM": "screen"}, {"TERM": "screen.xterm-256color"}):
        assert taken(through_screen(envelope(text, environ))) == text


def test_who_has_to_allow_it_is_named(words):
    words([way({"TMUX": "x"}), way({"STY": "x"}), way({"TERM": "xterm"})])


async def test_capital_c_copies_the_command_that_repeats_the_run_and_says_so(monkeypatch):
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    async with opened(ran=True) as pilot:
        await pilot.press("C")
        run = pilot.app.state.run.run
        assert pilot.app.clipboard == repeat_text(run) == "cpugpu-tui run quick --starts 1"
        said = "Copied, if the terminal allows it: cpugpu-tui run quick --starts 1"
        assert text_of(pilot, "#status").startswith(said)


async def test_a_command_too_long_for_the_line_says_that_there_is_more():
    async with opened(new_app(PlanRequest(("matmul",), sizes="16,64,256", rounds=8)), size=(60, 16), ran=True) as pilot:
        await pilot.press("C")
        line = text_of(pilot, "#status")
        assert len(line) <= 60
        assert "allow" in line
        assert line.rstrip().endswith("…")
