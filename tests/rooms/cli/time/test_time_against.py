"""`time NEW --against OLD` as a person meets it: the answer over sizes, wrong results, the history."""

import json
import re
import shlex
import subprocess
from itertools import count
from pathlib import Path

import pytest
from tests.helpers.command_line import FAST, ROOT, committed

from cpugpu_tui.analysis import compare
from cpugpu_tui.analysis.compare import FAILED, NOT_JUDGED, PASSED
from cpugpu_tui.cli.running.gate import LIMITS
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_FAILED, EXIT_OK, EXIT_USAGE
from cpugpu_tui.model import DEVICE, LATENCY, RunStarted
from cpugpu_tui.render.comparison import VERDICT_WORDS
from cpugpu_tui.store import Store
from cpugpu_tui.store.connection import locked

DOCS = ROOT / "docs" / "compare-and-gate.md"
SIMULATED = f"{FAST},noise=0.002,duet_factor=1.05,slow_factor=1.1"
PAIR = ("time", "x @ x", "--against", "torch.mm(x, x)", "--setup", "x = torch.rand(n, n)")


@pytest.mark.usefixtures("agents_here")
def test_the_answer_says_at_which_sizes_it_is_slower_and_the_history_says_the_same(cpugpu, words):
    done = cpugpu.here(*PAIR, "--n", "64,1024", "--simulate", SIMULATED, "--json", code=EXIT_OK)
    told = json.loads(done.out.splitlines()[-1])
    words("\n".join(told["answer"]))
    assert {"what": "code", "base": "torch.mm(x, x)", "new": "x @ x"} in told["differences"]
    started = [event for event in done.events if isinstance(event, RunStarted)]
    assert {event.plan.codes[0].statement for event in started} == {"x @ x", "torch.mm(x, x)"}
    saved = cpugpu.here("compare", told["base"]["numbers"][0], told["new"]["numbers"][0], "--json")
    assert json.loads(saved.out)["verdicts"] == told["verdicts"]
    limits = [("2%", EXIT_CHECK_FAILED), ("10%", EXIT_OK)]
    for limit, code in limits:
        sides = "--baseline", told["base"]["numbers"][0], "--new", told["new"]["numbers"][0]
        assert cpugpu.here("gate", *sides, "--max-slowdown", limit).code == code, limit
    for side in ("base", "new"):
        again = cpugpu.here("show", told[side]["numbers"][0]).out.split("Again: cpugpu-tui ")[1]
        repeated = cpugpu.here(*shlex.split(again), "--json", "--no-save", "--max-seconds", "0.01")  # one pair
        first, plan = (
            next(event.plan for event in each if isinstance(event, RunStarted)) for each in (started, repeated.events)
        )
        assert (plan.cases, plan.codes) == (first.cases, first.codes)
        assert plan.simulation == first.simulation, "one side had seed=1, which nobody typed"


def test_the_limits_of_the_docs_are_those_of_the_program():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in DOCS.read_text().splitlines() if "|" in line]
    told = {row[0]: row[1:3] for row in rows if len(row) == 4}
    for name, metric in (("band of latency", LATENCY), ("band of kernel time", DEVICE)):
        assert told[name] == [f"± {100 * bands[metric]:g} %" for bands in (compare.BANDS, compare.DUET_BANDS)]
    assert told["slowdown that the gate allows"] == [f"{100 * LIMITS[LATENCY]:g} %"] * 2
    runs = f"{compare.MIN_RUNS}, in the gate {compare.GATE_RUNS}", f"{compare.FIRST_LOOK} pairs of agents"
    assert told["runs of each side for a word"] == list(runs)
    words = {word.strip() for row in rows if len(row) == 3 for word in row[0].split(",")}
    assert words >= {*VERDICT_WORDS, PASSED, FAILED, NOT_JUDGED}


@pytest.mark.usefixtures("agents_here")
def test_a_search_of_two_setups_narrows_the_size_from_which_on_one_is_slower(cpugpu, words):
    done = cpugpu.here("time", "x @ x", "--setup", "x = torch.rand(n, n)", "--against-setup",
                       "x = torch.rand(n, n).T", "--n", "340:480", "--simulate",
                       f"{FAST},noise=0.0005,duet_factor=1.2", code=EXIT_OK)  # fmt: skip
    told = done.out.split("GPU: ")
    assert "SAME" in told[0]
    assert "Placebo: one side was measured twice and did not move." in done.out
    words("\n".join(f"GPU: {each.splitlines()[0]}" for each in told[1:]))
    assert "NEW x = torch.rand(n, n) (runs " in done.out
    assert "OLD x = torch.rand(n, n).T (runs " in done.out


@pytest.mark.usefixtures("agents_here")
def test_two_variants_are_named_and_their_command_is_repeated(cpugpu, monkeypatch):
    """One of them finds the database locked when it begins, as happens on a busy machine: it read `not saved`."""
    begin, tries = Store.begin_run, count()

    def locked_once(store, started):
        if next(tries) == 0:
            raise locked(store.path)
        return begin(store, started)

    monkeypatch.setattr(Store, "begin_run", locked_once)
    done = cpugpu.here("time", "x @ x", "--setup", "x = torch.rand(n, n)", "--against-variant", "compiled", "--n", "64",
                       "--simulate", SIMULATED, "--max-seconds", "0.01")  # fmt: skip
    marked = "SIMULATED: your code was not timed. No number here was measured. "
    named = re.match(rf"{marked}NEW default \(run ([12])\) against OLD compiled \(run [12]\)", done.out)
    assert named is not None, done.err
    assert "TOO FEW RUNS" in done.out
    assert "Placebo" not in done.out, "one pair tells nothing"
    again = cpugpu.here("show", named[1]).out.split("Again: cpugpu-tui ")[1]
    repeated = cpugpu.here(*shlex.split(again), "--json", "--no-save", "--max-seconds", "0.01")
    plans = [event.plan for event in repeated.events if isinstance(event, RunStarted)]
    assert sorted(plan.codes[0].is_compiled for plan in plans) == [False, True]
    assert len({plan.cases for plan in plans}) == 1


@pytest.fixture
def repository(tmp_path):
    """A repository whose only commit, `first`, has other code than its files have now."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "beside.py").write_text("FACTOR = 3.0\n")
    (folder / "src" / "mine.py").write_text("import beside, torch\ndef inputs(n):\n    return torch.ones(n)\n"
                                            "def scaled(x):\n    return x * beside.FACTOR\n")  # fmt: skip
    committed(folder, "first")
    (folder / "src" / "beside.py").write_text("FACTOR = 2.0\n")
    return folder


def test_a_file_that_a_revision_has_under_another_name_is_found_by_the_command_that_is_told(cpugpu, repository):
    """Typed in a folder of the repository, it found nothing."""
    (repository / "src" / "mine.py").rename(repository / "src" / "new.py")
    committed(repository, "second")
    done = cpugpu.here("time", f"{repository}/src/new.py:scaled", "--rev", "first", "--n", "64", code=EXIT_USAGE)
    command = shlex.split(done.err.split("See ")[1].strip().removesuffix("."))
    told = subprocess.run(command, cwd=repository / "src", capture_output=True, text=True, check=True).stdout
    assert told.count("commit ") == 2


@pytest.mark.parametrize("machine", [(), ("--simulate", FAST)], ids=["real", "simulated"])
def test_a_file_is_compared_with_what_it_and_its_neighbours_were_in_a_revision(cpugpu, repository, machine):
    before = {path: path.stat().st_mtime_ns for path in repository.rglob("*") if path.is_file()}
    mine = repository / "src" / "mine.py"
    done = cpugpu.here("time", f"{mine}:scaled", "--rev", "first", "--n", "64", "--device", "cpu", "--threads", "1",
                       *machine, "--json", code=EXIT_CASES_FAILED)  # fmt: skip
    assert done.err.count("n = 64: different results: by about") == 1, "3 then, 2 now"
    (told,) = json.loads(done.out.splitlines()[-1])["verdicts"]
    assert (told["verdict"], told["trouble"][:17]) == ("NOT COMPARABLE", "different results")
    assert "are needed" not in done.out, "more time gives no verdict"
    assert "only files that it imports can differ" in done.err
    old, _ = (event.plan.codes[0] for event in done.events if isinstance(event, RunStarted))  # one pair
    assert old.statement.startswith(f"{mine}:scaled of ")
    assert not Path(old.target[0]).exists(), "the folder is gone"
    shown, again = cpugpu.here("show", "latest").out.split("Again: cpugpu-tui ")
    differs = "Its results differ from those of the other code at n = 64."
    assert differs in shown
    for name, clause in {"markdown": differs, "html": differs, "json": told["trouble"], "csv": told["trouble"]}.items():
        assert clause in cpugpu.here("export", "latest", "--format", name).out, name
    (compare,) = re.findall("`cpugpu-tui (compare .*?)`", shown)
    assert "different results" in cpugpu.here(*shlex.split(compare)).out
    assert shlex.split(again)[:4] == ["time", f"{mine}:scaled", "--rev", old.statement[-12:]]
    after = {path: path.stat().st_mtime_ns for path in repository.rglob("*") if path.is_file()}
    assert {path: time for path, time in after.items() if "__pycache__" not in path.parts} == before
