"""Whole processes: what is timed, what is seen of them, and what is refused."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cpugpu_tui.machine.processes import MARK, marked
from cpugpu_tui.model import Case, CommandUse, Device, Reading
from cpugpu_tui.timing.timers import CaseError, Stopped
from cpugpu_tui.timing.timers.command import CommandTimer, environment_for
from cpugpu_tui.workloads.own_code import own_command

GPU = "cuda:0"


class Probe:
    """A GPU on which every process of a command holds so much; None: the driver does not list them."""

    def __init__(self, held_bytes=0, utilisation_pct=40.0):
        self.held_bytes = held_bytes
        self.used_pct = utilisation_pct

    def pids(self):
        return frozenset()

    def held_by(self, pids, before):
        del before
        if self.held_bytes is None:
            return Reading(None, "no-permission")
        return dict.fromkeys(pids, self.held_bytes) if self.held_bytes else {}

    def utilisation_pct(self, pids, since_us):
        del pids, since_us
        return self.used_pct


def python(code):
    return ("env", sys.executable, "-I", "-S", "-c", code)  # env: without the usual start-up


LASTING = "import time\ndone = time.perf_counter() + 0.1\nwhile time.perf_counter() < done: pass"
"""Longer than the interval of looks, so that one takes place."""


def loaded(code, folder, device="cpu", probe=None, *, stops=False):
    announced: list[str] = []
    timer = CommandTimer(
        Device(device, device), {code.name: code}, str(folder), {GPU: probe} if probe else {},  # type: ignore[dict-item]
        2, lambda: stops, lambda _case, _device, phase: announced.append(phase),
    )  # fmt: skip
    return timer, timer.load(Case(code.name, 7), ())


def traced(code, folder, device="cpu", probe=None):
    timer, op = loaded(code, folder, device, probe)
    timer.first_call(op)
    assert op.traced is not None
    return op.traced


def used_by(found):
    assert found.used is not None
    return found.used


def test_words_are_replaced_and_other_braces_stay(tmp_path):
    others = ['{"a": {devices}}', "${devices}", "{other}"]
    code = own_command(("echo", "{n}-{device}", "--k={k}", *others), (("k", "{n}"),))
    _, op = loaded(code, tmp_path, GPU)
    assert op.words == ["echo", "7-cuda:0", "--k={n}", *others]


def test_a_call_is_the_whole_process_and_output_stays_out_of_ours(tmp_path, capfd):
    timer, op = loaded(own_command(python(f"print('x' * 10**6)\n{LASTING}")), tmp_path)
    assert 0.1e9 < timer.latency_block(op, 1) < 5e9
    assert Path(f"{op.output}.out").stat().st_size == 10**6 + 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    ],
)
def test_a_failure_names_the_exit_and_the_last_line(tmp_path, code, named):
    timer, op = loaded(own_command(python(code)), tmp_path)
    with pytest.raises(CaseError, match=named) as caught:
        timer.latency_block(op, 1)
    assert caught.value.kind == "error"
    assert str(tmp_path) in caught.value.message


def test_a_process_that_stays_behind_is_refused_and_killed(tmp_path):
    stays = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)"
    timer, op = loaded(own_command(python(stays)), tmp_path)
    with pytest.raises(CaseError, match="leaves a process at work") as caught:
        timer.latency_block(op, 1)
    assert caught.value.kind == "refused"
    assert marked(os.getpid()) == []


def test_a_stop_ends_the_process_at_once(tmp_path):
    timer, op = loaded(own_command(python("import time; time.sleep(600)")), tmp_path, stops=True)
    with pytest.raises(Stopped):
        timer.latency_block(op, 1)
    assert marked(os.getpid()) == []


def test_the_receipt_counts_children_and_memory(tmp_path):
    child = f"import os\nif os.fork():\n    os.wait()\n    os._exit(0)\n{LASTING}"
    found = traced(own_command(python(child)), tmp_path)
    assert used_by(found).processes == 2
    assert found.peak_host_bytes > 4e6
    assert used_by(found).hides_gpus


def test_start_up_is_timed_apart(tmp_path):
    code = own_command(python(LASTING), startup=shlex.join(python("pass")))
    before = time.monotonic_ns()
    found = traced(code, tmp_path)
    assert 0 < used_by(found).startup_ns < time.monotonic_ns() - before - 0.1e9, "without the 0.1 s of the work"
    with pytest.raises(CaseError, match=r"start-up command ended with exit code 1"):
        traced(own_command(python(LASTING), startup="false"), tmp_path)


def test_the_usual_start_up_is_not_that_of_a_command_which_is_quicker(tmp_path):
    assert traced(own_command(("sleep", "0")), tmp_path).used == CommandUse(1, hides_gpus=True)
    assert traced(own_command(python("pass")[1:]), tmp_path).used == CommandUse(1, hides_gpus=True)


def test_a_gpu_run_without_a_context_is_refused(tmp_path):
    code = own_command((*python(LASTING), "{device}"))
    with pytest.raises(CaseError, match="Never used the GPU") as caught:
        traced(code, tmp_path, GPU, Probe(0))
    assert caught.value.kind == "refused"
    used = traced(code, tmp_path, GPU, Probe(5_000_000))
    assert (used.peak_bytes, used_by(used).utilisation_pct, used_by(used).gpu_reason) == (5_000_000, 40.0, None)
    unknown = traced(code, tmp_path, GPU, Probe(None))
    assert (unknown.peak_bytes, used_by(unknown).gpu_reason) == (None, "no-permission")


def test_the_environment_hides_gpus_unless_the_command_takes_the_device(monkeypatch):
    plain, told = own_command(("true",)), own_command(("true", "{device}"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    assert environment_for(plain, "cpu", 0)["CUDA_VISIBLE_DEVICES"] == ""
    assert environment_for(plain, "cuda:1", 0)["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    assert environment_for(told, "cpu", 0)["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert environment_for(plain, "cpu", 4)["OMP_NUM_THREADS"] == "4"
    assert environment_for(plain, "cpu", 0)[MARK] == str(os.getpid())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert environment_for(plain, "cuda:1", 0)["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_command_was_told_to_use_the_threads_of_its_case(tmp_path):
    """`time --threads 1 -- COMMAND` on a busy machine said: 2 threads waited for a core, run with --threads 1."""
    code = own_command(python("pass"))
    timer, op = loaded(code, tmp_path)
    assert timer.threads() == 2
    timer.load(replace(op.case, threads=1), ())
    assert timer.threads() == 1
