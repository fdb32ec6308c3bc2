"""Every command is found by its name among the files, and the gate takes its verdicts once."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from tests.rooms.compare.test_compare_simulated import series
from typer.main import get_group

from cpugpu_tui.analysis import compare as analysis_compare
from cpugpu_tui.analysis.compare import judge
from cpugpu_tui.cli.commands import COMMANDS, app
from cpugpu_tui.cli.output.gate_report import junit, markdown
from cpugpu_tui.cli.running.gate import LIMITS, GateRequest
from cpugpu_tui.compare.gate import gate_series
from cpugpu_tui.errors import EXIT_USAGE, UsageError
from cpugpu_tui.model import DEVICE, LATENCY
from cpugpu_tui.model.quantities import time_text

GROUPED = {"config": "config", "history": "history", "show": "history", "rm": "history", "tag": "history",
           "baseline": "compare", "gate": "compare", "noise": "compare", "devices": "machine", "import": "export",
           "survey": "run", "new-workload": "list"}  # fmt: skip
"""First word of commands that share a file → the file."""


WITHIN = {
    ("fleet", "hosts"): "run",
    ("fleet", "gate"): "run",
    ("fleet", "machine"): "health",
    ("fleet", "doctor"): "health",
    ("reference", "make"): "reference",
    ("thresholds", "show"): "make",
}


def commands_of(group, above=()):
    """Yield the words of each command, and what runs it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, (*above, name))
        if command.callback is not None:
            yield (*above, name), command.callback


def test_every_command_is_in_the_file_of_its_name():
    found = dict(commands_of(typer.main.get_command(app)))
    assert ("fleet", "gate") in found
    assert ("history", "prune") in found
    for words, callback in found.items():
        file = callback.__module__.rpartition(".")[2].rstrip("_").replace("_", "-")
        assert file == WITHIN.get(words, GROUPED.get(words[0], words[-1])), words


def groups_of(group, above=()):
    """Yield the words of each group of commands, and the group."""
    if hasattr(group, "commands"):
        yield above, group
        for name, command in group.commands.items():
            yield from groups_of(command, (*above, name))


def test_no_summary_is_cut_in_a_list_of_commands(cpugpu, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for words, group in groups_of(typer.main.get_command(app)):
        listed = cpugpu.here(*words, "--help").out.partition("Commands:\n")[2].splitlines()
        assert len(listed) == len(group.commands)
        assert not [line for line in listed if not line.endswith(".") or line.endswith("...")]


def test_every_command_option_and_argument_has_help_in_sentences():
    def check(group):
        for text in (group.help, *(parameter.help for parameter in group.params)):
            assert text
            assert text[-1] in ".]" or text.endswith("?"), text
        for command in getattr(group, "commands", {}).values():
            check(command)

    check(typer.main.get_command(app))


def test_only_commands_that_take_presets_name_them_in_defaults():
    """`survey --help` said of its threads: `all, if the preset sets none`."""
    named = 0
    for words, group in groups_of(typer.main.get_command(app)):
        for name, command in group.commands.items():
            of_presets = [each.name for each in command.params if "preset" in str(getattr(each, "show_default", ""))]
            arguments = [each.help for each in command.params if each.param_type_name == "argument"]
            assert not of_presets or any("preset" in text.lower() for text in arguments), (*words, name, of_presets)
            named += len(of_presets)
    assert named


def test_a_wrong_variable_is_named(cpugpu):
    done = cpugpu("run", "matmul", "--no-save", CPUGPU_CASE_TIMEOUT="soon", code=EXIT_USAGE)
    assert "CPUGPU_CASE_TIMEOUT 'soon'" in done.err


def test_an_unknown_command_of_config_names_the_file_to_edit(cpugpu):
    refused = cpugpu("config", "set", "theme", "slate", code=EXIT_USAGE)
    assert cpugpu("config", "path").out.strip() in refused.err


@pytest.mark.parametrize(
    ("option", "words"),
    [("--no-save", ("--no-save", "--simulate", "default", "run", "quick")), ("--no-mouse", ("--no-mouse", "demo")),
     ("--db", ("--db", "other.db", "history"))],
)  # fmt: skip
def test_an_option_before_a_command_is_refused_because_only_the_app_would_read_it(cpugpu, option, words):
    done = cpugpu.here(*words)
    assert (done.code, done.out) == (EXIT_USAGE, "")
    assert f"{option} before '" in done.err


def test_a_variable_is_not_an_option_before_a_command(cpugpu):
    assert cpugpu("history", CPUGPU_SIMULATE="default", CPUGPU_THEME="slate").code == 0


def test_the_gate_judges_once(monkeypatch):
    """It judged as `compare` does first, with the limit, and threw that away."""
    asked: list[dict[str, Any]] = []

    def noted(pairs, *bands, **how):
        asked.append(how)
        return judge(pairs, *bands, **how)

    monkeypatch.setattr(analysis_compare, "judge", noted)
    limits = {LATENCY: 0.07, DEVICE: 0.01}
    report = gate_series(series(1, "base"), series(60, "new"), limits)
    assert len(asked) == 1
    assert report.limits == limits
    assert report.gated


def test_the_junit_file_has_the_times_of_the_table():
    """It had the median of the runs, and the table their geometric mean."""
    report = gate_series(series(1, "base"), series(60, "new"), {LATENCY: 0.07, DEVICE: 0.01})
    rows = [[cell.strip() for cell in line.split("|")] for line in markdown(report).decode().splitlines()]
    shown = {(row[1], f"cpugpu-tui.{row[2]}", row[4]) for row in rows if len(row) > 5}
    cases = ElementTree.fromstring(junit(report)).iter("testcase")
    assert {
        (each.get("name"), each.get("classname"), time_text(float(each.get("time")) * 1e9)) for each in cases
    } < shown


def test_a_request_of_the_gate_is_checked_where_it_is_made():
    asked: dict[str, Any] = {
        "names": (), "baselines": ("main",), "limits": LIMITS, "repeat": 5, "junit": None, "summary": None,
        "case_timeout_s": None, "simulation": None,
    }  # fmt: skip
    GateRequest(**asked)
    GateRequest(**{**asked, "repeat": 1, "new": "latest"})
    for wrong in ({"repeat": 4}, {"new": "latest", "names": ("matmul",)}, {"summary": Path("/")}):
        with pytest.raises(UsageError):
            GateRequest(**{**asked, **wrong})


def test_the_list_of_commands_says_of_each_what_its_own_help_says_first():
    """`--help` lists them without importing their files."""
    whole = get_group(app).commands
    assert list(whole) == list(COMMANDS)
    assert {name: each.help.partition("\n")[0] for name, each in whole.items()} == {
        name: summary for name, (_, summary) in COMMANDS.items()
    }
    assert whole["fleet"].help.endswith("\n\nNothing is installed on the hosts.")


@pytest.mark.parametrize("words", [("history",), ("history", "prune", "--keep", "1")])
def test_settings_of_the_config_reach_a_command_and_those_in_it(cpugpu, tmp_path, words):
    (tmp_path / "cpugpu-tui").mkdir()
    (tmp_path / "cpugpu-tui" / "config.toml").write_text('database = "set.db"\n')
    (tmp_path / "cpugpu-tui" / "set.db").write_text("no database")
    assert "set.db" in cpugpu(*words, CPUGPU_DB="", XDG_CONFIG_HOME=str(tmp_path)).err


def test_a_missing_folder_of_mnist_in_the_config_leaves_other_runs_alone(cpugpu, tmp_path):
    (tmp_path / "cpugpu-tui").mkdir()
    (tmp_path / "cpugpu-tui" / "config.toml").write_text('mnist = "not-mounted"\n')
    run = ("run", "matmul", "--size", "16", "--rounds", "5", "--simulate", "default", "--no-save")
    assert cpugpu(*run, XDG_CONFIG_HOME=str(tmp_path)).code == 0
    assert cpugpu(*run, "--mnist", "not-mounted").code == 2


def test_a_shell_completes_commands_and_options(cpugpu):
    """Tab passes no arguments. It opened the app, or began a run without a terminal."""
    script = "import sys; sys.argv[0] = 'cpugpu-tui'; from cpugpu_tui.__main__ import main; main()"  # not `python -m`
    for words, found in (("his", "history"), ("history p", "prune"), ("run --no-s", "--no-save")):
        asked = {"COMP_WORDS": f"cpugpu-tui {words}", "COMP_CWORD": str(len(words.split()))}
        env = cpugpu.environment(_CPUGPU_TUI_COMPLETE="complete_bash", **asked)
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout.split()) == (0, [found])
