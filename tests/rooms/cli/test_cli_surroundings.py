"""Closed streams, full disks, a folder that is gone, bytes that are no text: a sentence and an exit code, always."""

import json
import os
import shlex
import subprocess
import tempfile

import pytest
from tests.helpers.command_line import COMMAND, FAST, Outcome

from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT, EXIT_USAGE, StoreError
from cpugpu_tui.store import Store

RUN = ("run", "matmul", "--size", "64", "--simulate", FAST)


def in_shell(cpugpu, words, streams, before=""):
    """Run the command as a shell does, with its streams redirected."""
    line = f"{before} exec {shlex.join([*COMMAND, *words])} {streams}"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=100, env=cpugpu.environment(), check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_said(done, code):
    """One line with cause and remedy, and this exit code."""
    assert done.code == code
    assert done.err.startswith("cpugpu-tui: ")
    assert done.err.count("\n") == 1
    assert ". " in done.err


def test_importing_from_a_closed_stdin_imports_nothing(cpugpu):
    assert_said(in_shell(cpugpu, ("import", "-"), "<&-"), EXIT_USAGE)


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_run_does_not_need_a_stream(cpugpu, streams):
    done = in_shell(cpugpu, RUN, streams)
    assert done.code == EXIT_OK
    assert ("cpugpu-tui show 1 --explain\n" in done.out) == (">&-" not in streams.replace("2>&-", ""))
    assert cpugpu.here("show", "1").code == EXIT_OK


@pytest.mark.parametrize("words", [("run", "--size", "abc"), ("run", "--nosuch")])
def test_a_full_disk_behind_stderr_leaves_the_exit_code(cpugpu, words):
    assert in_shell(cpugpu, words, "2>/dev/full").code == EXIT_USAGE


@pytest.mark.parametrize("fails", ["begin_run", "commit_cases", "finish_run"])
def test_what_the_database_does_not_take_is_kept_in_another_one(cpugpu, tmp_path, monkeypatch, fails):
    """The table was all that was left of a run whose disk was full."""
    (aside := tmp_path / "aside").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    writes = getattr(Store, fails)

    def full(store, *arguments):
        if aside not in store.path.parents:
            raise StoreError("The disk that holds the database is full.")
        return writes(store, *arguments)

    monkeypatch.setattr(Store, fails, full)
    done = cpugpu.here("run", "matmul", "--size", "64,128", "--simulate", FAST, code=EXIT_UNFIT)
    (kept,) = aside.rglob("*.db")
    assert f"Kept in another database: `cpugpu-tui history --db {kept}`." in done.err
    assert "retried" not in done.out
    run = json.loads(cpugpu.here("history", "--json", "--db", str(kept)).out)
    assert (run["status"], run["sizes"]) == ("done", [64, 128])


def test_an_export_is_written_though_the_table_cannot_be_printed(cpugpu, tmp_path):
    exported = tmp_path / "run.json"
    assert_said(in_shell(cpugpu, (*RUN, "--export", str(exported)), ">/dev/full"), EXIT_UNFIT)
    assert json.loads(exported.read_text())


@pytest.mark.parametrize("words", [("list", "--workloads", "w.py"), (*RUN, "--mnist", "m"), ("history",), ()])
def test_a_folder_that_is_gone_is_said(cpugpu, tmp_path, words):
    (tmp_path / "gone").mkdir()
    there = shlex.quote(str(tmp_path / "gone"))
    assert_said(in_shell(cpugpu, words, "", f"cd {there}; rmdir {there};"), EXIT_USAGE)


@pytest.mark.parametrize("words", [(*RUN, "--mnist"), ("history", "--filter"), ("show",)])
def test_an_argument_that_is_not_utf_8_is_said(cpugpu, words):
    done = cpugpu.here(*words, os.fsdecode(b"a\xff"))
    assert_said(done, EXIT_USAGE)
    assert "a\\xff" in done.err


def test_a_variable_that_is_not_utf_8_is_said(cpugpu):
    assert_said(cpugpu("history", CPUGPU_MNIST=os.fsdecode(b"\xff")), EXIT_USAGE)


def test_a_folder_whose_name_is_not_utf_8_cannot_be_told_to_an_agent(cpugpu, tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    assert_said(in_shell(cpugpu, (*RUN, "--mnist", "m"), "", f"cd {shlex.quote(str(tmp_path))}/*;"), EXIT_USAGE)


@pytest.mark.parametrize(
    "words",
    [
        ("import", "pipe"), ("demo", "pipe"), ("telemetry", "--replay", "pipe"), ("fleet", "hosts", "-H", "pipe"),
        ("gate", "--new", "1", "--junit", "pipe"),
    ],
)  # fmt: skip
def test_a_pipe_without_an_other_end_is_not_waited_for(cpugpu, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert_said(cpugpu.here(*words), EXIT_USAGE)


@pytest.mark.parametrize("text", ["x = " + "[" * 3000, "x = " + "[" * 3000 + "]" * 3000], ids=["open", "closed"])
def test_nested_toml_is_no_config_and_no_list_of_hosts(cpugpu, tmp_path, monkeypatch, text):
    hosts = tmp_path / "hosts.toml"
    hosts.write_text(text)
    assert_said(cpugpu.here("fleet", "hosts", "-H", hosts), EXIT_USAGE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "cpugpu-tui").mkdir()
    (tmp_path / "cpugpu-tui" / "config.toml").write_text(text)
    assert_said(cpugpu.here("history"), EXIT_USAGE)


def test_a_filter_may_have_any_number_of_words_and_tags(cpugpu):
    cpugpu.here(*RUN)
    cpugpu.here("tag", "1", "+good")
    words = " ".join(["matmul", "done", *["m"] * 3000])
    tags = [word for _ in range(1500) for word in ("--tag", "good")]
    assert [run["number"] for run in cpugpu.here("history", "--json", "--filter", words, *tags).objects] == [1]
    assert cpugpu.here("history", "--json", "--filter", f"{words} nosuch").objects == []
    assert cpugpu.here("history", "--json", *tags, "--tag", "bad").objects == []


def test_a_long_argument_is_not_repeated_in_full(cpugpu):
    done = cpugpu.here("machine", "--simulate", FAST, "--python", "a" * 100_000, code=EXIT_USAGE)
    assert len(done.err) < 3_000
