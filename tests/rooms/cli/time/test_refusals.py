"""Every way to get two of anything wrong, in one table: a command, its cause and remedy, its exit code.

Causes and remedies stand in `tests/golden/words/cli.txt`. The last rows start processes.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.helpers.command_line import FAST, committed

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_UNFIT, EXIT_USAGE

SETUP = "--setup 'x = torch.rand(n, n)'"
PAIR = f"'x @ x' --against 'torch.mm(x, x)' {SETUP}"
CPU, GPU = "--on-cpu 'x @ x' --setup 'x = np.ones(n)'", "--on-gpu 'y @ y' --gpu-setup 'y = torch.from_numpy(x)'"
HERE = "-w a --launcher local"
SLURM = "-H slurm.toml"

ROWS = {
    "no such revision": "mine.py:f --rev second",
    "an empty revision": "mine.py:f --rev ''",
    "a file that the revision lacks": "new.py:f --rev first",
    "a function that the revision lacks": "mine.py:later --rev first",
    "a file in no repository": "../alone.py:f --rev first",
    "an expression in a revision": "'x @ x' --rev first",
    "a parameter that the function does not take": "mine.py:f --let kk=1,2",
    "one that neither function takes": "mine.py:f --let kk=1 --against new.py:f",
    "a misspelt argument": "kinds.py:scaled --let x=1 --let scael=2",
    "a parameter of a function without arguments": "kinds.py:none --let k=2",
    "a parameter that a lambda does not take": "kinds.py:half --let k=2",
    "a parameter that the code does not use": f"'x @ x' {SETUP} --let k=2",
    "two other sides": "mine.py:f --rev first --against mine.py:f",
    "another side that is no Python": f"'x @ x' --against 'x +' {SETUP}",
    "another file that does not exist": "mine.py:f --against no_such.py:f",
    "another function that does not exist": "mine.py:f --against mine.py:no_such",
    "a module": "mine.py:torch",
    "a name like that of a module": "mine.py:torhc",
    "a name like that of a function": "kinds.py:scald",
    "a command against an expression": "--against 'x @ x' -- true",
    "two interpreters beside two codes": f"{PAIR} --python a --python b",
    "two interpreters of a command": "--python a --python b -- true",
    "several runs": f"{PAIR} --repeat 2",
    "several starts": f"{PAIR} --starts 3",
    "a number of rounds": f"{PAIR} --rounds 9",
    "energy": f"{PAIR} --energy",
    "all GPUs at once": f"{PAIR} --parallel",
    "two codes in one process": f"{PAIR} --worker thread",
    "both variants on one side": f"{PAIR} --variant default,compiled --against-variant default",
    "a band without two sides": f"'x @ x' {SETUP} --band 1%",
    "no code for the GPU": CPU,
    "no code for the CPU": "--on-gpu 'y @ y'",
    "set-up for the GPU alone": f"'x @ x' {SETUP} --gpu-setup 'y = x'",
    "a third code": f"'x @ x' {CPU} {GPU}",
    "another side of two implementations": f"{CPU} {GPU} --against x",
    "two implementations that change inputs": f"{CPU} {GPU} --in-place",
    "set-up of a command": f"{CPU} {GPU} -- true",
    "two hosts": "mine.py:f -w a,b --launcher local",
    "an unknown launcher": "mine.py:f -w a --launcher sshh",
    "a launcher without a host": "mine.py:f --launcher ssh",
    "a thread on another machine": f"mine.py:f {HERE} --worker thread",
    "an interpreter to be found on another machine": f"mine.py:f {HERE} --python auto",
    "a command on another machine": f"{HERE} -- true",
    "too much to send": f"large.py:f {HERE}",
    "two codes through Slurm": f"mine.py:f --against new.py:f {SLURM}",
    "two interpreters through Slurm": f"mine.py:f --python a --python b {SLURM}",
    "a host without an interpreter": f"mine.py:f {HERE} --python /no/python",
    "a name that only the other set-up makes": f"'x @ x' {SETUP} --against-setup 'y = 3'",
    "one of two that a host lacks": f"mine.py:f {HERE} --python {sys.executable} --python /no/python",
}  # fmt: skip
"""What is wrong → the words after `time`."""

SLOW_ROWS = {
    "a library that a host lacks": f"lacks.py:f {HERE}",
    "a file that changes meanwhile": "mine.py:f --against dirty.py:f",
    "other arguments, side effects, other results": "mine.py:f --against wrong.py:f",
}
"""The same, of code that runs on the CPU."""

FILES = {
    "mine.py": "import torch\ndef inputs(n):\n    return torch.ones(n)\ndef f(x):\n    return x * 2\n",
    "wrong.py": """import threading, time, torch
def inputs(n):
    return torch.ones(n)
def two(x, y):
    return x * y
def f(x):
    match x.numel():
        case 8: return two(x)
        case 9: return x.mul_(2)
        case 10: threading.Thread(target=time.sleep, args=(1,)).start()
        case 11: return x * 3
    return x * 2
""",
    "lacks.py": "import no_such_library\ndef f(n):\n    return n\n",
    "dirty.py": "open(__file__, 'a').write('#')\ndef f(n):\n    return n\n",
    "large.py": "import beside\ndef f(n):\n    return n\n",
    "kinds.py": "def scaled(x, *, scale=1):\n    return x * scale\ndef none():\n    return 1\nhalf = lambda x: x / 2\n",
    "beside.py": "#" * 10_000_001,
    "slurm.toml": '[[hosts]]\nhost = "n1"\nlauncher = "srun"\ngpus = 1\ncpus = 2\n',
}


@pytest.fixture
def refused(cpugpu, tmp_path, monkeypatch):
    """A folder with the files, of which `mine.py` was committed; a function that returns a row of the table."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("mine.py").write_text(FILES["mine.py"])
    committed(folder, "first")
    for path, text in FILES.items():
        Path(path).write_text(text)
    later = FILES["mine.py"] + "def later(x):\n    return x\n"
    for path in ("mine.py", "new.py", "../alone.py"):
        Path(path).write_text(later)

    def row(name, line, *more):
        options, dashes, command = line.partition("-- ")
        done = cpugpu.here("time", *shlex.split(options), *more, *shlex.split(dashes + command))
        said = [each for each in (*done.err.splitlines(), *done.out.splitlines())
                if each.startswith(("cpugpu-tui: ", "failed: ", "n = ", "No comparison"))]  # fmt: skip
        assert done.code in (EXIT_USAGE, EXIT_CASES_FAILED, EXIT_UNFIT), name
        assert said, f"{name}: {done.err or done.out}"
        for each in said:
            assert re.search(r"[.:] [A-Z]", each.partition(": ")[2]), f"{name}: no remedy in {each}"
        text = "\n".join(said).replace(str(folder), "PROJECT").replace(sys.executable, "PYTHON")
        text = re.sub(r"\b[0-9a-f]{12}\b", "COMMIT", text)
        return f"# {name}\n$ cpugpu-tui time {line.replace(sys.executable, 'PYTHON')}\n{text} [{done.code}]\n"

    return row


def test_what_is_wrong_is_one_cause_and_one_remedy(refused, words):
    words("\n".join(refused(name, line, "--n", "8", "--simulate", FAST) for name, line in ROWS.items()))


@pytest.mark.slow
def test_what_shows_only_when_it_runs_is_said_as_well(refused, words):
    more = ("--n", "8,9,10,11", "--device", "cpu", "--threads", "1", "--no-save")
    words("\n".join(refused(name, line, *more) for name, line in SLOW_ROWS.items()))
