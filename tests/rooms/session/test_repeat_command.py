"""The printed command repeats the run."""

import shlex
from copy import copy
from dataclasses import replace

import pytest
from tests.helpers.command_line import FAST
from typer.testing import CliRunner

from cpugpu_tui.cli import commands as command_files
from cpugpu_tui.cli.fleet import running as fleet_module
from cpugpu_tui.cli.running import modes as run_module
from cpugpu_tui.cli.thresholds import measuring as thresholds_module
from cpugpu_tui.demo.recording import shipped
from cpugpu_tui.model import Case, Plan, RunStarted
from cpugpu_tui.session.own_workloads import OwnWorkloads, learn
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.repeat import repeat_commands, repeat_text, why_no_command
from cpugpu_tui.workloads.contract import REGISTRY, SOURCES


def environment(request):
    """What a session adds to the environment."""
    told = {"worker": "process", "python_option": None}
    return told if request.case_timeout_s is None else {**told, "case_timeout_s": request.case_timeout_s}


def test_a_range_is_named_only_where_a_person_named_one():
    plans = map(build_plan, (
        PlanRequest(("matmul", "vector-dot"), find_crossover=True, starts=5),
        PlanRequest(("mnist-mlp",), find_crossover=True, max_size="256", starts=5),
        PlanRequest(("vector-dot",), sizes="7,9", variant="dot", starts=3),
    ))  # fmt: skip
    said = [repeat_text(RunStarted(run_id="r", series_id="s", plan=plan, environment={})) for plan in plans]
    assert said == [
        "cpugpu-tui run matmul vector-dot --find-crossover",
        "cpugpu-tui run mnist-mlp --find-crossover --max-size 256",
        "cpugpu-tui run vector-dot --size 7,9 --variant dot --starts 3",
    ]


def test_sizes_of_an_own_workload_are_named_although_a_worker_thread_registered_it(monkeypatch):
    own = copy(REGISTRY["matmul"])
    monkeypatch.setattr(own, "name", "own", raising=False)
    sizes = own.info().sizes
    plan = Plan("own", tuple(Case("own", size) for size in sizes))
    monkeypatch.setitem(REGISTRY, "own", own)
    monkeypatch.setitem(SOURCES, "own", "own.py")
    text = repeat_text(RunStarted(run_id="r", series_id="s", plan=plan, environment={}))
    assert f"--size {','.join(map(str, sizes))}" in text


ROWS = [
    [Case("matmul", 64, "float64", 1)],
    [Case("vector-dot", 100, variant="dot")],
    [Case("elementwise", 1000, variant="out", threads=2)],
    [Case("conv2d", 8, variant="compiled"), Case("conv2d", 16, variant="compiled")],
]


@pytest.mark.parametrize("cases", ROWS, ids=range(len(ROWS)))
def test_a_list_of_sizes_needs_no_saved_words(cases, monkeypatch):
    """A row that was run alone, and runs of older versions."""
    started = RunStarted(run_id="r", series_id="s", plan=Plan("any", tuple(cases)), environment={})
    (command,) = repeat_commands(started)
    (asked,) = asked_by(command, monkeypatch)
    assert build_plan(asked).cases == tuple(cases)


def test_no_command_is_invented_for_a_search_of_an_older_version(words):
    plan = replace(build_plan(PlanRequest(("matmul",), sizes="16:500")), words=())
    started = RunStarted(run_id="r", series_id="s", plan=plan, environment={})
    assert repeat_commands(started) == ()
    words([why_no_command(started)])


FACES = [
    ("time", "x @ x", "--setup", "x = torch.randn(n, n)", "--n", "1:64"),
    ("time", "{code}:forward", "--n", "1:64", "--threads", "1"),
    ("time", "{code}:forward", "--n", "16,32", "--full", "--find-crossover"),
    ("time", "torch.ones(k)", "--let", "k=3,(4, 5)", "--in-place", "--rounds", "6"),
    ("run", "matmul", "vector-dot", "--size", "100,200", "--find-crossover", "--max-size", "1e3"),
    ("run", "matmul", "--size", "10:40:10", "--repeat", "2", "--dtype", "half", "--max-seconds", "40"),
    ("survey", "--only", "fft,sort", "--max-seconds", "40"),
    ("survey", "--all", "--max-seconds", "3"),
    ("thresholds", "make", "matmul", "x.square()", "torch.ones(n)", "--setup", "x = torch.randn(n)", "--n", "16:64"),
    ("fleet", "run", "matmul", "--size", "16,32", "-w", "a", "--launcher", "local"),
    ("demo", "--table"),
]


@pytest.mark.parametrize("face", FACES, ids=lambda face: " ".join(face[:2])[:30])
def test_every_printed_command_is_read_by_the_program_and_gives_the_same_cases(face, cpugpu, tmp_path, monkeypatch):
    (tmp_path / "my_model.py").write_text("import torch\n\ndef forward(n):\n    return torch.ones(n)\n")
    face = tuple(word.replace("{code}", str(tmp_path / "my_model.py")) for word in face)
    more = () if face[0] == "demo" else ("--simulate", FAST)
    if face[0] == "thresholds":
        more = (*more, "-o", str(tmp_path / "t.json"))
    if face[0] in ("time", "thresholds"):  # an agent would import torch for the code
        more = (*more, "--worker", "thread")
    done = cpugpu.here(*face, *more)
    assert done.code in (0, 3), done.err
    shown = done.out if face[0] in ("run", "time", "survey", "demo") else cpugpu.here("show", "latest").out
    printed = [line.removeprefix("Again: ") for line in shown.splitlines() if line.startswith("Again: ")]
    assert [*dict.fromkeys(line.split()[1] for line in printed)] == [face[0] if face[0] != "demo" else "run"]
    if "--repeat" in face:  # each of its runs named itself, with its own seed
        read = [(asked.repeat, asked.max_seconds, asked.simulation.seed) for asked in asked_by(*printed, monkeypatch)]
        assert read == [(2, 40.0, 0)]
    if face[0] == "demo":
        plans = [run.started.plan for run in shipped().runs]
        assert [found for line in printed for found in planned_by(line, monkeypatch)] == [
            (plan.cases, plan.search is not None) for plan in plans
        ]
        return
    with cpugpu.store() as store:
        plan = store.plan_of(store.find("latest"))
    again = [found for line in printed for found in planned_by(line, monkeypatch)]
    assert {case for cases, _ in again for case in cases} == set(plan.cases)
    assert {is_search for _, is_search in again} == {plan.search is not None}


def planned_by(command, monkeypatch):
    """Return the cases of a printed command, and whether it is a search."""
    asked = asked_by(command, monkeypatch)
    plans = [each if isinstance(each, Plan) else build_plan(each) for each in asked]
    return [(plan.cases, plan.search is not None) for plan in plans]


def asked_by(command, monkeypatch):
    """Return the request that the program reads from a printed command, or the plan of a fleet or of thresholds."""
    asked: list[PlanRequest] = []

    def note(request, _options, **_how):
        asked.append(request)
        return 0

    def note_fleet(_given, plan):
        raise Asked(plan)

    def note_plan(plan, _own, _options):
        raise Asked(plan)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "run_headless", note)
        patch.setattr(fleet_module, "fleet_plan", note_fleet)
        patch.setattr(thresholds_module, "run_plan", note_plan)
        program, *words = shlex.split(command)
        assert program == "cpugpu-tui"
        done = CliRunner().invoke(command_files.app, words)
    if isinstance(done.exception, Asked):
        return [done.exception.plan]
    assert done.exit_code == 0, (command, done.output, done.exception)
    return asked


class Asked(Exception):
    """Carries a plan that would be run."""

    def __init__(self, plan):
        super().__init__()
        self.plan = plan


OWN = """
from cpugpu_tui import Workload, workload

class Copy(Workload):
    def inputs(self, n, dtype, generator):
        import torch
        return (torch.randn(n, generator=generator, dtype=dtype),)
    def step(self, x):
        return x.clone()
    def flops(self, n):
        return 0.0
    def bytes_moved(self, n, itemsize_bytes):
        return 2.0 * n * itemsize_bytes

@workload
class A(Copy):
    '''Copy.'''
    name, axis, sizes = "copy-a", "elements", (10, 20)

@workload
class B(Copy):
    '''Copy.'''
    name, axis, sizes = "copy-b", "elements", (300, 400, 500)
"""


def test_running_what_a_run_of_own_workloads_prints_runs_the_same_cases(cpugpu, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    first = cpugpu.here("run", "copy-a", "copy-b", "--workloads", tmp_path / "own.py", "--simulate", FAST)
    printed = [line.removeprefix("Again: ") for line in first.out.splitlines() if line.startswith("Again: ")]
    (line,) = printed
    assert cpugpu.here(*shlex.split(line)[1:]).code == 0
    with cpugpu.store() as store:
        ran, repeated = ([case.key for case in store.plan_of(store.find(number)).cases] for number in "12")
    assert (ran, len(ran)) == (repeated, 5)
    monkeypatch.setattr("cpugpu_tui.workloads.catalogue", lambda: (), raising=False)
    own, _ = learn(OwnWorkloads(), (str(tmp_path / "own.py"),), None, installed=False)
    assert [info.name for info in own.workloads] == ["copy-a", "copy-b"], "what only the agent knows is not a person's"
