"""A workload that misbehaves costs its own case: raises, NaN, prints, ends the process, never returns, does not fit."""

import json
import os
import subprocess
import sys

import pytest
from tests.helpers.command_line import PATIENCE_S

HOSTILE = '''
import os, sys, time
import torch
from cpugpu_tui.workloads import Workload, workload

@workload
class Hostile(Workload):
    """Does what its size says."""

    name = "hostile"
    dtypes = ("float32",)

    def inputs(self, n, dtype, generator):
        if n == 4:
            return (torch.full((64,), 1e-40),)
        return (torch.rand(64, generator=generator, dtype=dtype),)

    def step(self, a):
        return a * 2

    def place(self, variant, inputs, device):
        return inputs

    def flops(self, n):
        return 64.0

    def bytes_moved(self, n, itemsize_bytes):
        return 512.0

    def memory_bytes(self, n, itemsize_bytes):
        return 1e15 if n == 9 else 512.0


def deed(n):
    def step(a):
        if n == 2:
            raise ZeroDivisionError("a deed")
        if n == 3:
            return a * float("nan")
        if n == 5:
            print("hello from a workload " * 100)
            print("hello again", file=sys.stderr)
        if n == 6:
            os._exit(7)
        if n == 7:
            time.sleep(3600)
        if n == 8:
            torch.empty(10**15)
        return a * 2
    return step
'''

DRIVER = """
import sys
sys.path.insert(0, {folder!r})
import hostile
from cpugpu_tui.workloads.contract import REGISTRY

workload = REGISTRY["hostile"]
inputs = workload.inputs

def remember(n, dtype, generator):
    workload.n = n
    tensors = inputs(n, dtype, generator)
    deed = hostile.deed(n)
    workload.deeds[id(tensors[0])] = deed
    return tensors

workload.deeds = {{}}
workload.inputs = remember
workload.step = lambda a: workload.deeds.get(id(a), lambda b: b * 2)(a)
workload.reference = lambda variant, doubles: doubles[0] * 2
from cpugpu_tui.agent.main import main

main()
"""


@pytest.fixture
def agent(tmp_path):
    """The command of an agent that knows the hostile workload."""
    (tmp_path / "hostile.py").write_text(HOSTILE)
    driver = tmp_path / "agent.py"
    driver.write_text(DRIVER.format(folder=str(tmp_path)))
    return [sys.executable, str(driver)]


def told_by(agent, *sizes, until="", **plan):
    """Give an agent one plan; return what it said, to its end or until it announces a phase, and its exit code."""
    cases = [{"workload": "hostile", "size": size, "threads": 1} for size in sizes]
    line = json.dumps({"name": "t", "cases": cases, "devices": ["cpu"], "budget_s": 0.05, "max_rounds": 8, **plan})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(agent, stdin=-1, stdout=-1, stderr=quiet, env=environment) as process:
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()  # and left open: its end would end the agent
        told = []
        for text in process.stdout:
            told.append(json.loads(text))
            if until and told[-1].get("phase") == until:
                process.kill()
                break
        process.wait(PATIENCE_S)
        return told, process.returncode


def outcomes(told):
    """Return size → `ok` or the kind of failure."""
    found = {}
    for event in told:
        if event["event"] in ("CaseFinished", "CaseFailed"):
            found[int(event["case"].split("/")[2])] = event.get("kind", "ok")
    return found


def test_what_does_not_fit_says_need_and_free_known_beforehand_or_not(agent):
    told, _ = told_by(agent, 9, 8, 1)
    assert outcomes(told) == {9: "oom", 8: "oom", 1: "ok"}
    messages = [event["message"] for event in told if event.get("kind") == "oom"]
    assert all("Needs" in message and "free" in message for message in messages)


def test_denormals_are_named_when_they_are_not_flushed(agent):
    for flush, named in ((False, True), (True, False)):
        told, _ = told_by(agent, 4, flush_denormals=flush)
        marks = {mark for event in told for mark in event.get("marks", ())}
        assert ("denormals" in marks) == named


@pytest.mark.parametrize(("sizes", "more", "code"), [((1, 6), {}, 7), ((7,), {"until": "first call"}, -9)])
def test_what_ends_the_process_or_never_returns_names_its_case_before(agent, sizes, more, code):
    told, ended = told_by(agent, *sizes, **more)
    assert (ended, told[-1]["event"]) == (code, "Progressed")
    assert f"/{sizes[-1]}/" in told[-1]["case"]
