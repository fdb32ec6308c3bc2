"""The search for an interpreter whose torch can use the GPU: places, choice, and faulty interpreters."""

import os
import sys

import psutil
import pytest
from tests.helpers.machine.fake_interpreters import interpreter, with_torch

from cpugpu_tui.transport import interpreter_search
from cpugpu_tui.transport.interpreter_search import (
    AT_ONCE,
    Choice,
    Interpreter,
    ask,
    better_than,
    choose,
    find_better,
    interpreters,
)

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Raise the time limit: the cores may be busy."""
    monkeypatch.setattr(interpreter_search, "LIMIT_S", PATIENCE_S)


def fake(path):
    return interpreter(path, "exit 1")


# ------------------------------------------------------------------ where it looks


def test_the_active_environment_comes_first_then_the_folder_then_conda_pyenv_and_path(tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    expected = [
        fake(tmp_path / "active" / "bin" / "python"),
        fake(tmp_path / "conda env" / "bin" / "python"),
        fake(project / ".venv" / "bin" / "python"),
        fake(home / "miniconda3" / "bin" / "python"),
        fake(home / "miniconda3" / "envs" / "ml" / "bin" / "python"),
        fake(tmp_path / "listed" / "bin" / "python"),
        fake(home / ".pyenv" / "versions" / "3.12.1" / "bin" / "python"),
        fake(tmp_path / "bin" / "python3.12"),
    ]
    fake(tmp_path / "bin" / "python3-config")
    fake(tmp_path / "bin" / "ipython3")
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{tmp_path}/listed\n{home}/miniconda3\n\0\n/gone\n")
    environ = {
        "VIRTUAL_ENV": f"{tmp_path}/active", "CONDA_PREFIX": f"{tmp_path}/conda env",
        "PATH": f"relative:{tmp_path}/bin::{tmp_path}/no such folder",
    }  # fmt: skip
    found = [path for path in interpreters(environ, home, sys.executable, project) if path.startswith(str(tmp_path))]
    assert found == expected
    unasked = interpreters(environ, home, sys.executable)
    assert expected[2] not in unasked, "what lies in the current folder is not run unless somebody asks"


def test_an_environment_is_asked_once_and_never_the_one_in_use(tmp_path):
    real = fake(tmp_path / "base" / "bin" / "python3.12")
    for name in ("one", "two"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").symlink_to(real)
        (tmp_path / name / "pyvenv.cfg").touch()
    (tmp_path / "one" / "bin" / "python3").symlink_to("python")
    (tmp_path / "base" / "bin" / "python3").symlink_to("python3.12")
    environ = {"VIRTUAL_ENV": f"{tmp_path}/two", "PATH": f"{tmp_path}/one/bin:{tmp_path}/two/bin:{tmp_path}/base/bin"}
    found = interpreters(environ, tmp_path / "home", f"{tmp_path}/one/bin/python")
    assert [path.removeprefix(str(tmp_path)) for path in found[:2]] == ["/two/bin/python", "/base/bin/python3"]
    assert found[2:] in ((), (sys.executable,), ("/opt/conda/bin/python", sys.executable))


def test_what_is_no_program_of_a_printable_name_is_left_out(tmp_path):
    (tmp_path / "bin" / "python3").mkdir(parents=True)
    fake(tmp_path / "evil\nname" / "python3")
    (tmp_path / "python3").write_text("")
    environ = {"PATH": f"{tmp_path}/bin:{tmp_path}:{tmp_path}/evil\nname"}
    assert not [path for path in interpreters(environ, tmp_path, "") if path.startswith(str(tmp_path))]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_an_environment_that_a_stranger_made_in_a_shared_folder_is_not_run(tmp_path):
    fake(tmp_path / ".venv" / "bin" / "python")
    os.chown(tmp_path / ".venv" / "bin", 12345, 12345)
    assert not [path for path in interpreters({}, tmp_path, "", tmp_path) if path.startswith(str(tmp_path))]


# ------------------------------------------------------------------ what it hears


def test_each_says_which_torch_it_has_and_whether_that_can_use_a_gpu(tmp_path):
    cuda = with_torch(tmp_path / "with a space" / "python", "2.8.0+cu126")
    cpu = with_torch(tmp_path / "cpu", "2.9.1+cpu", None)
    rocm = with_torch(tmp_path / "rocm", "2.9.1+rocm6.4", None, available=True)
    none = interpreter(tmp_path / "none", f'exec {sys.executable} -S -E "$@"')
    assert ask((cuda, cpu, none, rocm)) == (
        Interpreter(cuda, "2.8.0+cu126", True),
        Interpreter(cpu, "2.9.1+cpu", False),
        Interpreter(rocm, "2.9.1+rocm6.4", False),
    )


def test_answers_keep_the_order_of_the_questions_however_long_they_take(tmp_path):
    quick = with_torch(tmp_path / "quick", "2.8.0")
    slow = interpreter(tmp_path / "slow", f'sleep 0.3; exec {quick} "$@"')
    assert [each.path for each in ask((slow, quick))] == [slow, quick]


def test_a_module_of_the_current_folder_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("import pathlib; pathlib.Path('imported').touch()\n__version__ = '9'\n")
    monkeypatch.chdir(tmp_path)
    ask((interpreter(tmp_path / "python", f'exec {sys.executable} -S -E "$@"'),))
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    "script",
    [
        "exit 3",
        "echo cpugpu-tui answer {}",
        "echo 'cpugpu-tui answer [1]'",
        'echo \'cpugpu-tui answer {"python": 3, "torch": 1}\'',
        'echo \'cpugpu-tui answer {"python": [3, 9], "torch": "2.8.0", "has_cuda": true}\'',
        "printf 'cpugpu-tui answer '; head -c 60000 /dev/zero | tr '\\0' '['; echo",
        "head -c 300 /dev/urandom",
        "cat /dev/zero",
        "yes cpugpu-tui",
    ],
)
def test_garbage_and_floods_are_no_answer(tmp_path, script):
    assert ask((interpreter(tmp_path / "python3", script), str(tmp_path), "", f"{tmp_path}/gone")) == ()


def test_one_that_hangs_is_killed_with_what_it_started_and_keeps_no_other_waiting(tmp_path, monkeypatch):
    """Two may run at once. One hangs and ignores signals, and the third runs nevertheless."""
    monkeypatch.setattr(interpreter_search, "AT_ONCE", 2)
    pids = tmp_path / "pids"
    hang = f"trap '' TERM INT HUP; sleep 1000 & echo $$ $! >> {pids}; wait; sleep 1000"
    good = with_torch(tmp_path / "good", "2.8.0")
    pythons = (interpreter(tmp_path / "first", hang), good, interpreter(tmp_path / "third", hang))
    found = ask(pythons, lambda: pids.exists() and len(pids.read_text().split()) == 4)
    assert [each.path for each in found] == [good]
    wait_until_gone(map(int, pids.read_text().split()))


def test_all_are_killed_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter_search, "LIMIT_S", 0.2)
    assert ask((interpreter(tmp_path / "python", f"echo $$ > {tmp_path}/pid; exec sleep 1000"),)) == ()
    if (tmp_path / "pid").exists():
        wait_until_gone(map(int, (tmp_path / "pid").read_text().split()))


def wait_until_gone(pids):
    """Wait for the kernel to end processes that were killed."""
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], PATIENCE_S)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def test_no_more_run_at_once_than_are_allowed(tmp_path):
    """Each interpreter counts the running ones in a folder."""
    inside, most = tmp_path / "inside", tmp_path / "most"
    inside.mkdir()
    script = f"touch {inside}/$$; ls {inside} | wc -l >> {most}; sleep 0.1; rm {inside}/$$"
    ask([interpreter(tmp_path / f"python{number}", script) for number in range(3 * AT_ONCE)])
    seen = [int(line) for line in most.read_text().split()]
    assert len(seen) == 3 * AT_ONCE
    assert max(seen) <= AT_ONCE


# ------------------------------------------------------------------ what it takes


def test_a_usable_gpu_counts_before_a_newer_torch():
    old, new, cpu = (
        Interpreter("/a", "2.8.0+cu126", True), Interpreter("/b", "2.10.0+cu130", True), Interpreter("/c", "3.0", False)
    )  # fmt: skip
    assert better_than(cpu, (cpu, old, new)) == new
    assert better_than(None, (cpu,)) == cpu, "any torch is more than none"
    assert better_than(None, (old, Interpreter("/e", "2.8.1rc1+cu126", True), new)) == new, "a version may have letters"
    assert better_than(Interpreter("/d", "2.6.0", False), (cpu,)) is None, "newer, and no GPU either"
    assert better_than(old, (new,)) is None, "it can use the GPU already"
    assert better_than(None, ()) is None


def only_these(monkeypatch, own, *others):
    """Let this program's own interpreter be `own`, and the machine hold these others."""
    monkeypatch.setattr(sys, "executable", own)
    monkeypatch.setattr(interpreter_search, "interpreters", lambda *_: others)


def test_auto_takes_its_own_torch_without_a_search_where_that_can_use_the_gpu(tmp_path, monkeypatch):
    own = with_torch(tmp_path / "own", "2.8.0")
    only_these(monkeypatch, own, interpreter(tmp_path / "other", f"touch {tmp_path}/asked"))
    assert choose() == Choice(None, "")
    assert not (tmp_path / "asked").exists()


def test_auto_takes_the_one_that_can_and_else_its_own_and_says_so(tmp_path, monkeypatch, words):
    own = with_torch(tmp_path / "own", "2.9.1+cpu", None)
    cpu = with_torch(tmp_path / "cpu", "2.10.0+cpu", None)
    gpu = with_torch(tmp_path / "gpu", "2.8.0+cu126")
    only_these(monkeypatch, own, cpu, gpu)
    found = choose()
    assert found.python == gpu
    words(found.sentence.replace(gpu, "PYTHON"))
    only_these(monkeypatch, own, cpu)
    found = choose()
    assert found.python is None
    words(found.sentence)
    assert find_better(None) is None


def test_the_run_is_made_by_the_interpreter_that_auto_found_and_recorded_with_its_path(cpugpu, tmp_path, monkeypatch):
    real = sys.executable
    gpu = with_torch(tmp_path / "an env" / "python", "2.8.0+cu126", runs=real)
    only_these(monkeypatch, with_torch(tmp_path / "own", "2.9.1+cpu", None, runs=real), gpu)
    done = cpugpu("run", "matmul", "--size", "8", "--rounds", "2", "--device", "cpu", "--python", "auto", "--json")
    assert done.code == 0, done.err
    assert gpu in done.err
    (started,) = (event for event in done.events if type(event).__name__ == "RunStarted")
    assert started.environment["python_option"] == gpu


def test_a_simulation_needs_no_search(cpugpu, tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter_search, "choose", None)
    done = cpugpu("run", "matmul", "--size", "8", "--rounds", "5", "--simulate", "default", "--python", "auto")
    assert (done.code, done.err) == (0, "")


def test_auto_cannot_be_one_of_several_interpreters(cpugpu, words):
    done = cpugpu("run", "matmul", "--python", "auto", "--python", sys.executable, code=2)
    words(done.err)
