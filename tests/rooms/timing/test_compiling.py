"""The variant `compiled`: its cost, steps that ran eagerly after all, missing compilers, and that nothing is left."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from tests.helpers.command_line import CommandLine, Witness, agents_of, events_from, next_event
from tests.helpers.runs.recorder import plan_of, swept
from tests.helpers.runs.typed_code import operation_of, typed_workload

from cpugpu_tui import model
from cpugpu_tui.agent.guardian import NAME
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.machine.processes import SCRATCH
from cpugpu_tui.timing import compiling
from cpugpu_tui.timing.compiling import compile_step, require_compiled
from cpugpu_tui.timing.own_code import examine
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.workloads import find
from cpugpu_tui.workloads.code_workload import CodeWorkload

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler (g++)")


@pytest.fixture(autouse=True)
def _without_a_compiler(monkeypatch, tmp_path):
    """torch traces and guards as always, and runs its own operators in place of compiled code.

    Nor are the CPU's instructions tried, which took 8 s of CPU in each worker. Slow tests have a real compiler do it.
    """
    monkeypatch.setattr(compiling, "BACKEND", "eager")
    monkeypatch.setattr(compiling, "_try_instructions", lambda _folder: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def loaded(n=4):
    return operation_of(find("softmax"), n, variant="compiled")


def typed(statement, *setup, in_place=False):
    return operation_of(typed_workload(statement, *setup, in_place=in_place), 8, variant="compiled")


def failure(op):
    with pytest.raises(CaseError) as error:
        compile_step(op, "cpu", None)
    return error.value


def scratch(pid: int = os.getpid()):
    return list(Path(tempfile.gettempdir()).glob(f"{SCRATCH}{pid}-*"))


def test_a_compiled_step_gives_the_same_and_has_a_cost():
    op = loaded()
    right = op.step(*op.inputs)
    found = compile_step(op, "cpu", None)
    assert torch.equal(op.step(*op.inputs), right)
    require_compiled(op)
    assert (found.case, found.device, found.variant) == ("softmax/compiled/4/float32/tall", "cpu", "default")
    assert found.elapsed_ns > 0
    assert not found.has_kernels  # this backend makes none
    assert not op.takes_out
    assert not scratch()


def test_the_compilers_first_start_is_a_phase_of_its_own_with_an_estimate(monkeypatch):
    told: list[tuple[Any, ...]] = []
    for _ in range(2):  # two processes
        monkeypatch.setattr(compiling, "_loaded", set())
        compile_step(loaded(), "cpu", None, lambda *words: told.append(words))
    compile_step(loaded(), "cpu", None, lambda *words: told.append(words))
    first = (model.COMPILER_START, "cpu", compiling.FIRST_START_NS, "once on this machine")
    assert told == [first, (model.COMPILING, "cpu"), (model.COMPILER_START, "cpu"), (model.COMPILING, "cpu")]


def test_a_reset_for_one_case_does_not_make_another_compile_again():
    first, other = loaded(), loaded(5)
    for op in (first, other):
        compile_step(op, "cpu", None)
    for op in (first, other, first):
        op.step(*op.inputs)
        require_compiled(op)
    code = first.compiled
    compile_step(first, "cpu", None)  # as after ctrl+z
    assert first.compiled is not code


MODEL = """
import torch
model = torch.nn.Linear(8, 2)
def inputs(n):
    return torch.rand(n, 8)
def forward(x):
    return model(x)
def plain(x):
    return scaled(x) + 1
def scaled(x):
    return x * model.in_features
"""


@pytest.mark.parametrize(
    ("statement", "setup"),
    [
        ("(x.exp() + y).sum()", ("x = torch.rand(n)", "y = torch.rand(n)")),
        ("m(x)", ("m = torch.nn.Linear(n, n)", "x = torch.rand(n, n)")),
        ("f(x)", ("w = torch.rand(n)", "x = torch.rand(n, n)", "def g(y): return y @ w", "def f(y): return g(y) + 1")),
        ("torch.ones(n) * x", ("x = torch.rand(n)",)),
        ("x.add_(1)", ("x = torch.rand(n)",)),
        ("{file}:forward", ()),
        ("{file}:plain", ()),
    ],
)  # fmt: skip
def test_own_code_gives_the_same_with_whatever_numbers(statement, setup, tmp_path):
    file = tmp_path / "some_model.py"
    file.write_text(MODEL)
    op = typed(statement.format(file=file), *setup, in_place="add_" in statement)
    right = op.to_check(op.step(*op.inputs))
    assert isinstance(op.workload, CodeWorkload)
    examine(op, op.workload, "cpu", None)
    compile_step(op, "cpu", None)
    for mine, other in zip(op.to_check(op.step(*op.inputs)), right, strict=True):
        assert torch.allclose(mine, other)
    op.workload.reset(op.case.variant, op.inputs)
    op.step(*op.inputs)
    require_compiled(op)


def test_what_would_run_eagerly_is_a_failure_with_a_name(words, monkeypatch):
    op = loaded()
    compile_step(op, "cpu", None)
    torch.set_num_threads(op.compiled_for[0] + 1)  # one of the facts that compiled code is made for
    op.step(*op.inputs)
    with pytest.raises(CaseError) as again:
        require_compiled(op)
    torch._dynamo.reset()
    with pytest.raises(CaseError) as dropped:
        require_compiled(op)
    breaks = failure(typed("x.exp() if x.sum() > 0 else x", "x = torch.rand(n)"))
    with monkeypatch.context() as patched:
        patched.setattr(torch._dynamo.config, "disable", True)
        off = failure(loaded())
    found = [again.value, dropped.value, breaks, off]
    assert [each.kind for each in found] == ["refused", "refused", "unsupported", "refused"]
    words([f"{each.message} {each.remedy}" for each in (found[0], found[3])])
    assert breaks.message.startswith("torch.compile failed: ")


def raising(error, *arguments):
    def backend(_graph, _inputs):
        raise error(*arguments)

    return backend


def test_a_missing_compiler_is_named_with_what_to_install(words, monkeypatch):
    from torch._inductor.exc import CppCompileError, InvalidCxxCompiler, TritonMissing

    output = "a.cpp:1:10: fatal error: Python.h: No such file or directory\ncompilation terminated."
    found = []
    for error in (InvalidCxxCompiler,), (TritonMissing, None), (CppCompileError, ["g++", "a.cpp"], output):
        monkeypatch.setattr(compiling, "BACKEND", raising(*error))
        found.append(failure(loaded()))
    assert {each.kind for each in found} == {"unsupported"}
    words([f"{each.message} {each.remedy}" for each in found])
    assert not scratch()


def test_compiled_code_is_timed_with_the_settings_that_it_was_compiled_for(monkeypatch):
    plan = model.Plan("test", (model.Case("softmax", 4, variant="compiled"),), devices=("cpu",))
    machine = TorchMachine(plan, {"threads": 2, "cpu": "Xeon"})
    timer = machine.timer("cpu")
    op = timer.load(plan.cases[0], machine.make_inputs(plan.cases[0]))
    timer.first_call(op)
    assert timer.on_one_thread(op) is not None
    machine.compile(op, "cpu")
    assert timer.on_one_thread(op) is None
    for measure in (lambda: timer.latency_block(op, 1), lambda: timer.ready(op, 1), op.set_as_compiled):
        torch.set_num_threads(3)  # as another case does
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
        measure()
        op.step(*op.inputs)
        machine.check_later_call(op)


def test_each_device_is_compiled_after_an_eager_call_and_before_the_rounds():
    cases = tuple(model.Case("softmax", 4096, variant=variant) for variant in ("default", "compiled"))
    recorder = swept(plan_of(cases=cases, max_rounds=8))[1]
    found = recorder.of(model.CodeCompiled)
    assert [(event.case, event.device, event.variant) for event in found] == [
        (cases[1].key, "cpu", "default"), (cases[1].key, "cuda:0", "default"),
    ]  # fmt: skip
    phases = [event.phase for event in recorder.of(model.Progressed) if event.case == cases[1].key]
    assert phases[1:5] == ["first call", "compile"] * 2
    rounds = [event for event in recorder.rounds if event.case == cases[1].key]
    assert recorder.events.index(rounds[0]) > max(map(recorder.events.index, found))
    eager, compiled = (
        next(event.estimate_ns for event in recorder.of(model.Calibrated) if event.case == case.key) for case in cases
    )
    assert compiled < 0.9 * eager


@needs_compiler
@pytest.mark.slow
def test_a_real_compiler_leaves_no_process_and_no_file(cpugpu, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/proc/none")  # a person's folder is not used, and need not exist
    process = cpugpu.start("run", "softmax", "embedding", "--variant", "default,compiled", "--size", 8, "--device",
                           "cpu", "--rounds", 2, "--no-ceilings", "--no-save", "--json")  # fmt: skip
    events = []
    with process:
        for event in events_from(process):
            events.append(event)
            if isinstance(event, model.CodeCompiled):
                (agent,) = agents_of(process)
                assert [child.name() for child in psutil.Process(agent).children(recursive=True)] == [NAME]
    assert process.returncode == EXIT_OK
    found = {event.case: event for event in events if isinstance(event, model.CodeCompiled)}
    assert set(found) == {f"{name}/compiled/8/float32/tall" for name in ("softmax", "embedding")}
    for key, event in found.items():
        assert event.has_kernels
        assert event.elapsed_ns > 1e7
        assert any(isinstance(each, model.DeviceSampled) and each.case == key and each.round_index for each in events)
    assert not scratch("*")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_compiler_does_not_outlive_a_killed_or_interrupted_app(end, tmp_path):
    command = CommandLine(tmp_path / "history.db")
    process = command.start("run", "transformer", "--variant", "compiled", "--size", 4, "--device", "cpu",
                            "--no-ceilings", "--json", stderr=subprocess.DEVNULL)  # fmt: skip
    assert process.stdout is not None
    with process:
        next_event(process, lambda event: isinstance(event, model.Progressed) and event.phase == "compile")
        (agent,) = agents_of(process)
        children: list[psutil.Process] = []
        while len(children) < 2:  # the guardian, and a compiler
            children = psutil.Process(agent).children(recursive=True)
        witnesses = [Witness(pid, may_be_gone=True) for pid in (agent, *(child.pid for child in children))]
        process.send_signal(end)
        assert all(witness.sees_the_end() for witness in witnesses)
    assert not scratch(agent)


@needs_compiler
@pytest.mark.slow
def test_without_a_compiler_the_row_fails_and_the_others_are_timed(cpugpu, monkeypatch):
    monkeypatch.setenv("CXX", "/bin/false")
    done = cpugpu("run", "softmax", "--variant", "default,compiled", "--size", 8, "--device", "cpu", "--rounds", 2,
                  "--no-ceilings", "--no-save", "--json", code=EXIT_CASES_FAILED)  # fmt: skip
    (failed,) = [event for event in done.events if isinstance(event, model.CaseFailed)]
    assert (failed.case, failed.kind) == ("softmax/compiled/8/float32/tall", "unsupported")
    assert any(isinstance(event, model.DeviceSampled) and "default" in event.case for event in done.events)
