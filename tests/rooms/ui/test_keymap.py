"""A keymap in the config: what may be written, what is refused with its line, and where it is shown."""

import os

import pytest
from textual.keys import Keys

from cpugpu_tui.config import load_config
from cpugpu_tui.config.settings import KeyLine
from cpugpu_tui.errors import UsageError
from cpugpu_tui.ui.keys import (
    COMMAND_BY_ID,
    COMMANDS,
    DEFAULT_KEYMAP,
    KEPT,
    NAMED,
    TAKEN,
    Situation,
    impossible,
    keymap_of,
)


def loaded():
    return keymap_of(load_config().keys)


def test_keys_of_the_file_take_the_place_of_ours(write):
    write('theme = "slate"\n[keys]\nrun = "F5"\nstop = ["ctrl+a", "alt+x"]\nzoom = "ctrl+b"\nquit = "Q"\nsort = ","\n')
    keymap = loaded()
    assert (keymap.keys["run"], keymap.text("stop")) == (("f5",), "ctrl+a, alt+x")
    assert keymap.text("quit") == "Q, ctrl+c", "a way out always stays"
    assert keymap.with_keys("{run} {back} {machine} {this}") == "f5 esc m {this}"
    assert keymap.for_textual() == {"run": "f5", "stop": "ctrl+a,alt+x", "zoom": "ctrl+b", "quit": "Q,ctrl+c",
                                    "sort": "comma"}  # fmt: skip


WRONG = [
    ("keys = 3\n", 1), ("[keys]\nrun = 3\n", 2), ("[keys]\nrun = []\n", 2), ('[keys]\nrun = ""\n', 2),
    ('[keys]\n\nrunn = "f5"\n', 3), ('[keys]\ncopy-comand = "f5"\n', 2), ('[keys]\nrun = "f25"\n', 2),
    ('[keys]\nrun = "hyper+r"\n', 2), ('[keys]\nrun = "ctrl+"\n', 2), ('[keys]\nrun = "ctrl+!"\n', 2),
    ('[keys]\nrun = "shift+r"\n', 2), ('[keys]\nrun = "x"\n', 2), ('[keys]\nrun = "f5"\nstop = "f5"\n', 2),
    ('[keys]\nrun = "ctrl+m"\n', 2), ('[keys]\nrun = "esc"\n', 2), ('[keys]\nrun = "j"\n', 2),
    ('[keys]\nchart = "f2"\nrun = "g"\n', 3), ('[keys]\nrun = "3"\n', 2), ('[keys]\nrun = "d"\n', 2),
    ('[keys]\nrun = "\\u001b[31m"\n', 2),
]  # fmt: skip
"""A config that is refused, and the line at fault."""


def refused(text, write):
    path = write(text)
    with pytest.raises(UsageError) as caught:
        loaded()
    assert str(caught.value).startswith(str(path))
    return str(caught.value).replace(str(path), "config.toml")


@pytest.mark.parametrize(("text", "line"), WRONG)
def test_what_cannot_be_is_one_line_that_names_the_line(text, line, write):
    said = refused(text, write)
    assert f"line {line}: " in said
    assert "\n" not in said
    assert "\x1b" not in said


def test_each_error_names_the_value_and_the_remedy(write, words):
    words([refused(text, write) for text, _ in WRONG])


def test_every_named_key_is_one_that_textual_sends():
    assert {key.value for key in Keys} | {"space"} >= NAMED


def test_no_default_needs_what_a_terminal_or_its_multiplexer_keeps_for_itself():
    for command in COMMANDS:
        for key in command.keys:
            assert key not in ("ctrl+a", "ctrl+b"), command.id
            assert not key.startswith(("alt+", "f1", "f2")) or len(key) == 1, command.id
            assert key not in TAKEN or key in ("k", "g", "o"), f"{command.id} could not be reached everywhere"
    assert all(kept in COMMAND_BY_ID[name].keys for name, kept in KEPT.items())
    assert COMMAND_BY_ID["claims"].keys == ("K", "k"), "in a list k moves, so it needs the other"


def test_defaults_pass_their_own_check():
    lines = [KeyLine(name, keys, "here", 1) for name, keys in DEFAULT_KEYMAP.keys.items()]
    assert keymap_of(lines) == DEFAULT_KEYMAP


@pytest.mark.parametrize(
    "situation",
    [
        Situation(), Situation(ran=True), Situation(replay=True), Situation(ran=True, past=True), Situation(live=True),
        Situation(live=True, ran=True), Situation(live=True, ran=True, paused=True),
        Situation(live=True, ran=True, stopping=True),
    ],
    ids=str,
)  # fmt: skip
def test_every_impossible_command_has_cause_and_remedy(situation):
    for command in COMMANDS:
        why = DEFAULT_KEYMAP.with_keys(impossible(command, situation))
        assert bool(why) != command.possible(situation)
        assert not why or (";" in why and "{" not in why and why != "not now."), (command.id, why)


# ------------------------------------------------------------------ on the command line


def test_show_names_the_origin_of_each_key(write, cpugpu):
    write('[keys]\nrun = "f5"\n')
    found = {item["command"]: item for item in cpugpu.here("config", "show", "--json").objects if "command" in item}
    assert set(found) == set(COMMAND_BY_ID)
    assert found["run"] == {"command": "run", "keys": ["f5"], "origin": "config.toml line 2"}
    assert found["stop"] == {"command": "stop", "keys": ["x"], "origin": "default"}
    table = cpugpu.here("config").out
    assert [line.split() for line in table.splitlines() if "f5" in line] == [["run", "f5", "config.toml", "line", "2"]]


@pytest.mark.parametrize("command", [("config",), ("history",), ("run", "matmul"), ()], ids=str)
def test_a_wrong_key_stops_every_command_with_the_line(command, write, cpugpu):
    path = write('[keys]\nrun = "f25"\n')
    done = cpugpu.here(*command, code=2)
    assert done.err.startswith(f"cpugpu-tui: {path}, line 2: ")
    assert "'f25'" in done.err
    assert done.err.count(os.linesep) == 1
