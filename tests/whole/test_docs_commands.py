"""Every command in README and docs works on the simulated device, and so do the files that the docs show."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest
from tests.helpers.command_line import FAST, PATIENCE_S, CommandLine
from tests.readme.blocks import PAGES, ROOT
from typer import BadParameter, Exit
from typer.main import get_group

from cpugpu_tui.cli.commands import app
from cpugpu_tui.thresholds import load

NOT_RUN = {
    "cpugpu-tui time --against 'python old.py --device {device}' -- python new.py --device {device}": "the same",
    "cpugpu-tui time -- python train.py --device {device} --size {n}": "cannot be simulated; test_cli_time_command.py",
    "cpugpu-tui time my_model.py:forward --n 64,1024 --host gpu01": "test_code_there.py",
    "cpugpu-tui time my_model.py:forward --n 64,1024 --host n1 --launcher srun --python ~/torch/bin/python": "the same",
    "cpugpu-tui run --resume": "needs an interrupted run, which tests/whole/test_resume_kill.py makes",
    "cpugpu-tui survey --resume": "needs an interrupted survey, which tests/rooms/cli/test_cli_survey.py makes",
    "cpugpu-tui --replay trace.ndjson": "needs a terminal",
    "cpugpu-tui fleet run -H hosts.toml quick --tui": "needs a terminal",
    "cpugpu-tui survey --beside h100": "takes minutes on two busy cores",
    "cpugpu-tui fleet gate -H hosts.toml --baseline h200 --baseline a100": "needs hosts with two models of GPUs",
    **dict.fromkeys(
        (
            "cpugpu-tui run matmul --size 64 --python /path/to/env/bin/python --python /path/to/other/bin/python",
            "cpugpu-tui gate matmul --against /path/to/old/bin/python --python /path/to/new/bin/python",
        ),
        "starts ten agents; test_duet_command.py",
    ),
    **dict.fromkeys(
        (
            "cpugpu-tui time 'x @ x' --against 'torch.mm(x, x)' --setup 'x = torch.rand(n, n)' --n 16:1024",
            "cpugpu-tui time my_model.py:forward --against old_model.py:forward --n 64,1024",
            "cpugpu-tui time my_model.py:forward --rev HEAD --n 64,1024",
            "cpugpu-tui time 'x @ x' --setup 'x = torch.rand(n, n).T.contiguous()' --against-setup "
            "'x = torch.rand(n, n).T' --n 16:1024",
            "cpugpu-tui time my_model.py:forward --variant compiled --against-variant default --n 1:1024",
        ),
        "imports torch in ten agents; test_time_against.py",
    ),
    **dict.fromkeys(
        (
            "cpugpu-tui run matmul-sweep",
            "cpugpu-tui run matmul-sweep --starts 1",
            "cpugpu-tui run vector-dot elementwise transfer --max-seconds 540",
            "cpugpu-tui run mnist-mlp --max-seconds 540",
            "cpugpu-tui run jacobian --max-seconds 540",
            "cpugpu-tui survey --export survey.html --export survey.svg",
            "cpugpu-tui survey --all",
            "cpugpu-tui run transfer --scale small",
            "cpugpu-tui survey",
            "cpugpu-tui thresholds make -o thresholds.json",
            "cpugpu-tui thresholds verify thresholds.json",
            "cpugpu-tui reference make -o h200.json.gz",
        ),
        "takes minutes on two busy cores; other pages have it in small",
    ),
}
"""Commands that are only parsed, and why."""

HERE = {"/path/to/env/bin/python": sys.executable, "~/torch/bin/python": sys.executable, "srun": "local"}
"""Words that mean another machine or environment, and what takes their place."""

STEADY = "drift=0"
"""A simulated machine without drift between runs, so that a gate passes every time."""

UsageError = BadParameter.__mro__[1]
"""What the program raises for an unknown option, a missing value and an argument too many."""

PASSES = {"doctor": (0, 1)}
"""Exit codes of commands that judge this machine."""


def fences(page, kind):
    """Return the code blocks of a page that are of this kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(page):
    """Return the commands in the code blocks of a page, each once, without comments and without usage lines."""
    lines = [line for block in fences(page, "(?:sh)?") for line in block.splitlines()]
    found = [re.sub(r"\s+# .*", "", line.removeprefix("$ ")) for line in lines]
    return [line for line in dict.fromkeys(found) if line.split()[:1] == ["cpugpu-tui"] and "[OPTIONS]" not in line]


def command_of(arguments):
    """Return the name and the command that the arguments call; the group itself without one."""
    name, command = "", get_group(app)
    for word in arguments:
        if word not in getattr(command, "commands", {}):
            break
        name, command = f"{name} {word}".strip(), command.commands[word]
    return name, command


def on_this_machine(line, simulated=FAST):
    """Return the arguments of a command with what makes it run here: simulated, and without waiting."""
    arguments = [HERE.get(word, word) for word in shlex.split(line)[1:]]
    name, command = command_of(arguments)
    if name in ("fleet run", "fleet machine", "fleet doctor") and "--launcher" not in arguments:
        arguments += ["--launcher", "local"]
    if name == "telemetry" and "--interval" not in arguments:
        arguments += ["--interval", "0.1"]
    takes = {option for each in command.params for option in each.opts}
    if "--simulate" in takes and not {"--simulate", "--replay", "--run"} & set(arguments):
        arguments += ["--simulate", f"{simulated},gpus=2" if "cuda" in arguments else simulated]
    return arguments


@pytest.fixture(scope="module")
def seeded(tmp_path_factory):
    """Return a history with two series, of which the first is the baseline main."""
    cpugpu = CommandLine(tmp_path_factory.mktemp("seeded") / "history.db")
    for _ in range(2):
        cpugpu.here("run", "matmul", "--size", "64,1024", "--repeat", "5", "--simulate", FAST, code=0)
    assert cpugpu.here("baseline", "main", "1").code == 0
    return cpugpu


@pytest.fixture
def folder(cpugpu, seeded, tmp_path, monkeypatch):
    """Return the current folder, with the files that the docs name."""
    cpugpu.take_over(seeded)
    shutil.copy(cpugpu.database, tmp_path / "other.db")
    (inventory,) = (each for each in fences(ROOT / "docs" / "fleet.md", "toml") if "[[hosts]]" in each)
    (tmp_path / "hosts.toml").write_text(inventory)
    (workload,) = fences(ROOT / "docs" / "own-workloads.md", "python")
    (tmp_path / "layernorm.py").write_text(workload)
    for name in ("my_model.py", "old_model.py"):
        (tmp_path / name).write_text(fences(ROOT / "docs" / "own-code.md", "python")[0])
    for name in ("with_numpy.py", "with_cupy.py"):
        (tmp_path / name).write_text("import numpy\n\ndef solve(n):\n    return numpy.ones(n)\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


WITH_COMMANDS = [page for page in PAGES if commands(page) and page.name != "README.zh.md"]
"""The translation has the code blocks of its original, which test_readme.py checks."""


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
@pytest.mark.usefixtures("folder", "agents_here")
def test_every_command_of_a_page_works_in_its_order(page, cpugpu):
    for line in commands(page):
        arguments = on_this_machine(line)
        if line in NOT_RUN:
            name, command = command_of(arguments)
            command.make_context(name, arguments[len(name.split()) :])
            continue
        done = cpugpu.here(*arguments)
        assert done.code in PASSES.get(command_of(arguments)[0], (0,)), f"{line}\n{done.out[-2000:]}{done.err}"


def test_what_is_not_run_is_in_the_docs():
    assert set(NOT_RUN) <= {line for page in PAGES for line in commands(page)}


def test_the_config_of_the_docs_is_valid(cpugpu, folder):
    (settings, *_) = fences(ROOT / "docs" / "configuration.md", "toml")
    (folder / "config" / "cpugpu-tui").mkdir(parents=True)
    (folder / "config" / "cpugpu-tui" / "config.toml").write_text(settings)
    done = cpugpu.here("config", "show", "--json", code=0)
    assert "forest" in done.out


IN_PROGRAM = ROOT / "docs" / "in-your-program.md"


class SpyTensor:
    """Stands for a tensor of n rows; notes the devices that it is sent to."""

    dtype, device = "float32", "cpu"

    def __init__(self, n, sent):
        self.shape, self.sent = (n, n), sent

    def to(self, device):
        self.sent.append(device)
        return self

    def __matmul__(self, other):
        return self


@pytest.fixture
def thresholds(cpugpu, folder, agents_here, monkeypatch):
    """Make the file of the docs and the header beside it; return its content."""
    cpugpu.here("thresholds", "make", "matmul", "softmax", "--simulate", STEADY, code=0)
    (folder / "thresholds.h").write_text(cpugpu.here("thresholds", "show", "--format", "c").out)
    monkeypatch.setenv("CPUGPU_SIMULATE", STEADY)
    return load("thresholds.json")


def test_the_python_program_of_the_docs_switches_where_the_file_says(thresholds):
    (example,) = fences(IN_PROGRAM, "python")
    space: dict[str, Any] = {}
    exec(example, space)
    for n in range(1, 2050, 8):
        sent: list[str] = []
        space["product"](SpyTensor(n, sent), SpyTensor(n, sent))
        assert sent[0] == sent[1] == (thresholds.choose("matmul", n, resident=False) or "cpu")
        assert sent[2] == "cpu"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) on this machine")
def test_the_c_program_of_the_docs_switches_where_the_file_says(thresholds, folder):
    (example,) = fences(IN_PROGRAM, "c")
    (folder / "example.c").write_text(example)
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "example.c", "-o", "example"], check=True, timeout=PATIENCE_S)
    below, above = thresholds.entries[1].faster
    for n in (1, 16, below[2], (below[2] + above[1]) // 2, above[1], 2048):
        done = subprocess.run(["./example", str(n)], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        assert done.stdout.strip() == (thresholds.choose("matmul", n, resident=False) or "cpu, by default")


@pytest.mark.usefixtures("thresholds")
def test_the_job_of_the_docs_passes_until_a_threshold_moves(cpugpu, folder):
    (job,) = fences(IN_PROGRAM, "yaml")
    steps = re.findall(r"- run: (cpugpu-tui .*)", job)
    assert len(steps) == 2
    assert [cpugpu.here(*on_this_machine(line, STEADY)).code for line in steps] == [0, 0]
    slower = [*on_this_machine(steps[0], STEADY)[:-1], f"{STEADY},cpu_ns_per_flop=0.0005"]
    assert cpugpu.here(*slower).code == 1


@pytest.mark.usefixtures("folder", "agents_here")
def test_the_python_examples_of_the_docs_run(cpugpu, monkeypatch, capsys):
    _, example, comparing = fences(ROOT / "docs" / "own-code.md", "python")
    for name, value in cpugpu.environment(CPUGPU_SIMULATE=STEADY).items():
        monkeypatch.setenv(name, value)
    exec(example, {"__name__": "__main__"})
    answer, crossing, *rows = capsys.readouterr().out.splitlines()
    assert answer.startswith("SIMULATED: your code was not timed. No number here was measured. The GPU wins from n ≈")
    assert len(rows) == 2
    shown = float(answer.partition("n ≈ ")[2].split()[0])
    assert float(crossing.split()[0]) == pytest.approx(shown, rel=0.01)
    exec(comparing, {"__name__": "__main__"})
    told = capsys.readouterr()
    assert told.err == ""
    assert [line.split()[:2] for line in told.out.splitlines()[1:3]] == [["64", "CPU"], ["1024", "CPU"]]


# ------------------------------------------------------------------ what the program itself tells to type


def told_commands():
    """Yield file and words of each command in a text of the program; what a text fills in is the word 1."""
    for path in sorted((ROOT / "tui").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in parts)
            for told in re.findall(r"`(cpugpu-tui [^`\n]*)`", text):
                yield path.name, shlex.split(told)[1:]


def test_every_command_that_a_text_of_the_program_tells_to_type_is_read_by_the_program():
    """An option that does not exist sent people in a circle. Values are written as placeholders, such as FILE."""
    wrong, told = [], list(told_commands())
    assert len(told) > 50
    for place, words in told:
        name, command = command_of(words)
        rest = words[len(name.split()) :]
        if rest == ["1"]:  # a command whose name the text fills in
            continue
        try:
            command.make_context(name, rest)
        except (BadParameter, Exit):  # a placeholder, a missing value, or --help
            pass
        except UsageError as error:
            wrong.append(f"{place}: cpugpu-tui {shlex.join(words)}: {error}")
    assert not wrong
