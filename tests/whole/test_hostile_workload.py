"""A person's file that means harm, or is merely wrong: it spoils its own rows, no store, no terminal."""

import sqlite3
from pathlib import Path

import pytest
from tests.helpers.command_line import FAST

from cpugpu_tui.model import CaseFailed, CaseFinished, RunFinished
from cpugpu_tui.transport import agent_pool, agent_process

HOSTILE = r'''
import os
import sys

from cpugpu_tui import Workload, workload

print("m" * 1_000_000)
print("\x1b]0;owned\x07", file=sys.stderr)
os.write(1, b'{"event":"RunFinished","status":"done"}\n')


class Base(Workload):
    """Does one bad thing."""

    sizes = (10, 20)
    dtypes = ("float32",)

    def inputs(self, n, dtype, generator):
        import torch

        return (torch.rand(n, generator=generator, dtype=dtype),)

    def step(self, x):
        return x * 2

    def flops(self, n):
        return 1.0 * n

    def bytes_moved(self, n, itemsize_bytes):
        return 8.0 * n


def own(name, **methods):
    workload(type("Own", (Base,), {"name": name, "__doc__": "Bad.", **methods}))


def raises(self, x):
    raise RuntimeError("\x1b[31mred\x07 and\nmore")


def prints(self, x):
    print("y" * 1_000_000)
    return x * 2


def at_20(what):
    def costs(self, n):
        return what() if n == 20 else 1.0

    return costs


own("good")
own("raises", step=raises)
own("exits", sizes=(10,), step=lambda self, x: sys.exit(5))
own("dies", sizes=(20,), step=lambda self, x: os._exit(9))
own("prints", step=prints)
own("returns-none", step=lambda self, x: None)
own("costs-raise", flops=at_20(lambda: 1 / 0))
own("costs-nan", flops=at_20(lambda: float("nan")))
own("odd-shape", steps=lambda self: {"right": self.step, "odd": lambda x: x[:-1] * 2})
own("no-tensors", inputs=lambda self, n, dtype, generator: 3)
'''

NAMES = ("raises", "exits", "dies", "prints", "returns-none", "costs-raise", "costs-nan", "no-tensors", "good")


@pytest.fixture
def hostile(tmp_path):
    path = tmp_path / "hostile.py"
    path.write_text(HOSTILE)
    return path


def outcomes(done):
    """Return workload/size → `ok`, or the kind of failure and what was said."""
    found = {}
    for event in done.events:
        if isinstance(event, (CaseFinished, CaseFailed)):
            workload, _variant, size, *_ = event.case.split("/")
            found[f"{workload}/{size}"] = "ok" if isinstance(event, CaseFinished) else f"{event.kind}: {event.message}"
    return found


def test_each_spoils_its_own_rows(cpugpu, hostile):
    done = cpugpu("run", *NAMES, "--workloads", hostile, "--device", "cpu", "--scale", "small", "--rounds", 2, "--json")
    found = outcomes(done)
    assert done.code == 3
    for name in ("good", "prints"):
        assert (found[f"{name}/10"], found[f"{name}/20"]) == ("ok", "ok")
    assert (found["costs-raise/10"], found["costs-nan/10"]) == ("ok", "ok")
    assert found["costs-raise/20"].startswith("error: ZeroDivisionError")
    assert found["costs-nan/20"].startswith("error: ValueError")
    assert found["raises/10"].startswith("error: RuntimeError: red")
    assert found["returns-none/10"].startswith("error: ")
    assert "NoneType" in found["returns-none/10"]
    assert found["exits/10"].startswith("error: ")
    assert "exit code 5" in found["exits/10"]
    assert found["dies/20"].startswith("crashed: ")
    assert "exit code 9" in found["dies/20"]
    assert found["no-tensors/10"].startswith("error: TypeError")
    assert isinstance(done.events[-1], RunFinished)
    assert "\x1b" not in done.out
    assert "owned" not in done.out
    assert "m" * 1000 not in done.out
    shown = cpugpu.here("show", code=0)
    assert "\x1b" not in shown.out
    database = sqlite3.connect(cpugpu.database)
    assert database.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_a_variant_of_another_shape_is_a_mismatch(cpugpu, hostile):
    run = ("run", "odd-shape", "--variant", "odd", "--size", 10, "--workloads", hostile, "--device", "cpu")
    done = cpugpu(*run, "--scale", "small", "--json", code=3)
    (found,) = outcomes(done).values()
    assert found.startswith("mismatch: ")
    assert "[9]" in found
    assert "[10]" in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nos._exit(0)\n", "exit code 0"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "SIGKILL"),
        ("import sys\nsys.exit()\n", "own.py, line 2: "),
        ("raise RuntimeError('\\x1b[31m' + 'x' * 100_000)\n", "own.py, line 1: RuntimeError: xxx"),
        ("class Odd(BaseException):\n    def __str__(self):\n        1 / 0\nraise Odd\n", "own.py, line 4: Odd"),
        ("import os\nos.close(1)\nos.close(2)\nimport sys\nsys.exit(4)\n", "code 4"),
    ],
)  # fmt: skip
def test_whatever_it_does_while_it_is_loaded_is_one_sentence(text, said, cpugpu, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(text)
    done = cpugpu("run", "matmul", "--size", 64, "--workloads", path, "--simulate", FAST)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "\x1b" not in done.err
    assert done.err.count("\n") == 1
    assert len(done.err) < 1000
    assert not cpugpu.database.exists()


def test_one_that_never_ends_is_given_up(cpugpu, tmp_path, monkeypatch):
    path = tmp_path / "own.py"
    path.write_text("while True:\n    pass\n")
    monkeypatch.setattr(agent_process, "LOAD_LIMIT_S", 0.5)
    done = cpugpu.here("run", "matmul", "--workloads", path, "--simulate", FAST, "--json", code=2)
    assert str(path) in done.err
    assert "0.5 s" in done.err
    (finished,) = done.events
    assert finished.exit_code == 2


def test_a_package_that_ends_the_agent_spoils_no_run_that_has_no_use_for_it(cpugpu, tmp_path):
    (tmp_path / "bad_package.py").write_text("import os\nos._exit(9)\n")
    facts = tmp_path / "bad_package-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-package\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[cpugpu_tui.workloads]\nbad = bad_package\n")
    path = {"PYTHONPATH": f"{tmp_path}:{Path(agent_pool.__file__).parents[2]}"}
    assert cpugpu("run", "matmul", "--size", 64, "--simulate", FAST, **path).code == 0
    done = cpugpu("run", "gelu", "--simulate", FAST, **path, code=2)
    assert "bad-package (bad)" in done.err
    assert "exit code 9" in done.err


def test_on_the_workers_thread_a_file_that_ends_the_process_is_refused_too(cpugpu, tmp_path):
    path = tmp_path / "own.py"
    path.write_text("import os\nos._exit(9)\n")
    done = cpugpu("run", "matmul", "--worker", "thread", "--workloads", path, "--simulate", FAST, code=2)
    assert str(path) in done.err
