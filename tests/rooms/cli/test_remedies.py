"""What a person types wrongly at first: each remedy can be followed, and sends nobody in a circle."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.command_line import CommandLine

from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE

SIMULATE = ("--simulate", "default")
MATMUL = ("run", "matmul", "--size", "8,16", "--rounds", "2", *SIMULATE)


@pytest.fixture
def one(cpugpu: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A folder, and a history of one run."""
    monkeypatch.chdir(tmp_path)
    assert cpugpu.here(*MATMUL).code == EXIT_OK
    return cpugpu


def refused(cpugpu: CommandLine, *words: str) -> str:
    """Return what is said of a wrong command line."""
    done = cpugpu.here(*words)
    assert (done.code, done.out) == (EXIT_USAGE, "")
    return done.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("prune", ["history prune"]), ("themes", ["config themes"]), ("theme", ["config themes"]), ("runz", ["run"]),
     ("verify", ["thresholds verify"]), ("shwo", ["show"]), ("hist", ["list", "history"]), ("delete", [])],
)  # fmt: skip
def test_an_unknown_command_suggests_those_of_groups_as_well(typed: str, meant: list[str], cpugpu: CommandLine) -> None:
    suggested = " or ".join(f"'{name}'" for name in meant)
    wanted = f"No such command '{typed}'.{f' Did you mean {suggested}?' if meant else ''} See `"
    assert wanted in refused(cpugpu, typed)
    assert wanted in refused(cpugpu, *SIMULATE, typed, "--json")


@pytest.mark.parametrize("words", ["show last", "rm last", "export last", "tag last +a", "baseline main last"])
def test_an_unknown_run_names_what_is_taken(words: str, one: CommandLine) -> None:
    assert "'latest' for the newest run" in refused(one, *words.split())


def test_an_unknown_series_suggests_what_resembles_it(one: CommandLine) -> None:
    assert "'last'. Did you mean 'latest'?" in refused(one, "compare", "last")
    one.here("baseline", "main", "latest")
    assert "Did you mean 'main'?" in refused(one, "compare", "mian", "latest")


@pytest.mark.parametrize("name", ["a/b", "a:b", "", "a\nb"])
def test_a_baseline_is_not_advised_under_a_name_that_none_may_have(name: str, one: CommandLine) -> None:
    assert "cpugpu-tui baseline" not in refused(one, "compare", name)


def test_a_baseline_is_advised_as_a_shell_reads_it(one: CommandLine) -> None:
    assert "`cpugpu-tui baseline 'my base' latest`" in refused(one, "compare", "my base")
    assert one.here("baseline", "my base", "latest").code == EXIT_OK


def test_another_database_is_its_newest_run(one: CommandLine) -> None:
    one.here(*MATMUL, "--db", "other.db")
    named, alone = (one.here("compare", "latest", other).out for other in ("other.db:latest", "other.db"))
    assert named == alone != ""
    assert "Database missing.db does not exist." in refused(one, "compare", "missing.db", "latest")
    assert "`cpugpu-tui history --db other.db`" in refused(one, "compare", "other.db:99", "latest")


def test_an_unknown_ending_is_not_a_file_of_thresholds(one: CommandLine) -> None:
    assert ".json, .h or .env" in refused(one, "thresholds", "make", "--run", "1", "--out", "t.txt")
    assert not Path("t.txt").exists()
    one.here("run", "quick", "--simulate", "drift=0")
    for name, more in (("t.txt", ("--format", "env")), ("t.JSON", ()), ("plain", ())):
        assert one.here("thresholds", "make", "--run", "latest", "--out", name, *more).code == EXIT_OK
    assert Path("t.JSON").read_text()[0] == Path("plain").read_text()[0] == "{"
