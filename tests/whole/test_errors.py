"""Every option and argument of every command, with wrong values: what the user reads, in one golden file.

The options are read from the commands themselves, so a new one without a wrong value, or a reason, fails here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer
from tests.helpers.command_line import ROOT, CommandLine, Outcome
from tests.helpers.fuzz.trying import limited_time
from tests.helpers.golden import assert_golden

from cpugpu_tui.cli.commands import app
from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE

LONGEST_SENTENCE = 25
"""Words."""

PARTS = re.compile("[-,=:/+]")
"""An error names the whole value, or the part of it that is wrong."""

NOT_A_COUNT = ("0", "many")
NOT_A_RUN = ("99", "zz")
NOT_SECONDS = ("0", "soon")
NO_PLACE = ("missing/report.txt", "missing/", "-")

WRONG: dict[str, tuple[str, ...]] = {
    # options
    "--against": ("no-such-python",),
    "--at-once": NOT_A_COUNT,
    "--beside": ("nope", "notes.txt"),
    "--baseline": ("nope", "other.db:3"),
    "--cache": ("hot",),
    "--case-timeout": NOT_SECONDS,
    "--count": NOT_A_COUNT,
    "--db": ("notes.txt", "folder", "missing/"),
    "--device": ("tpu", "cuda:x"),
    "--dtype": ("int8", "flaot32", "float32,bf16"),
    "--export": ("run.xlsx", "missing/run.json", "missing/", "-"),
    "--format": ("xlsx", "jsno"),
    "--host": ("n[4-1]", "-oProxyCommand=x"),
    "--hosts": ("missing.toml", "broken.toml"),
    "--interval": ("0.01", "-1", "soon"),
    "--junit": NO_PLACE,
    "--keep": ("-1", "all"),
    "--launcher": ("teleport",),
    "--let": ("3", "n=4"),
    "--limit": NOT_A_COUNT,
    "--max-seconds": NOT_SECONDS,
    "--max-size": ("0", "1e99", "big"),
    "--max-slowdown": ("0.05", "-5%", "2000%", "launch=5%"),
    "--band": ("0.5", "launch=5%", "latency="),
    "--metrics": NO_PLACE,
    "--mnist": ("missing",),
    "--new": NOT_A_RUN,
    "--older-than": ("30", "last week"),
    "--only": ("matmul,fftt", ","),
    "--out": ("missing/x.json", "x.xlsx", "missing/"),
    "thresholds make --out": ("missing/x.json", "folder", "missing/"),
    "reference make --out": ("missing/x.json.gz", "missing/", "-", "folder", "notes.txt"),
    "new-workload --out": ("missing/x.py", "missing/", "-", "notes.txt"),
    "new-workload NAME": ("my workload", "matmul"),
    "baseline NAME": ("nope", "my/base"),
    "--pace": ("0", "fast"),
    "--python": ("missing/python",),
    "--record": ("notes.txt", "missing/x.ndjson", "missing/", "-"),
    "--repeat": NOT_A_COUNT,
    "--replay": ("missing.ndjson", "notes.txt"),
    "--rounds": NOT_A_COUNT,
    "--starts": NOT_A_COUNT,
    "--run": NOT_A_RUN,
    "--scale": ("medium", ""),
    "--setup": ("x = (",),
    "time --against": ("x +", "no_such.py:f"),
    "--against-setup": ("x = (",),
    "--against-variant": ("no-such-variant",),
    "--gpu-setup": ("x = (",),
    "--on-cpu": ("x +",),
    "--on-gpu": ("x +", "no_such.py:f"),
    "--rev": ("no-such-revision", ""),
    "--simulate": ("speed=9", "defualt", "nois=1", "noise=loud", "pace=-1", "moon=1"),
    "--size": ("0", "10:1:2", "1:2:3:4", "16,x", "16,,"),
    "--start-timeout": NOT_SECONDS,
    "--summary": NO_PLACE,
    "--tensorboard": ("notes.txt",),
    "--theme": ("forst", "x"),
    "--threads": ("0", "most"),
    "--variant": ("fancy", "defualt"),
    "--worker": ("cloud",),
    "--workloads": ("missing.py", "broken.py"),
    # arguments
    "BASE": ("99", "nope", "missing.db:1"),
    "NEW": NOT_A_RUN,
    "OTHER.db": ("missing.db", "notes.txt"),
    "PRESET|WORKLOAD": ("matmull", "zzz"),
    "RUN": (*NOT_A_RUN, ""),
    "STATEMENT | -- COMMAND": ("x @", "missing.py:f"),
    "WORKLOAD|FILE:FUNCTION|EXPRESSION": ("matmull", "x @", "missing.py:f"),
    "THRESHOLDS": ("missing.json", "notes.txt"),
    "FILE": ("missing.ndjson", "notes.txt"),
    "+TAG|-TAG": ("tuned", "+a,b", "+two words"),
}  # fmt: skip
"""Option or argument → wrong values. A key with its command before it is for that command alone."""

NOT_TRIED = {
    "history --filter": "any words can be searched for",
    "history --tag": "any tag can be searched for",
    "demo --theme": "the app checks it, and the app needs a terminal",
    "fleet run --theme": "the same",
    "app --db": "the app shows it, or a run goes on without it",
    "run --db": "the run goes on, and its end says that it is not saved",
    "fleet run --db": "the same",
    "thresholds make --db": "the same",
    "machine --db": "the same",
    "doctor --db": "a finding of doctor, no error",
    "fleet run --mnist": "a folder of the hosts",
    "fleet run --python": "an interpreter of the hosts",
    "fleet hosts --python": "the same",
    "fleet gate --python": "the same",
    "fleet machine --python": "the same",
    "fleet doctor --python": "the same",
    "time --startup": "a command, which is run and may be anything",
}
"""Options of a command that have no wrong value to try here, and why. The app is the command without a name."""

SIMULATE = ("--simulate", "default")
REMAINDER: dict[str, tuple[str, ...]] = {
    "app": SIMULATE,
    "app --replay": (),
    "run": ("matmul", *SIMULATE),
    "run --max-size": ("matmul", *SIMULATE, "--find-crossover"),
    "survey": ("--only", "svd", "--simulate", "drift=0"),  # drift changes how many sizes it times
    "survey --only": SIMULATE,
    "run PRESET|WORKLOAD": SIMULATE,
    "time STATEMENT | -- COMMAND": ("--n", "8", *SIMULATE),
    "time": ("x @ x", "--setup", "x = torch.rand(n, n)", "--n", "8", *SIMULATE),
    "time --db": ("torch.ones(1)", "--worker", "thread", *SIMULATE),
    **dict.fromkeys(
        ("time --band", "time --against-setup", "time --against-variant"),
        ("x @ x", "--against", "x * x", "--setup", "x = torch.rand(n, n)", "--n", "8", *SIMULATE),
    ),
    "time --on-cpu": ("--on-gpu", "x", "--n", "8", *SIMULATE),
    "time --on-gpu": ("--on-cpu", "n + 1", "--n", "8", *SIMULATE),
    "time --gpu-setup": ("--on-cpu", "n + 1", "--on-gpu", "n + 1", "--n", "8", *SIMULATE),
    "thresholds make": ("matmul", *SIMULATE),
    "thresholds make --run": (),
    "thresholds make --setup": ("y = x", *SIMULATE),
    "thresholds make --let": ("y = x", *SIMULATE),
    "thresholds make WORKLOAD|FILE:FUNCTION|EXPRESSION": SIMULATE,
    "thresholds verify": SIMULATE,
    "thresholds verify --setup": ("thresholds.json", "y = x", *SIMULATE),
    "thresholds verify --let": ("thresholds.json", "y = x", *SIMULATE),
    "reference make": ("-o", "x.json.gz", *SIMULATE),
    "reference make --out": SIMULATE,
    "list --python": ("--workloads", "own.py"),
    "machine": SIMULATE,
    "machine --python": ("--measure", *SIMULATE),
    "telemetry": ("--count", "1", *SIMULATE),
    "telemetry --replay": ("--count", "1"),
    "history prune": ("--keep", "5"),
    "noise": ("--repeat", "2", *SIMULATE),
    "gate": ("--max-slowdown", "5%"),
    "gate --against": ("matmul", *SIMULATE),
    "run --band": ("--python", "python3", "--python", "python3", *SIMULATE),
    "fleet run": ("-w", "n1", "--launcher", "local", *SIMULATE),
    "fleet run --max-size": ("-w", "n1", "--launcher", "local", *SIMULATE, "--find-crossover"),
    **dict.fromkeys(("fleet run --setup", "fleet run --let"), ("x @ x", "-w", "n1", "--launcher", "local", *SIMULATE)),
    "fleet gate": ("-w", "n1", "--launcher", "local"),
    "fleet machine": ("-w", "n1", "--launcher", "local", "--beside", "h100", *SIMULATE),
    "fleet doctor": ("-w", "n1", "--launcher", "local", *SIMULATE),
    "fleet hosts --launcher": ("-w", "n1"),
}
"""What a command, or one option of it, needs besides the wrong value to come as far as reading it."""

RIGHT = {
    "RUN": "1",
    "BASE": "1",
    "NAME": "mine",
    "OTHER.db": "other.db",
    "FILE": "run.json",
    "THRESHOLDS": "thresholds.json",
    "STATEMENT | -- COMMAND": "x @ x",
}
"""Argument → a value that is right."""


def parameters(group: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Any]]:
    """Yield the words of each command, the command, and each of its parameters."""
    for parameter in group.params:
        yield " ".join(above), group, parameter
    for name, command in getattr(group, "commands", {}).items():
        yield from parameters(command, (*above, name))


def name_of(parameter: Any) -> str:
    """Return the long name of an option, or the metavar of an argument."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar)
    return max(parameter.opts, key=len)


def is_flag(parameter: Any) -> bool:
    """Return whether an option takes no value."""
    return bool(getattr(parameter, "is_flag", False))


def sentences(text: str) -> list[str]:
    """Return the sentences of an error."""
    return re.split(r"(?<=[.?!])\s+(?=[A-Z`'])", text)


def positionals(command: Any, tried: Any, value: str) -> list[str]:
    """Return a command's arguments up to the one that is tried, or those that it requires."""
    given = []
    for parameter in (each for each in command.params if each.param_type_name == "argument"):
        if parameter is tried:
            return [*given, value]
        if parameter.required or tried.param_type_name == "argument":
            given.append(RIGHT[name_of(parameter)])
    return given


def wrong_lines(words: str, command: Any, parameter: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield each wrong value of a parameter, and the command line that has it."""
    name = name_of(parameter)
    key = f"{words or 'app'} {name}"
    if is_flag(parameter):
        yield name, [*words.split(), f"{name}=wrong"]
    if is_flag(parameter) or key in NOT_TRIED:
        return
    values = WRONG.get(key, WRONG.get(name))
    assert values, f"no wrong value for {key!r}: add one to WRONG, or a reason to NOT_TRIED"
    for value in values:
        option = [f"{name}={value}"] if name.startswith("-") else []
        remainder = REMAINDER.get(key, REMAINDER.get(words or "app", ()))
        yield value, [*words.split(), *remainder, *option, *positionals(command, parameter, value)]


def said(done: Outcome, folder: Path) -> str:
    text = re.sub(r"--db [^`]+/history\.db`", "--db FILE`", done.err)  # kept aside
    return text.replace(f"{folder}/", "").strip().rpartition("cpugpu-tui: ")[2]


@pytest.fixture
def here(cpugpu: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A folder with files of every wrong kind, and a history with a baseline of five runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path.parent))
    cpugpu.here("run", "matmul", "--size", "8,16", "--rounds", "5", "--repeat", "5", *SIMULATE, code=0)
    assert cpugpu.here("baseline", "main", "latest").code == 0
    assert cpugpu.here("export", "1", "--out", "run.json").code == 0
    assert cpugpu.here("thresholds", "make", "--run", "1").code == 0
    shutil.copy(ROOT / "tests/golden/v4.db", "other.db")
    Path("notes.txt").write_text("These are notes of a person and neither a database nor a recording.\n" * 20)
    Path("folder").mkdir()
    Path("broken.toml").write_text("[[host]]\ncolour = 1\n")
    Path("broken.py").write_text("import no_such_module\n")
    Path("own.py").write_text("")
    return cpugpu


def test_every_wrong_value_is_named_with_a_remedy_in_short_sentences(here: CommandLine, tmp_path: Path) -> None:
    found: dict[tuple[int, str], list[str]] = {}
    faults = []
    for words, command, parameter in parameters(typer.main.get_command(app)):
        for value, line in wrong_lines(words, command, parameter):
            done, shown = here.here(*line), shlex.join(line)
            text = said(done, tmp_path)
            if done.code not in (EXIT_USAGE, EXIT_UNFIT):
                faults.append(f"{shown}: exit code {done.code}: {text or done.out}")
            elif not any(part in text for part in (value, *filter(None, PARTS.split(value)))):
                faults.append(f"{shown}: the value is not in {text!r}")
            faults += [f"{shown}: too long: {each}" for each in sentences(text) if len(each.split()) > LONGEST_SENTENCE]
            text = re.sub("`cpugpu-tui[^`]* --help`", "`COMMAND --help`", text)
            text = text.replace(name_of(parameter), "--no-save") if is_flag(parameter) else text
            found.setdefault((done.code, text), []).append(shown)
    assert_golden("errors", "\n\n".join(block(lines, text, code) for (code, text), lines in found.items()))
    assert not faults, "\n".join(faults)


def block(lines: list[str], text: str, code: int) -> str:
    """Return the first of the command lines that have this error, how many more there are, and the error."""
    return f"$ cpugpu-tui {lines[0]}{more(lines)}\n{text} [{code}]"


def more(lines: list[str]) -> str:
    """Return how many lines follow the first one."""
    return f"  (and {len(lines) - 1} more)" if len(lines) > 1 else ""


# ------------------------------------------------------------------ files

TAKES_FILE = re.compile(r"FILE|PATH|PYTHON|CODE|SERIES|BASE|NEW|DIR|\.db|THRESHOLDS|STATEMENT")
"""In the metavar of an option or argument that is a path, or a text with one."""

NO_FILE = ("--setup", "--gpu-setup", "--against-setup", "fleet run --python", "fleet hosts --python",
           "fleet gate --python", "fleet run --mnist",
           "thresholds verify WORKLOAD|FILE:FUNCTION|EXPRESSION")  # fmt: skip
"""Lines of code, what is on another machine, and what is tried at `run` or above."""

KINDS = ("folder", "pipe", "null", "full", "notes", "closed")


class StartedError(Exception):
    """Raised where agents would be started: everything before has been checked."""


def tried_files(words: str, command: Any, parameter: Any, known: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield files of every kind, and command lines that name them; one if the option is known from another command."""
    name, metavar = name_of(parameter), str(parameter.metavar)
    key = f"{words or 'app'} {name}"
    if is_flag(parameter) or not TAKES_FILE.search(metavar) or {name, key} & {*NO_FILE, *NOT_TRIED}:
        return
    if name == "--db" and "--simulate" in {name_of(each) for each in command.params}:
        return  # the run goes on, and its end says that it is not saved: test_bad_input.py
    is_code = name in ("--on-cpu", "--on-gpu") or "STATEMENT" in name or "FUNCTION" in name or key == "time --against"
    ending = ".py" if is_code or name == "--workloads" else ".json"
    suffix = ":f" if is_code else ":1" if metavar in ("SERIES", "BASE", "NEW") else ""
    rest = REMAINDER.get(key, REMAINDER.get(words or "app", ()))
    rest = (*rest, "--n", "16:64") if "FUNCTION" in name and words != "thresholds verify" else rest
    kinds = KINDS[:1] if name + metavar in known else KINDS
    known.add(name + metavar)
    for kind in kinds:
        value = f"{kind}{ending}{suffix}"
        option = [f"{name}={value}"] if name.startswith("-") else []
        yield f"{kind}{ending}", [*words.split(), *rest, *option, *positionals(command, parameter, value)]


def put_files(ending: str) -> None:
    """Put a file of every kind here. Nobody can read `closed`, root neither."""
    Path(f"folder{ending}").mkdir()
    os.mkfifo(f"pipe{ending}")
    for name, target in (("null", "/dev/null"), ("full", "/dev/full"), ("closed", "/proc/self/mem")):
        Path(f"{name}{ending}").symlink_to(target)
    Path(f"notes{ending}").write_text("These are notes of a person about cpugpu-tui.\n")


def left(folder: Path) -> dict[str, object]:
    """Return the files of a folder with what must not change: kind, and content of ordinary ones."""
    return {path.name: (path.lstat().st_mode, path.read_text() if path.name.startswith("notes") else "")
            for path in folder.iterdir() if path.name.startswith(KINDS)}  # fmt: skip


def test_a_file_of_any_kind_is_taken_or_named_with_a_remedy(
    here: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("cli.running.modes.Agents", "session.session.Session.run", "session.fleet_running.Fleet.run"):
        monkeypatch.setattr(f"cpugpu_tui.{part}", mock.Mock(side_effect=StartedError))
    for ending in (".py", ".json"):
        put_files(ending)
    before, faults, found, known = left(tmp_path), [], dict[str, list[str]](), set[str]()
    for words, command, parameter in parameters(typer.main.get_command(app)):
        for file, line in tried_files(words, command, parameter, known):
            try:
                with limited_time():
                    done = here.here(*line)
            except StartedError:
                continue
            text, shown = said(done, tmp_path), shlex.join(line)
            faults += [
                f"{shown}: {name} has changed" for name, was in before.items() if left(tmp_path).get(name) != was
            ]
            if done.code == 0:
                continue
            if done.code not in (EXIT_USAGE, EXIT_UNFIT) or file not in text or len(sentences(text)) < 2:
                faults.append(f"{shown}: exit code {done.code}: {text or done.out[-500:]}")
            faults += [f"{shown}: too long: {each}" for each in sentences(text) if len(each.split()) > LONGEST_SENTENCE]
            found.setdefault(f"{text.replace(file, 'FILE')} [{done.code}]", []).append(shown)
    assert not faults, "\n".join(faults)
    assert_golden(
        "words/files", "\n\n".join(f"$ cpugpu-tui {lines[0]}{more(lines)}\n{text}" for text, lines in found.items())
    )


SAME_FILE = (
    "thresholds make matmul -o a.json --db a.json", "run quick --export a.json --db ./a.json",
    "import run.json --db run.json", "gate --junit x.xml --summary ./x.xml", "history merge other.db --db other.db",
)  # fmt: skip


@pytest.mark.parametrize("words", SAME_FILE)
def test_two_options_with_the_same_file_are_refused(
    words: str, cpugpu: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of thresholds replaced the database that the run had just made."""
    monkeypatch.chdir(tmp_path)
    done = cpugpu.here(*words.split())
    assert (done.code, done.out) == (EXIT_USAGE, "")
    assert "name the same file" in done.err
