"""Names of files, hosts and options that a terminal would obey: they are spelled out, whatever prints them."""

import os

import pytest

from cpugpu_tui.errors import shown

TITLE, CSI, BIDI, BYTES = "\x1b]0;owned\x07", "\x9b31m", "\u202e", "\udcff\udc9b"
HOSTILE = f"a{TITLE}{CSI}{BIDI}{BYTES}b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b]0;x\x07b", "a\\x1b]0;x\\x07b"),
        ("one\ntwo\r\t", "one\\ntwo\\r\\t"),
        ("\udcff\ud800", "\\xff\\ud800"),
        ("\u202egnp.exe\x9b", "\\u202egnp.exe\\x9b"),
        ("12\u202f000\xa0µs – Müller 東京", "12\u202f000\xa0µs – Müller 東京"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text, expected):
    assert shown(text) == expected
    shown(text).encode()


COMMANDS = """
import {}.json
import {}/x.json
export --out {}/x.json
export --out {}.xlsx
export --format {}
export {}
new-workload mine --out {}/x.py
new-workload {}
telemetry --record {}/x.ndjson
telemetry --replay {}
fleet hosts -H {}
fleet hosts -w {}
run --workloads {}.py
run --python {}
run {}
run --size {}
run --device {}
run --dtype {}
run --export {}
run --simulate {}
run --worker {}
run --rounds {}
run --{}
{}
history --db {}/x.db
history --filter {}
show {}
compare {} latest
baseline {} latest
tag 1 +{}
demo {}
devices --python {}
--replay {}
list --workloads {}.py
doctor --python {}
machine --device {}
run mnist-mlp --mnist {}
""".strip().splitlines()
"""Command lines with a hostile name in place of {}."""


def harmless(done):
    """Whether a terminal would print all of it and obey none, and no one meets a traceback."""
    text = done.out + done.err
    obeyed = [each for each in text if each not in "\n" and (ord(each) < 32 or 0x7F <= ord(each) < 0xA0)]
    return not obeyed and BIDI not in text and "Traceback" not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_name_is_printed_and_not_obeyed(cpugpu, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    done = cpugpu.here(*(word.replace("{}", HOSTILE) for word in command.split()))
    assert harmless(done), done
    assert done.code in (0, 1, 2, 4)
    assert done.out or done.err


@pytest.mark.parametrize("environment", [{}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0",
                                                              "PYTHONCOERCECLOCALE": "0"}])  # fmt: skip
def test_a_name_that_is_not_utf8_is_refused_in_every_locale(cpugpu, tmp_path, environment):
    file = os.fsencode(tmp_path) + b"/a\xff\x1b]0;owned\x07.py"
    for command in (["new-workload", "mine", "--out"], ["list", "--workloads"], ["run", "mnist-mlp", "--mnist"]):
        done = cpugpu(*command, os.fsdecode(file), **environment, code=2)
        assert "not UTF-8" in done.err
        assert harmless(done)
    assert not os.path.exists(file)


def test_a_path_goes_into_a_pipe_as_it_is(cpugpu, tmp_path):
    folder = tmp_path / "a b"
    done = cpugpu("config", "path", XDG_CONFIG_HOME=str(folder))
    assert done.out.strip() == str(folder / "cpugpu-tui" / "config.toml")
