"""`history`, `rm`, `tag`, `history prune`, `history merge`: what a person finds again, and what is let go."""

import re
import shutil
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from tests.helpers.command_line import FAST, ROOT

from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE
from cpugpu_tui.model import Case, CaseFinished, CaseStarted, Device, DevicesFound, Plan, RunFinished, RunStarted
from cpugpu_tui.store import Store

DAY_NS = 86_400 * 10**9


@pytest.fixture
def four(cpugpu):
    """Four runs of two series; the first is of 1970, the last of the year 2100."""
    with cpugpu.store() as store:
        for index, name in enumerate(("matmul", "vector-dot", "matmul", "jacobian")):
            save(store, index, name, wall_ns=130 * 365 * DAY_NS if index == 3 else 1)
    return cpugpu


def save(store, index, name, wall_ns=1):
    case = Case(name, 64)
    store.import_run(
        [
            RunStarted(
                run_id=f"r{index}", series_id=f"s{index // 2}", plan=Plan(name, (case,)), wall_ns=wall_ns, seq=1,
                environment={"hostname": f"node{index}"},
            ),
            DevicesFound(devices=(Device("cpu", "Some CPU"),), seq=2),
            CaseStarted(case=case.key, seq=3),
            CaseFinished(case=case.key, seq=4),
            RunFinished(status="done", seq=5, wall_ns=wall_ns + 10**9),
        ]
    )  # fmt: skip


def numbers(done):
    return [item["number"] for item in done.objects]


TELLING = """
import sys
from cpugpu_tui.cli.running import one_run
from cpugpu_tui.__main__ import main
def tell_once(self, state, event):
    if state.settled == 1 and not hasattr(self, "told"):
        self.told = print("saved", file=sys.stderr, flush=True)
one_run.Progress.show = tell_once
main()
"""
"""The command, which says when its first case is shown, and so is saved."""


@pytest.mark.parametrize("how", ["run", pytest.param("database", marks=pytest.mark.slow)])
def test_a_deleted_run_is_not_said_to_be_saved_and_a_deleted_database_costs_nothing(cpugpu, how):
    words = ("run", "matmul", "--size", "16:80:1", "--rounds", "5", "--simulate", f"{FAST},pace=0.5")
    with subprocess.Popen(
        [sys.executable, "-c", TELLING, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cpugpu.environment(), bufsize=0,
    ) as process:  # fmt: skip
        assert process.stderr.readline() == b"saved\n"
        if how == "run":
            assert cpugpu.here("rm", "latest", "--force").code == EXIT_OK
        else:
            for ending in ("", "-wal", "-shm"):
                cpugpu.database.with_name(cpugpu.database.name + ending).unlink(missing_ok=True)
        process.send_signal(signal.SIGINT)
        out, err = (text.decode() for text in process.communicate(timeout=120))
    assert process.returncode == EXIT_INTERRUPTED
    assert "Again:" in out
    if how == "run":
        assert "Not saved:" in out
        assert "run 1" in err
        assert "Saved" not in out
        return
    assert "cpugpu-tui show 1 --explain\n" in out
    with cpugpu.store() as store:
        (saved,) = store.runs()
    assert saved.status == "stopped"
    assert saved.cases_ok + saved.cases_skipped == 64


def test_answers_of_very_large_runs_are_left_to_show(four, monkeypatch):
    assert "cpugpu-tui show" not in four.here("history").out
    monkeypatch.setattr("cpugpu_tui.render.outcomes.MOST_CASES", 2)
    assert "newest 2 runs" in four.here("history").out


@pytest.mark.parametrize(
    "arguments",
    [("baseline", "main", "1"), ("baseline",), ("compare", "1", "2"), ("gate", "--baseline", "1", "--new", "2")],
)
def test_commands_that_upgrade_the_history_say_where_the_copy_lies(cpugpu, arguments):
    shutil.copyfile(ROOT / "tests" / "golden" / "v4.db", cpugpu.database)
    assert f"{cpugpu.database}.v4" in cpugpu.here(*arguments).err


def test_history_says_how_much_there_is(four, words):
    for given in (["20"], ["2"], ["2", "--filter", "node"], ["1", "--filter", "matmul"], ["2", "--filter", "matmul"]):
        last = four.here("history", "--limit", *given).out.splitlines()[-1]
        assert str(four.database) in last
        words(re.sub(r"\d+\.\d MB", "N MB", last.replace(str(four.database), "PATH")))


def test_a_name_that_is_cut_ends_in_an_ellipsis(cpugpu):
    with cpugpu.store() as store:
        save(store, 0, "a" * 40)
        save(store, 1, "b" * 41)
    out = cpugpu.here("history").out
    assert f" {'a' * 40} " in out
    assert f" {'b' * 39}… " in out


def test_tags_are_given_shown_and_taken(four, words):
    words(four.here("tag", "1", "+tuned", "+hot").out)
    words(four.here("tag", "1", "-hot").out)
    assert "tuned" in four.here("history").out
    assert numbers(four.here("history", "--tag", "tuned", "--json")) == [1]
    words(four.here("tag", "1", "-tuned").out)
    assert tags(four, 1) == []


def tags(cpugpu, run):
    (found,) = cpugpu.here("tag", run, "--json").objects
    return list(found["tags"])


def test_rm_deletes_all_that_are_named_or_none(four, words):
    done = four.here("rm", "1", "99", code=EXIT_USAGE)
    assert "'99'" in done.err
    assert numbers(four.here("history", "--json")) == [4, 3, 2, 1]
    words(four.here("rm", "1", "r2", "1").out)
    assert numbers(four.here("history", "--json")) == [4, 2]


def test_a_baselines_run_is_deleted_only_by_force(four):
    with four.store() as store:
        store.set_baseline("main", "s0")
    done = four.here("rm", "2", "4", code=EXIT_USAGE)
    assert "Run 2 " in done.err
    assert "'main'" in done.err
    assert len(numbers(four.here("history", "--json"))) == 4
    assert four.here("rm", "2", "4", "--force").code == 0
    assert "baseline main" in four.here("history").out  # run 1 is of it too
    assert four.here("baseline", "--delete", code=EXIT_USAGE).out == ""
    assert four.here("baseline", "main", "1", "--delete", code=EXIT_USAGE).out == ""
    assert "Use one of: main." in four.here("baseline", "other", "--delete", code=EXIT_USAGE).err
    assert "baseline main" in four.here("history").out
    assert "main" in four.here("baseline", "main", "--delete").out
    assert (four.here("baseline", "--json").out, numbers(four.here("history", "--json"))) == ("", [3, 1])


def test_prune_lists_first_and_deletes_when_it_is_told_to(four, words):
    four.here("tag", "2", "+dear")
    first = four.here("history", "prune", "--older-than", "30d")
    words(first.out.splitlines()[-1])
    assert numbers(four.here("history", "--json")) == [4, 3, 2, 1]
    assert numbers(four.here("history", "prune", "--older-than", "30d", "--keep", "2", "--json")) == [1]
    done = four.here("history", "prune", "--older-than", "30d", "--yes")
    words(re.sub(r"\d+\.\d MB", "N MB", done.out.replace(str(four.database), "PATH")))
    assert numbers(four.here("history", "--json")) == [4, 2]
    words(four.here("history", "prune", "--keep", "5").out)


def test_merge_brings_runs_of_another_machine_once(four, tmp_path, words):
    other = tmp_path / "other.db"
    with closing(Store.open(other)) as store:
        save(store, 0, "matmul")
        save(store, 7, "matmul")
    for _ in range(2):
        words(four.here("history", "merge", other).out)
    assert numbers(four.here("history", "--filter", "node7", "--json")) == [5]
    other.write_text("x = 1\n")
    refused = four.here("history", "merge", other, code=EXIT_USAGE)
    assert f"{other} is not a database. It was not changed. Choose another file.\n" in refused.err


def test_a_baseline_of_another_database_is_refused_with_the_command_that_brings_it(four, tmp_path):
    other = tmp_path / "other.db"
    with closing(Store.open(other)) as store:
        save(store, 7, "matmul")
    done = four.here("baseline", "main", f"{other}:1", code=EXIT_USAGE)
    command = f"cpugpu-tui history merge {other}"
    assert done.err == (
        f"cpugpu-tui: A baseline names a run of the history, not of {other}. Copy its runs with `{command}`.\n"
    )
    assert four.here(*command.split()[1:]).code == EXIT_OK


def test_a_damaged_history_is_kept_aside_by_the_next_run_and_it_says_so(four):
    content = four.database.read_bytes()
    four.database.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    listed = four.here("history", code=EXIT_UNFIT)
    assert f"{four.database} is damaged" in listed.err
    ran = four("run", "matmul", "--size", "64", "--rounds", "3", "--simulate", "default", code=0)
    assert numbers(four.here("history", "--json")) == [1]
    (aside,) = four.database.parent.glob("*.damaged-*")
    assert aside.name in ran.out + ran.err
    assert aside.stat().st_size == len(content)
