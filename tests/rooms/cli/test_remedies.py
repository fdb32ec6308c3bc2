"""What a person types wrongly at first: each remedy can be followed, and sends nobody in a circle."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from tests.helpers.command_line import COMMAND, CommandLine

from cpugpu_tui.config import paths
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE

SIMULATE = ("--simulate", "default")
MATMUL = ("run", "matmul", "--size", "8,16", "--rounds", "2", *SIMULATE)


@pytest.fixture
def one(cpugpu, tmp_path, monkeypatch):
    """A folder, and a history of one run."""
    monkeypatch.chdir(tmp_path)
    assert cpugpu.here(*MATMUL).code == EXIT_OK
    return cpugpu


def refused(cpugpu, *words):
    """Return what is said of a wrong command line."""
    done = cpugpu.here(*words)
    assert (done.code, done.out) == (EXIT_USAGE, "")
    return done.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("prune", ["history prune"]), ("themes", ["config themes"]), ("theme", ["--theme"]),
     ("version", ["--version"]), ("runz", ["run"]), ("quick", ["run quick"]),
     ("verify", ["thresholds verify"]), ("shwo", ["show"]), ("hist", ["list", "history"]), ("delete", ["rm"]),
     ("help", ["--help"]), ("dance", [])],
)  # fmt: skip
def test_an_unknown_command_suggests_those_of_groups_as_well(typed, meant, cpugpu):
    suggested = " or ".join(f"'{name}'" for name in meant)
    wanted = f"No such command '{typed}'.{f' Did you mean {suggested}?' if meant else ''} See `"
    assert wanted in refused(cpugpu, typed)
    assert wanted in refused(cpugpu, *SIMULATE, typed, "--json")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [("run 64", "takes sizes as --size 64."), ("run matmul 16:64", "takes sizes as --size 16:64."),
     ("run matmul,softmax", "Separate names by spaces: matmul softmax."), ("run QUICK", "Did you mean 'quick'?"),
     ("run mine.py", "add --workloads mine.py."), ("run model.py:f", "To time code, use `cpugpu-tui time model.py:f`."),
     ("--simulate run quick", "'run' before it was taken for the value of --simulate."),
     ("time python train.py", "Write -- before a command: `cpugpu-tui time -- python train.py`."),
     ("time x@x --n 64 --beside h100", "run the same command without --beside on a machine that has one."),
     ("time x @ x --n 64", "Quote code that has spaces: `cpugpu-tui time 'x @ x'`."),
     ("time 'x @ x' 'y @ y' --n 64", "use --against: `cpugpu-tui time 'x @ x' --against 'y @ y'`."),
     ("time x*x -setup x=1", "Did you mean --setup in place of -setup?"),
     ("run matmul -size 8", "Did you mean --size in place of -size?"),
     ("run matmul --size 16..64", "Did you mean 16:64?"), ("run matmul --size 16-64", "Did you mean 16:64?"),
     ("run matmul --size 16;32;64", "Did you mean 16,32,64?"), ("survey matmul", "use --only."),
     ("survey --only topkk", "Did you mean 'topk'?"), ("export latest --out", "See `cpugpu-tui export --help`."),
     ("history prune --keep", "See `cpugpu-tui history prune --help`."),
     ("history rm 1", "Did you mean `cpugpu-tui rm`?"), ("history delete 1", "Did you mean `cpugpu-tui rm`?"),
     ("run matmul --host gpu7", "`cpugpu-tui fleet run` runs on other hosts, and"),
     ("history --host gpu7", "`cpugpu-tui history --filter host:NAME` lists their runs."),
     ("run matmul --gpu 1", "Use --device cpu, --device cuda for all GPUs, or --device cuda:0 for the first."),
     ("history --gpu 1", "`run`, `time` and `survey` take --device cpu, "),
     ("list matmul", "`list` shows all workloads. To time one, use `cpugpu-tui run NAME`."),
     ("tag +fast", "Write, for example, latest +fast."),
     ("time /dev/null:f", "'/dev/null' is a device or a pipe, not a file of Python. Name a file that ends in .py"),
     ("time --simulate default -- echo", "Remove --simulate, or unset CPUGPU_SIMULATE.")],
)  # fmt: skip
def test_what_was_meant_by_the_words_is_named(words, remedy, cpugpu):
    assert remedy in refused(cpugpu, *shlex.split(words))


@pytest.mark.parametrize(
    ("words", "remedy"),
    [("rm 1-3", "Write each number alone, with spaces between them."), ("show 1,2", "Write each number alone"),
     ("show a.json", "To read a file, use `cpugpu-tui import a.json`."),
     ("compare a.json", "`cpugpu-tui import a.json`"),
     ("export latest a.csv", "To write a file, use --out a.csv."),
     ("export a.json", "To write a file, use --out a.json."),
     ("history --filter n_>100", "Write it without spaces, for example n>1000."),
     ("history --filter n_>=_100", "Invalid condition '>='."),
     ("gate --against main", "Interpreter 'main' not found. Give the path of a Python that has torch. To compare with "
                             "a baseline, use --baseline.")],
)  # fmt: skip
def test_what_was_meant_by_the_words_about_saved_runs_is_named(words, remedy, one):
    assert remedy in refused(one, *(word.replace("_", " ") for word in words.split()))


def test_a_command_in_quotes_is_no_statement(cpugpu):
    assert "write it after --: `cpugpu-tui time -- python train.py`." in refused(cpugpu, "time", "python train.py")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(("x @ x",), "Make x in --setup, for example --setup 'x = torch.rand(n, n)'."),
     (("x @ x", "--setup", "x = torch.rand(n, 2 * m)"), "for example --let m=1024 or --let m=n."),
     (("exits.py:f",), "time the script as a command: `cpugpu-tui time -- python exits.py`."),
     (("x.add_(1)", "--setup", "x = torch.rand(n)"), "Add --in-place"),
     (("x.roll(k)", "--setup", "x = torch.rand(n)", "--let", "k=abc"), "Write a number, or \"'abc'\" for the text.")],
)  # fmt: skip
def test_the_remedy_of_a_failed_row_stands_below_the_table(code, remedy, cpugpu, tmp_path, monkeypatch):
    """The app showed it; the table of `time` said only what was wrong."""
    monkeypatch.chdir(tmp_path)
    Path("exits.py").write_text("def f(n):\n    raise SystemExit(2)\n")
    done = cpugpu.here("time", *code, "--n", "8,16", "--worker", "thread", "--no-ceilings", code=EXIT_CASES_FAILED)
    assert done.out.count(remedy) == 1
    assert remedy in cpugpu.here("show", "latest").out


def test_a_baseline_is_advised_as_a_shell_reads_it(one):
    assert "`cpugpu-tui baseline 'my base' latest`" in refused(one, "compare", "my base")
    assert one.here("baseline", "my base", "latest").code == EXIT_OK


@pytest.mark.parametrize("words", [("new-workload", "mine"), ("telemetry", *SIMULATE, "--count", "1", "--record", "t")])
def test_a_full_disk_leaves_no_empty_file_in_the_way_of_the_next_try(words, one):
    """The next one said: t already exists, choose a new file."""
    before = sorted(Path().iterdir())
    limited = ("sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *COMMAND, *words)
    done = subprocess.run(limited, capture_output=True, env=one.environment(), timeout=60, check=False)
    assert done.returncode == EXIT_UNFIT
    assert done.stderr
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("words", ["history", "show", "export", "history prune --keep 1"])
def test_without_a_history_on_a_read_only_disk_nothing_is_saved_yet(words, cpugpu, monkeypatch):
    """It said that the folder of the database cannot be created, and advised --no-save, which these do not have."""
    monkeypatch.setattr(paths, "data_dir", lambda: Path("/proc/cpugpu-tui"))
    monkeypatch.setattr(CommandLine, "environment", lambda self, **more: {})
    monkeypatch.delenv("CPUGPU_DB", raising=False)
    assert "No runs are saved yet in /proc/cpugpu-tui/results.db. Save one with" in refused(cpugpu, *words.split())


@pytest.mark.parametrize("words", ["history", "show 1", "history prune --keep 1", "thresholds make --run 1"])
def test_a_history_that_does_not_exist_is_said_and_not_created(words, cpugpu, tmp_path, monkeypatch):
    """A typing error left an empty database behind, and the list said: No runs yet."""
    monkeypatch.chdir(tmp_path)
    assert "No runs are saved yet in typo.db." in refused(cpugpu, *words.split(), "--db", "typo.db")
    assert not Path("typo.db").exists()
