"""Thresholds of a run, and the C and shell programs that use them."""

import os
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from tests.helpers.app.several_gpus import run_of
from tests.helpers.command_line import CommandLine

from cpugpu_tui import __version__
from cpugpu_tui.analysis.regret import answered
from cpugpu_tui.export import target
from cpugpu_tui.export.thresholds import add_to, moved, named, operation_of, rendered, thresholds_of
from cpugpu_tui.model import METRICS, Case
from cpugpu_tui.thresholds import FORMAT, VERSION, Thresholds, load
from cpugpu_tui.workloads.own_code import own_code

FORM = {"variant": "default", "dtype": "float32", "threads": 0, "resident": True, "best": True, "equal": []}


def file_of(*entries, machine=None):
    """Return a file with these thresholds; each has at least an operation and its parts, whose ends were timed."""
    document = {"format": FORMAT, "version": VERSION, "made": "2026-11-23T04:00:00Z", "machine": machine or {},
                "thresholds": [{**FORM, "timed": sorted({end for _, *ends in each["faster"] for end in ends}), **each}
                               for each in entries]}  # fmt: skip
    return Thresholds(document, {})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a file that `thresholds make` wrote."""
    folder = tmp_path_factory.mktemp("made")
    path = folder / "thresholds.json"
    done = CommandLine(folder / "history.db").here(
        "thresholds", "make", "matmul", "softmax", "vector-dot", "--simulate", "drift=0", "--out", path
    )
    assert done.code == 0, done.err
    return path


def test_the_parts_of_a_search_are_its_brackets(made):
    found = {(each.operation, each.variant, each.resident): each for each in load(made, {}).entries}
    assert len(found) == 8
    for each in found.values():
        assert [device for device, _, _ in each.faster] in (["cpu"], ["cuda"], ["cpu", "cuda"])
        assert answered(each) == 1.0, each
    resident, copied = (found["matmul", "default", is_resident] for is_resident in (True, False))
    assert (resident.faster[0][1], resident.faster[-1][2]) == (16, 2048)
    assert resident.faster[0][2] < copied.faster[0][2]
    assert [each.best for (name, _, resident), each in found.items() if name == "vector-dot" and resident] == [
        True,
        False,
    ]


def test_the_best_variant_is_the_fastest_at_the_largest_size():
    """Variants that are as fast as the first do not take its place."""
    cases = (
        Case("elementwise", size, variant=name) for size in (100, 10**6, 10**8) for name in ("fresh", "add", "add-out")
    )
    run = run_of(1, cases=tuple(cases), metrics=METRICS)
    latency_ns = {
        row.case.variant: row.gpu.latency_ns for row in run.rows.values() if row.gpu and row.case.size == 10**8
    }
    assert latency_ns["add"] < 0.9 * latency_ns["fresh"]
    found = thresholds_of(run)
    assert {each.variant for each in found.entries if each.best and each.resident} == {"add"}
    assert sum(each.best for each in found.entries) == 2


C_PROGRAM = """
#include <stdio.h>
#include "thresholds.h"
int main(void)
{
    long long n;
    for (n = 1; n <= 4096; n++)
        printf("%d %d\\n", cpugpu_choose(CPUGPU_MATMUL_FLOAT32_RESIDENT, n),
               cpugpu_choose(CPUGPU_MATMUL_FLOAT32_WITH_COPIES, n));
    return cpugpu_choose(CPUGPU_VECTOR_DOT__DOT_FLOAT32_RESIDENT, 0) == CPUGPU_UNKNOWN ? 0 : 1;
}
"""
DEVICES = {"-1": None, "0": "cpu", "1": "cuda"}


@pytest.mark.parametrize(("compiler", "flags"), [("cc", ["-std=c99"]), ("c++", ["-std=c++11", "-x", "c++"])])
def test_a_c_program_switches_where_python_does(compiler, flags, made, tmp_path, cpugpu):
    if shutil.which(compiler) is None:
        pytest.skip(f"no compiler {compiler} on this machine")
    header = cpugpu.here("thresholds", "show", made, "--format", "c")
    (tmp_path / "thresholds.h").write_text(header.out)
    (tmp_path / "program.c").write_text(C_PROGRAM)
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", *flags]
    subprocess.run([compiler, *strict, "program.c", "-o", "program"], cwd=tmp_path, check=True, timeout=120)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True, timeout=60)
    found = load(made, {})
    for n, line in enumerate(done.stdout.splitlines(), 1):
        expected = [found.choose("matmul", n, resident=is_resident) for is_resident in (True, False)]
        assert [DEVICES[word] for word in line.split()] == expected, n


SHELL_PROGRAM = """
. ./thresholds.env
for n in "$@"; do
    if [ "$n" -ge "$CPUGPU_MATMUL_FLOAT32_RESIDENT_MIN_N" ] && [ "$n" -le "$CPUGPU_MATMUL_FLOAT32_RESIDENT_MAX_N" ]
    then echo cuda; else echo cpu; fi
done
"""


def test_a_shell_program_switches_where_python_does(made, tmp_path):
    found = load(made, {})
    (tmp_path / "thresholds.env").write_text(rendered("env", found))
    sizes = [size for part in found.entries[0].faster for size in part[1:]]
    done = subprocess.run(
        ["sh", "-eu", "-c", SHELL_PROGRAM, "program", *map(str, sizes)],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == [found.choose("matmul", size) for size in sizes] == ["cpu", "cpu", "cuda", "cuda"]


def doubles(*faster):
    """Return a file of float64 products."""
    return file_of(*(
        {"operation": "matmul", "dtype": "float64", "faster": parts, "resident": resident} for parts, resident in faster
    ))  # fmt: skip


def test_float64_products_set_the_variable_of_scilib_accel():
    """It offloads unless the cube root of m·n·k is below the variable; its mode 1 copies, mode 3 does not."""
    up: list[list[object]] = [["cuda", 16, 30], ["cpu", 40, 132], ["cuda", 140, 2048]]
    late: list[list[object]] = [["cpu", 16, 800], ["cuda", 819, 2048]]
    lines = rendered("env", doubles((up, True), (late, False))).splitlines()
    assert "SCILIB_MATRIX_OFFLOAD_SIZE=819" in lines
    assert "# SCILIB_MATRIX_OFFLOAD_SIZE=140" in lines
    never = rendered("env", doubles((up, True), ([["cpu", 16, 2048]], False)))
    assert not any(line.startswith("SCILIB") for line in never.splitlines())
    assert "SCILIB" not in rendered("env", file_of({"operation": "matmul", "faster": up}))


def test_every_form_has_a_name_of_its_own(words):
    found = file_of(
        {"operation": "matmul", "faster": [["cpu", 16, 162], ["cuda", 177, 2048]]},
        {"operation": "matmul", "faster": [["cpu", 16, 20]], "resident": False},
        {"operation": "matmul", "faster": [["cuda", 16, 20], ["cpu", 30, 40], ["cuda", 50, 60]], "threads": 1},
        {"operation": "conv2d", "faster": [["cuda", 4, 9], ["cpu", 16, 32]], "variant": "first"},
        {"operation": "conv2d", "faster": [["cuda", 4, 9]], "variant": "last", "best": False},
        {"operation": "roll,k=1.5", "faster": [["cuda", 4, 9]], "dtype": "float16"},
        machine={"cpu": 'EPYC */ #define X "\\', "gpu": "H200\nX=1", "cores": 8, "simulated": False, "version": "0",
                 "h": "", "ä": 1},
    )  # fmt: skip
    words(rendered("env", found).replace(__version__, "VERSION"))
    words(rendered("c", found).replace(__version__, "VERSION"))
    words([named(each) for each in found.entries])


def test_two_names_that_become_one_are_refused(made, tmp_path, cpugpu):
    found = file_of(*({"operation": name, "faster": [["cpu", 1, 2]]} for name in ("a-b", "a.b")))
    path = tmp_path / "thresholds.json"
    path.write_text(rendered("json", found))
    assert load(path, {}).entries == found.entries
    done = cpugpu.here("thresholds", "show", path, "--format", "c", code=2)
    assert "CPUGPU_A_B_FLOAT32_RESIDENT" in done.err


def test_two_apps_that_add_to_a_file_at_once_lose_nothing(tmp_path, monkeypatch):
    """Both read the file, and then both wrote it: the later one without what the earlier one had added."""
    path, both_have_read, write = tmp_path / "thresholds.json", threading.Barrier(2), target.write

    def write_late(place, chunks):
        with suppress(threading.BrokenBarrierError):  # with the lock, nobody else comes here
            both_have_read.wait(0.5)
        write(place, chunks)

    runs = [run_of(1, cases=tuple(Case(name, size) for size in (16, 1024)), metrics=METRICS)
            for name in ("matmul", "softmax")]  # fmt: skip
    monkeypatch.setattr(target, "write", write_late)
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(add_to, path), runs))
    assert {each.operation for each in load(path, {}).entries} == {"matmul", "softmax"}
    assert os.listdir(tmp_path) == [path.name]


def test_a_lock_that_nobody_returns_does_not_stop_the_write(tmp_path, monkeypatch):
    """As in `flock . cpugpu-tui thresholds make`."""
    path = tmp_path / "thresholds.json"
    monkeypatch.setattr(target, "LOCK_WAIT_S", 0.05)
    with target.locked(path), target.locked(path):
        target.write(path, [b"{}"])
    assert path.read_bytes() == b"{}"


def test_code_is_named_after_its_function_or_what_it_assigns(tmp_path):
    (tmp_path / "model.py").write_text("def forward(n): pass")
    names = {
        "x @ x": "x-x-", "gemm = x @ x": "gemm", "x == x": "x-x-", f"{tmp_path}/model.py:forward": "forward",
        "torch.nn.functional:gelu": "gelu",
    }  # fmt: skip
    for statement, name in names.items():
        assert operation_of(own_code(statement)).startswith(name)
    assert operation_of(own_code("y = x.roll(k)", lets=(("k", "3"),))) == "y,k=3"


MOVES = {
    "same": ([["cpu", 1, 10], ["cuda", 20, 99]], ""), "narrower": ([["cpu", 1, 14], ["cuda", 15, 99]], ""),
    "later": ([["cpu", 1, 25], ["cuda", 30, 99]], "From 20 to 25 "),
    "earlier": ([["cpu", 1, 4], ["cuda", 9, 99]], "From 9 to 10 "),
    "touching": ([["cpu", 1, 20], ["cuda", 30, 99]], "At 20 "), "never": ([["cpu", 1, 99]], "From 20 to 99 "),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_a_threshold_has_moved_if_both_have_another_winner(name):
    parts, sizes = MOVES[name]
    old = file_of(
        {"operation": "a", "faster": [["cpu", 1, 10], ["cuda", 20, 99]]}, {"operation": "b", "faster": [["cpu", 1, 2]]}
    )
    sentences, count = moved(old, file_of({"operation": "a", "faster": parts}))
    assert count == 1
    assert [sentence.startswith(sizes) for sentence in sentences] == ([True] if sizes else [])
