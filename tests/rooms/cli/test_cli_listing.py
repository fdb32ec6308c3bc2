"""`list`, `devices`, `history`, `show`: what there is, for people and as JSON."""

import io
import json
import re
import sys

import pytest
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.command_line import FAST, CommandLine

from cpugpu_tui import __version__
from cpugpu_tui.cli.output.printing import plain
from cpugpu_tui.model import CaseFinished, RunFinished
from cpugpu_tui.workloads import PRESETS, catalogue


def test_the_version_is_said(cpugpu):
    assert cpugpu("--version").out == f"cpugpu-tui {__version__}\n"


# ------------------------------------------------------------------ list


def test_list_names_presets_and_workloads(cpugpu):
    done = cpugpu.here("list")
    assert (done.code, done.err) == (0, "")
    for name in ("quick", "matmul-sweep", "vector-dot", "matmul"):
        assert name in done.out
    assert "P1: " in done.out


def test_list_as_json_has_every_fact(cpugpu, words):
    objects = cpugpu.here("list", "--json").objects
    assert [(item["kind"], item["name"]) for item in objects] == [
        *(("preset", name) for name in PRESETS), *(("workload", info.name) for info in catalogue()),
    ]  # fmt: skip
    (dot,) = [item for item in objects if (item["kind"], item["name"]) == ("workload", "vector-dot")]
    assert dot["variants"] == ["matmul", "dot"]
    assert all(item["summary"].endswith(".") for item in objects if item["kind"] == "workload")
    (sweep,) = [item for item in objects if item["name"] == "matmul-sweep"]
    words(sweep["small"]["says"])


# ------------------------------------------------------------------ devices


def test_devices_lists_what_an_agent_finds(cpugpu):
    done = cpugpu.here("devices", "--simulate", "gpus=2")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines() if "simulated" in line] == ["cpu", "cuda:0", "cuda:1"]
    objects = cpugpu.here("devices", "--simulate", "gpus=2", "--json").objects
    assert [(item["name"], item["uuid"]) for item in objects] == [
        ("cpu", None), ("cuda:0", "GPU-SIM0"), ("cuda:1", "GPU-SIM1"),
    ]  # fmt: skip
    assert not cpugpu.database.exists()


def test_devices_says_why_there_is_no_gpu(cpugpu, words):
    last = cpugpu.here("devices", "--simulate", "gpus=0", "--json").objects[-1]
    assert list(last) == ["no_gpu"]
    words(last["no_gpu"])
    assert last["no_gpu"] in cpugpu.here("devices", "--simulate", "gpus=0").out


# ------------------------------------------------------------------ history, show


@pytest.fixture(scope="module")
def with_two_runs(tmp_path_factory):
    """A history that the tests only read."""
    cpugpu = CommandLine(tmp_path_factory.mktemp("two-runs") / "history.db")
    cpugpu("run", "--simulate", FAST, "--size", "64,128")
    cpugpu("run", "vector-dot", "--simulate", f"{FAST},error_size=1000", "--size", "100,1000", "--variant", "dot")
    return cpugpu


def test_an_empty_history_says_how_to_begin(cpugpu):
    done = cpugpu.here("history")
    assert (done.code, done.err) == (0, "")
    assert "cpugpu-tui run" in done.out
    assert cpugpu.here("history", "--json").out == ""


def test_a_run_is_named_by_number_latest_or_the_beginning_of_its_id(with_two_runs):
    first, second = (item["run_id"] for item in reversed(with_two_runs.here("history", "--json").objects))
    unique = next(first[:end] for end in range(1, len(first)) if not second.startswith(first[:end]))
    for name, run_id in (("1", first), ("2", second), ("latest", second), (unique, first), (second, second)):
        started = with_two_runs.here("show", name, "--json").events[0]
        assert started.run_id == run_id
    assert with_two_runs.here("show").out == with_two_runs.here("show", "2").out


def test_show_prints_the_table_of_the_run_again(with_two_runs):
    done = with_two_runs.here("show", "1")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("SIMULATED")
    assert any(text in done.out for text in ("The GPU wins", "The CPU wins", "No size "))
    events = with_two_runs.here("show", "1", "--json").events
    assert len([event for event in events if isinstance(event, CaseFinished)]) == 2
    assert isinstance(events[-1], RunFinished)


def test_show_says_the_answer_where_run_says_it(with_two_runs):
    shown = with_two_runs.here("show", "1", "--json").objects
    run = with_two_runs("run", "--simulate", FAST, "--size", "64,128", "--no-save", "--json").objects
    for objects in (shown, run):
        assert [item["event"] for item in objects[-2:]] == ["Answer", "RunFinished"]
        (sentences,) = [sweep["sentences"] for sweep in objects[-2]["sweeps"]]
        assert "µs" in " ".join(sentences)
        assert " us" not in " ".join(sentences)


@pytest.mark.parametrize(("columns", "encoding"), [(60, "ascii"), (80, "latin-1")])
def test_no_table_is_cut_on_a_narrow_terminal_without_utf8(with_two_runs, columns, encoding):
    """What rich puts where it cuts cannot be written there, and "9.3..." would be read as a number."""
    simulated = ("--simulate", FAST)
    commands = (
        ("show", "1"), ("show", "2"), ("history",), ("list",), ("devices", *simulated), ("claims", *simulated),
        ("machine", *simulated), ("run", "--size", "64", "--no-save", "--rounds", "3", *simulated),
        ("telemetry", "--count", "1", "--interval", "0.1", *simulated),
    )  # fmt: skip
    code, out = on_a_terminal(with_two_runs, commands, columns, encoding)
    assert (code, out.isascii()) == (0, True), out
    assert [tuple(line.split()[1:]) for line in out.splitlines() if line.startswith("$ ")] == [*commands, ("end",)]
    assert not re.search(r"Traceback|UnicodeEncode|\d\.\.\.|\\xb7", out), out


IN_TURN = """
import json
import sys

from cpugpu_tui.__main__ import main

for words in json.loads(sys.argv[1]):
    print("$", *words)
    sys.argv = ["cpugpu-tui", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
print("$ end")
"""
"""Several commands in one process, for what each of them prints: imports take longer than the commands."""


def on_a_terminal(cpugpu, commands, columns, encoding):
    """Run commands in turn on a pseudo-terminal, up to one that fails; return exit code and all that was written."""
    environment = cpugpu.environment(PYTHONIOENCODING=encoding)
    program = [sys.executable, "-c", IN_TURN, json.dumps(commands)]
    with PtyApp(program, columns=columns, rows=24, env=environment) as app:
        return app.exit_code(), app.output.decode("latin-1")


# ------------------------------------------------------------------ terminals without UTF-8


@pytest.mark.parametrize(("locale", "tty", "signs"), [("C", True, False), ("C", False, True), ("C.UTF-8", True, True)])
def test_a_terminal_that_is_told_to_be_ascii_gets_ascii_after_the_app_too(monkeypatch, locale, tty, signs):
    """Python itself writes UTF-8 under LC_ALL=C; the app draws ASCII there, and its last words must not differ."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(stream, "isatty", lambda: tty)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("LC_ALL", locale)
    monkeypatch.setenv("TERM", "xterm")
    text = "12.6× ± 0.1 % in 3 µs █"
    assert plain(text) == (text if signs else "12.6x +- 0.1 % in 3 us #")
