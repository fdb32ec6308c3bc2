"""Every workload of the catalogue and form of a class on a real GPU, and kernel times beside NVBench's if installed."""

import time

import psutil
import pytest
from tests.helpers.command_line import ROOT, agents_of, events_from

from cpugpu_tui.agent.guardian import NAME
from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import PAGEABLE, PINNED, CaseFailed, CaseFinished, CodeCompiled, DeviceSampled, Progressed
from cpugpu_tui.workloads.contract import REGISTRY

pytestmark = pytest.mark.gpu

NAMES = {name for name, item in REGISTRY.items() if type(item).__module__.startswith("cpugpu_tui.workloads.families.")}

SMALL = 32
"""A GPU's int8 product has at least 17 rows."""


def test_every_workload_agrees_with_the_cpu_and_is_timed_with_copies(cpugpu):
    done = cpugpu("run", *sorted(NAMES), "--size", SMALL, "--rounds", 1, "--no-ceilings", "--json", "--no-save")
    assert [event for event in done.events if isinstance(event, CaseFailed)] == []
    assert done.code == EXIT_OK, done.err
    finished = [event for event in done.events if isinstance(event, CaseFinished)]
    assert len(finished) == len(NAMES)
    assert all(event.check is not None and event.check.error <= event.check.tolerance for event in finished)
    for memory in (PAGEABLE, PINNED):
        moved = {event.case.split("/")[0] for event in done.events
                 if isinstance(event, DeviceSampled) and memory in event.samples}  # fmt: skip
        assert moved == NAMES


COMPILED = sorted(name for name in NAMES if REGISTRY[name].compiles)
TF32 = [name for name in COMPILED if "tf32" in REGISTRY[name].dtypes]
FEW = 4
"""Workloads of a test: compiling one for both devices takes seconds, and several tests run at once."""

COMPILE_LIMIT_S = 240
"""Limit of a test that compiles: the compiler has started before (`__main__.py`), or starts in it, in a minute."""


def groups_of(names, count):
    return [names[first : first + count] for first in range(0, len(names), count)]


def followed(process, seen=lambda _: None):
    """Return the events of a run to its end; print each phase with its time, which pytest shows of a failure."""
    events, started = [], time.monotonic()
    with process:
        for event in events_from(process):
            events.append(event)
            if isinstance(event, Progressed):
                print(f"{time.monotonic() - started:6.1f} s: {event}", flush=True)
            seen(event)
    assert process.returncode == EXIT_OK, [event for event in events if isinstance(event, CaseFailed)]
    return events


@pytest.mark.timeout(COMPILE_LIMIT_S)
@pytest.mark.parametrize(
    ("dtype", "names"),
    [*(("float32", names) for names in groups_of(COMPILED, FEW)), *(("tf32", names) for names in groups_of(TF32, FEW))],
    ids=lambda each: each if isinstance(each, str) else "+".join(each),
)
def test_every_compiled_workload_agrees_and_has_a_cost_on_each_device(dtype, names, cpugpu):
    process = cpugpu.start("run", *names, "--variant", "compiled", "--size", 64, "--dtype", dtype, "--rounds", 1,
                           "--no-ceilings", "--no-save", "--json")  # fmt: skip

    def has_no_children(event):
        if isinstance(event, CodeCompiled):
            (agent,) = agents_of(process)
            assert [child.name() for child in psutil.Process(agent).children(recursive=True)] == [NAME]

    events = followed(process, has_no_children)
    costs = {(event.case.split("/")[0], event.device) for event in events if isinstance(event, CodeCompiled)}
    assert costs == {(name, device) for name in names for device in ("cpu", "cuda:0")}
    finished = [event for event in events if isinstance(event, CaseFinished)]
    assert len(finished) == len(names)
    assert all(event.check is not None and event.check.error <= event.check.tolerance for event in finished)


@pytest.mark.timeout(COMPILE_LIMIT_S)
@pytest.mark.parametrize("statement", ["torch.ones(n) * x", "m(x)"])
def test_own_code_is_compiled_on_the_gpu(statement, cpugpu):
    process = cpugpu.start(
        "time", statement, "--setup", "x = torch.rand(n, n)", "--setup", "m = torch.nn.Linear(n, n)",
        "--n", 64, "--variant", "default,compiled", "--rounds", 3, "--no-ceilings", "--no-save", "--json",
    )  # fmt: skip
    events = followed(process)
    assert {event.device for event in events if isinstance(event, CodeCompiled)} == {"cpu", "cuda:0"}


# ------------------------------------------------------------------ forms of a workload class


FORMS_FILE = ROOT / "tests" / "helpers" / "runs" / "workload_forms.py"
COPIED = {f"form-{name}" for name in ("softmax", "sort", "fft", "embedding", "sparse", "solve", "random")}
FORMS = {*COPIED, "form-perceptron"}


def test_every_form_runs_on_a_gpu(cpugpu):
    run = ("run", *FORMS, "--workloads", FORMS_FILE, "--rounds", 3, "--no-ceilings", "--json", "--no-save")
    done = cpugpu(*run, code=EXIT_OK)
    checks = {event.case.split("/")[0]: event.check for event in done.events if isinstance(event, CaseFinished)}
    assert set(checks) == FORMS
    assert all(check is not None and check.error <= check.tolerance for check in checks.values())
    for memory in (PAGEABLE, PINNED):
        moved = {event.case.split("/")[0] for event in done.events
                 if isinstance(event, DeviceSampled) and memory in event.samples}  # fmt: skip
        assert moved == COPIED
