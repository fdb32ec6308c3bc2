"""`cpugpu-tui thresholds`: what it writes, what it says, and what it refuses."""

import errno
import json
import os
import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.command_line import CommandLine, start_in_threads

from cpugpu_tui import errors
from cpugpu_tui.cli.thresholds import measuring
from cpugpu_tui.thresholds import load

STEADY = ("--simulate", "drift=0")
GEMM = ("gemm = x @ x", "--setup", "x = torch.rand(n, n)")

Change = Callable[..., Path]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return a file with one workload and one expression, and the history with their run."""
    folder = tmp_path_factory.mktemp("measured")
    cpugpu = CommandLine(folder / "history.db")
    with pytest.MonkeyPatch.context() as patch:
        start_in_threads(patch)
        done = cpugpu.here(
            "thresholds", "make", "matmul", *GEMM, "--n", "16:2048", *STEADY, "-o", folder / "thresholds.json"
        )
    assert done.code == errors.EXIT_OK, done.err
    return folder / "thresholds.json", cpugpu, done


@pytest.fixture
def file(measured, cpugpu, tmp_path, monkeypatch):
    """Return a copy of the file as `thresholds.json` in the current folder, with its history."""
    monkeypatch.chdir(tmp_path)
    cpugpu.take_over(measured[1])
    path = tmp_path / "thresholds.json"
    path.write_bytes(measured[0].read_bytes())
    return path


def rewritten(file, **changes):
    """Change values of every threshold in a file."""
    document = json.loads(file.read_text())
    document["thresholds"] = [{**each, **changes} for each in document["thresholds"]]
    file.write_text(json.dumps(document))


def entries(path):
    """Return the content of a file on whatever machine."""
    return load(path, {})


def test_workloads_and_code_are_measured_together(measured, words):
    path, _, done = measured
    assert done.err.endswith(f"Wrote {path}\n")
    assert [(each.operation, each.resident) for each in entries(path).entries] == [
        ("matmul", True), ("matmul", False), ("gemm", True), ("gemm", False)
    ]  # fmt: skip
    words([line for line in done.out.splitlines() if line.strip()])


def test_history_and_show_name_code_and_workloads_of_one_run(measured):
    """Both named only the code."""
    cpugpu = measured[1]
    assert cpugpu("history", COLUMNS="200").out.splitlines()[3].split("  ")[3] == "matmul + gemm = x @ x"
    assert cpugpu("show", "latest").out.splitlines()[1] == "matmul + gemm = x @ x · setup: x = torch.rand(n, n)"


@pytest.mark.usefixtures("agents_here")
def test_the_command_that_closes_the_gaps_of_a_few_sizes_is_named_and_works(cpugpu, tmp_path):
    few = tmp_path / "few.json"
    cpugpu.here("run", "matmul", "--size", "16,32,256,2048", "--rounds", "5", *STEADY, code=errors.EXIT_OK)
    made = cpugpu.here("thresholds", "make", "--run", "latest", "--out", few, code=errors.EXIT_OK)
    remedy = made.err.partition("To time sizes in the gaps: ")[2].splitlines()[0]
    verified = cpugpu.here("thresholds", "verify", few, *STEADY, code=errors.EXIT_CASES_FAILED)
    assert len(re.findall("matmul .* incomplete", verified.out)) == 2
    assert remedy in verified.err
    command = remedy.removeprefix("`cpugpu-tui ").partition("`")[0]
    assert "Every threshold answers" in cpugpu.here(*shlex.split(command), code=errors.EXIT_OK).err


def test_a_saved_run_gives_the_same_file(file, cpugpu, words):
    cpugpu.here("thresholds", "make", "--run", "latest", "-o", "again.json", code=errors.EXIT_OK)
    assert Path("again.json").read_text() == file.read_text()
    printed = cpugpu.here("thresholds", "make", "--run", "latest", "--out", "-", "--format", "env")
    assert printed.out == cpugpu.here("thresholds", "show", "--format", "env").out
    cpugpu.here("thresholds", "make", "--run", "latest", "--out", "new.h", code=errors.EXIT_OK)
    assert Path("new.h").read_text() == cpugpu.here("thresholds", "show", "--format", "c").out
    for more in (("matmul",), ("--dtype", "float64"), ("--simulate", "default")):
        refused = cpugpu.here("thresholds", "make", *more, "--run", "latest", code=errors.EXIT_USAGE)
        words(refused.err)


def test_what_has_moved_fails(file, cpugpu, words):
    same = cpugpu.here("thresholds", "make", "--run", "latest", "--against", "thresholds.json", "-o", "new.json")
    assert same.code == errors.EXIT_OK
    assert same.out.endswith("0 of 4 thresholds moved out of their brackets.\n")
    printed = cpugpu.here("thresholds", "make", "--run", "latest", "--against", "thresholds.json", "-o", "-")
    assert (printed.out, printed.err) == (file.read_text(), "0 of 4 thresholds moved out of their brackets.\n")
    rewritten(file, faster=[["cuda", 16, 100], ["cpu", 500, 2048]], equal=[])
    done = cpugpu.here("thresholds", "make", "--run", "latest", "--against", "thresholds.json", "-o", "new.json")
    assert done.code == errors.EXIT_CHECK_FAILED
    assert Path("new.json").exists()
    words([line for line in done.out.splitlines() if line.endswith(".")])


def test_an_older_file_must_be_of_this_machine_and_of_the_same_operations(file, cpugpu, words):
    against = ("thresholds", "make", "--run", "latest", "--against", "thresholds.json", "-o", "new.json")
    rewritten(file, variant="other")
    nothing = cpugpu.here(*against)
    file.write_text(file.read_text().replace('"simulated": true', '"cores": 64').replace("simulated CPU", "Z80"))
    other = cpugpu.here(*against)
    before = cpugpu.here("thresholds", "make", "matmul", "--against", "thresholds.json", "-o", "newer.json")
    file.write_text("{")
    damaged = cpugpu.here(*against)
    assert "CPU Z80 in the file" in before.err
    assert [each.code for each in (nothing, other, before, damaged)] == [
        errors.EXIT_USAGE, errors.EXIT_UNFIT, errors.EXIT_UNFIT, errors.EXIT_USAGE
    ]  # fmt: skip
    assert not Path("newer.json").exists(), "measured although the file is of another machine"
    words([nothing.err.splitlines()[-1], other.err.splitlines()[-1], damaged.err])


@pytest.mark.parametrize(
    "arguments",
    [
        ("../matmul",), ("größe = x + 1", "-s", "x = torch.rand(n)", "--n", "1:4096"),
        ("matmul", "--setup", "x = 1"), ("matmul", "--in-place"),
        ("matmul", "matmul = x @ x", "-s", "x = torch.rand(n, n)", "--n", "16:64"),
        ("y = x + 1", "y = x + 2", "-s", "x = torch.rand(n)", "--n", "1:4096"), ("matmul", "--n", "64"), GEMM,
        ("g" * 61 + " = x @ x", *GEMM[1:], "--n", "16:64"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]).replace("/", "_"),
)  # fmt: skip
@pytest.mark.usefixtures("file")
def test_what_cannot_be_made_is_refused(arguments, cpugpu, words):
    done = cpugpu.here("thresholds", "make", *arguments, *STEADY, code=errors.EXIT_USAGE)
    words(done.err)


def test_without_a_core_for_each_thread_the_reason_is_said(cpugpu):
    done = cpugpu.here("thresholds", "make", "matmul", "--n", "64:128", "--simulate", "starved_share=0.4", "-o", "-")
    assert done.code == errors.EXIT_UNFIT
    assert "matmul n = 64 to 128 (2 sizes): no core: " in done.err
    cpugpu.here("thresholds", "make", "matmul", "--simulate", "gpus=0", code=errors.EXIT_UNFIT)
    assert len(cpugpu.here("history", "--json").objects) == 1, "a run without any time was left in the history"


def test_a_run_is_exported_as_thresholds_by_the_name_of_the_file(file, cpugpu):
    cpugpu.here("export", "latest", "--out", "my-thresholds.json", code=errors.EXIT_OK)
    assert Path("my-thresholds.json").read_text() == file.read_text()
    assert cpugpu.here("run", "softmax", "--find-crossover", "--size", "64,4096", *STEADY).code == errors.EXIT_OK
    cpugpu.here("export", "1", "2", "--out", "my-thresholds.json", code=errors.EXIT_OK)
    assert {each.operation for each in entries(Path("my-thresholds.json")).entries} == {"matmul", "gemm", "softmax"}


def test_an_imported_run_with_a_path_in_a_name_is_refused(file, cpugpu, tmp_path, words):
    assert cpugpu.here("export", "latest", "--out", "run.ndjson").code == errors.EXIT_OK
    text = Path("run.ndjson").read_text().replace("matmul", "../x")
    (run_id,) = set(re.findall(r"\"run_id\":\"([^\"]+)\"", text))
    Path("run.ndjson").write_text(text.replace(run_id, "0" * len(run_id)))
    assert cpugpu.here("import", "run.ndjson").code == errors.EXIT_OK
    done = cpugpu.here("thresholds", "make", "--run", "latest", code=errors.EXIT_USAGE)
    words(done.err)


def test_a_stopped_run_writes_nothing(file, cpugpu, monkeypatch, words):
    ran = measuring.watched
    before = file.read_text()

    def stopped(session, *rest):
        session.stop()
        return ran(session, *rest)

    monkeypatch.setattr(measuring, "watched", stopped)
    done = cpugpu.here("thresholds", "make", "softmax", *STEADY, code=errors.EXIT_INTERRUPTED)
    assert file.read_text() == before
    words(done.err.splitlines()[-1])


@pytest.mark.usefixtures("agents_here")
def test_what_a_full_disk_did_not_take_need_not_be_measured_again(file, cpugpu, monkeypatch, words):
    before = file.read_text()
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        done = cpugpu.here("thresholds", "make", "softmax", *STEADY)
    assert done.code == errors.EXIT_UNFIT
    assert file.read_text() == before
    words(done.err)
    assert cpugpu.here("thresholds", "make", "--run", "latest").code == errors.EXIT_OK
    assert {each.operation for each in entries(file).entries} == {"softmax"}


def test_a_closed_terminal_leaves_the_file_as_it_is(file, cpugpu, monkeypatch):
    before = file.read_text()
    monkeypatch.setattr(measuring, "save_rest", lambda _, code: code or 129)
    done = cpugpu.here("thresholds", "make", "matmul", "--n", "64:128", *STEADY)
    assert (done.code, done.out) == (129, "")
    assert file.read_text() == before


def test_a_stopped_verification_tells_what_it_found(file, cpugpu, monkeypatch, words):
    monkeypatch.setattr(measuring, "save_rest", lambda _, code: errors.EXIT_INTERRUPTED)
    done = cpugpu.here("thresholds", "verify", "thresholds.json", "matmul", *STEADY, code=errors.EXIT_INTERRUPTED)
    words([*done.out.splitlines()[-1:], done.err])


@pytest.mark.usefixtures("agents_here")
def test_verify_prints_the_regret(file, cpugpu, words):
    done = cpugpu.here("thresholds", "verify", *STEADY, code=errors.EXIT_OK)
    words([*done.out.splitlines()[-1:], done.err])
    before = entries(file).entries[2:]
    done = cpugpu.here("thresholds", "verify", "thresholds.json", *GEMM, *STEADY, "--json", code=errors.EXIT_OK)
    *found, whole = done.objects
    assert [each["operation"] for each in found] == ["gemm", "gemm"]
    assert whole["kept"]
    for each, threshold in zip(found, before, strict=True):
        sizes = sorted(choice["size"] for choice in each["choices"])
        assert len(sizes) > 5
        assert not set(sizes) & set(threshold.timed)
        for size in sizes:
            low, high = next((a, b) for a, b in pairwise(threshold.timed) if a < size < b)
            assert size == round((low * high) ** 0.5)


def test_verify_fails_a_file_that_chooses_wrongly(file, cpugpu, words):
    text = file.read_text()
    rewritten(file, faster=[["cuda", 16, 2048]], equal=[])
    done = cpugpu.here("thresholds", "verify", "thresholds.json", "matmul", *STEADY, code=errors.EXIT_CASES_FAILED)
    assert done.out.splitlines()[-1].endswith("not passed.")
    file.write_text(text)
    rewritten(file, faster=[["cpu", 16, 17], ["cuda", 1024, 2048]])
    done = cpugpu.here("thresholds", "verify", "thresholds.json", "matmul", *STEADY, "--json")
    assert done.code == errors.EXIT_CASES_FAILED
    assert done.objects[-1]["answered"] < 0.95
    words(done.err)


def test_verify_passes_a_search_of_a_narrow_range(cpugpu, tmp_path):
    file = tmp_path / "narrow.json"
    assert cpugpu.here("thresholds", "make", "matmul", "--n", "150:200", *STEADY, "-o", file).code == errors.EXIT_OK
    assert any(len(each.faster) > 1 for each in load(file, {}).entries)
    assert cpugpu.here("thresholds", "verify", file, *STEADY).code == errors.EXIT_OK


def test_a_threshold_that_failed_is_made_again_and_the_others_are_kept(file, cpugpu, words):
    before = {each.operation: each for each in entries(file).entries}
    document = json.loads(file.read_text())
    for each in document["thresholds"][:2]:
        each.update(faster=[["cuda", 16, 2048]], equal=[])
    file.write_text(json.dumps(document))
    failed = cpugpu.here("thresholds", "verify", "thresholds.json", "matmul", *STEADY, code=errors.EXIT_CASES_FAILED)
    (command,) = {*re.findall(r"`cpugpu-tui (.*?)`", failed.err)}
    verified = {*entries(file).entries[1].timed}
    assert verified > {*before["matmul"].timed}, "the sizes of the verification are in the file"
    assert cpugpu.here(*command.split(), *STEADY).code == errors.EXIT_OK
    after = entries(file).entries
    assert [each.operation for each in after] == ["matmul", "matmul", "gemm", "gemm"]
    assert before["gemm"] in after
    assert {*after[1].timed} >= verified
    assert cpugpu.here("thresholds", "verify", "thresholds.json", "matmul", *STEADY).code == errors.EXIT_OK
    for wrong in (("-o", "missing.json"), ("-o", "new.env")):
        refused = cpugpu.here("thresholds", "make", "matmul", "--add", *wrong, *STEADY, code=errors.EXIT_USAGE)
        words(refused.err)


def test_verify_refuses_other_machines_and_unknown_operations(file, cpugpu, words):
    machine = cpugpu.here("thresholds", "verify")
    unknown = cpugpu.here("thresholds", "verify", "thresholds.json", "softmax", *STEADY)
    code = cpugpu.here("thresholds", "verify", "thresholds.json", "gemm", *STEADY)
    rewritten(file, variant="quick")
    variant = cpugpu.here("thresholds", "verify", "thresholds.json", "matmul", *STEADY)
    rewritten(file, variant="default", faster=[["cpu", 16, 16]], equal=[], timed=[16], compared=[])
    narrow = cpugpu.here("thresholds", "verify", "thresholds.json", "matmul", *STEADY)
    assert [each.code for each in (machine, unknown, code, variant, narrow)] == [
        errors.EXIT_UNFIT,
        *4 * [errors.EXIT_USAGE],
    ]
    words([each.err for each in (machine, unknown, code, variant, narrow)])


def test_without_names_the_whole_catalogue_is_measured(cpugpu, tmp_path, monkeypatch):
    planned: list[Any] = []

    def stop(plan, *_):
        planned.append(plan)
        raise errors.UnfitError("enough")

    monkeypatch.setattr(measuring, "run_plan", stop)
    cpugpu.here("thresholds", "make", *STEADY, "-o", tmp_path / "new.json", code=errors.EXIT_UNFIT)
    (plan,) = planned
    assert plan.search is not None
    assert {case.dtype for case in plan.cases} == {"float32"}
    assert len({case.workload for case in plan.cases}) > 15
    assert not [case for case in plan.cases if case.workload.startswith(("transfer", "jacobian"))]


@pytest.mark.parametrize("link", [False, True])
def test_the_older_file_is_not_replaced_by_the_newer_one(link, file, cpugpu):
    """It was overwritten, and then said to have none of these thresholds."""
    before = file.read_bytes()
    if link:
        Path("link.json").symlink_to("thresholds.json")
    out = "link.json" if link else "./thresholds.json"
    done = cpugpu.here("thresholds", "make", "--run", "latest", "-o", out, "--against", "thresholds.json")
    assert done.code == errors.EXIT_USAGE
    assert "--out" in done.err
    assert file.read_bytes() == before


def test_a_search_that_goes_on_where_the_file_has_all_planned_sizes_is_saved(cpugpu, tmp_path):
    """Its run was never begun in the history: exit code 4, and another database that held nothing."""
    make = ("thresholds", "make", "matmul", "--simulate", "default", "--out", tmp_path / "t.json")
    cpugpu.here(*make, "--n", "16,20,50,100,200,500,1000,2048", code=0)
    cpugpu.here(*make, "--add", code=0)
    newest, *_ = cpugpu.here("history", "--json").objects
    assert (newest["number"], newest["status"]) == (2, "done")
    assert newest["cases_ok"] > 0
