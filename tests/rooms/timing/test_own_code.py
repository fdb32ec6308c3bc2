"""Traps of typed code: each is refused with its name before a time is taken, and no built-in workload is accused."""

import functools
import os
import threading

import pytest
import torch
from tests.helpers.runs.typed_code import operation_of, typed_workload
from torch._subclasses.fake_tensor import FakeTensorMode

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.model import RunFinished
from cpugpu_tui.timing import own_code
from cpugpu_tui.timing.channel import LineEmitter
from cpugpu_tui.timing.own_code import check_later_call, examine
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.workloads.operators import Operators, watched_operators

VECTOR = "x = torch.rand(n)"
SQUARE = "x = torch.rand(n, n)"


def loaded(statement, *setup, n=64, in_place=False):
    """Return typed code, called once on the CPU as a case is."""
    workload = typed_workload(statement, *setup, in_place=in_place)
    op = operation_of(workload, n)
    op.step(*op.inputs)
    return op, workload


def traced(statement, *setup, **options):
    op, workload = loaded(statement, *setup, **options)
    return examine(op, workload, "cpu", None)


def refusal(statement, *setup, **options):
    with pytest.raises(CaseError) as error:
        traced(statement, *setup, **options)
    assert error.value.kind == "refused"
    return f"{error.value.message} {error.value.remedy}"


def test_a_result_without_numbers_has_a_remedy_that_fits(tmp_path):
    (tmp_path / "mine.py").write_text("def nothing(n): ...")
    assert "Call it: x.sort()." in refusal("x.sort", VECTOR)
    assert "Return a tensor from the function." in refusal(f"{tmp_path}/mine.py:nothing")
    assert "End it with an expression that gives a tensor" in refusal("None")


@pytest.mark.parametrize("device", ["cpu", "cuda:0", "cuda:1"])
def test_work_on_a_gpu_is_told_from_work_on_another_device(device, monkeypatch):
    """Fake tensors have a device and no numbers, so that this needs no GPU."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: 0)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda: 0)
    with watched_operators(device) as seen, FakeTensorMode():
        x = torch.empty(4, 4, device="cuda:1")
        _ = x @ x
    assert seen.other_gpus == ([] if device == "cuda:1" else ["cuda:1"])


def test_work_on_another_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(Operators, "note", lambda self, *_: self.other_gpus.append("cuda:1"))
    assert "cuda:1 while cpu was timed" in refusal("x * 2", VECTOR)


def test_the_receipt_counts_operators_and_leaves_views_out():
    assert traced("(x @ x).T.relu()", SQUARE).operators == 2


@pytest.mark.parametrize(
    ("statement", "setup"),
    [
        ("f(x)", ("import functools", "f = functools.lru_cache(lambda x: x @ x)", SQUARE)),
        ("f(x)", ("kept = {}", SQUARE, "def f(x):", "    key = float(x.sum())",
                  "    return kept[key] if key in kept else kept.setdefault(key, x @ x)")),
        # Called on shapes alone before, by the outline, which filled it with a tensor that has no numbers.
        ("f(x)", ("kept = {}", SQUARE, "def f(x): return kept.setdefault(x.shape, x @ x) if x.shape not in kept "
                  "else kept[x.shape]")),
        ("f(n)", ("import functools", "f = functools.lru_cache(lambda n: torch.ones(n, n) @ torch.ones(n, n))")),
        ("f(len(x))", ("import functools", SQUARE, "f = functools.lru_cache(lambda n: torch.rand(n, n) @ x)")),
        ("f(x)", ("kept = {}", SQUARE, "def f(x):", "    if x.device not in kept: kept[x.device] = x @ x",
                  "    return kept[x.device].clone()")),
    ],
    ids=["by identity", "by content", "by shape", "by size", "drawn", "a copy of it"],
)  # fmt: skip
def test_a_cached_result(statement, setup):
    assert "cache" in refusal(statement, *setup)


@pytest.mark.parametrize(
    ("statement", "setup"),
    [
        ("torch.mm(x, x, out=y)", (SQUARE, "y = torch.empty(n, n)")),
        ("f(x)", ("kept = {}", SQUARE, "def f(x):", "    if 0 not in kept: kept[0] = torch.empty_like(x)",
                  "    return torch.mm(x, x, out=kept[0])")),
        ("torch.zeros_like(x)", (SQUARE,)),
        ("(x @ x)[:1].expand(n, n)", (SQUARE,)),
        ("(x, x @ x)", (SQUARE,)),
        ("sum(range(n))", ()),
        ("w.grad = None; (w * w).sum().backward(); w.grad", ("w = torch.ones(n, requires_grad=True)",)),
    ],
    ids=["buffer of the set-up", "buffer that is kept", "zeros", "overlapping", "an input too", "no torch", "gradient"],
)  # fmt: skip
def test_honest_code_is_not_called_cached(statement, setup):
    in_place = statement.startswith("torch.mm")
    assert traced(statement, *setup, in_place=in_place).case


def test_a_kernel_that_torch_does_not_see_is_believed_if_it_writes_its_buffer():
    """Like a kernel of Triton or of an extension: no operator runs, and the result is a buffer that is kept."""
    setup = (
        SQUARE, "import ctypes", "kept = torch.empty(n, n)",
        "def f(x):",
        "    if not x.is_meta: ctypes.memmove(kept.data_ptr(), x.data_ptr(), 4 * n * n)", "    return kept",
    )  # fmt: skip
    assert traced("f(x)", *setup).operators == 0
    idle = (SQUARE, "kept = torch.ones(n, n)", "def f(x):", "    float(x.data_ptr())", "    return kept")
    assert "view of an input: nothing was computed. Add .clone() if" in refusal("f(x)", *idle)


@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_result_that_is_computed_later(tmp_path):
    (tmp_path / "mine.py").write_text("async def waits(n): ...\ndef yields(n): yield n\n")
    assert "The statement returns a generator" in refusal("(row.sum() for row in x)", SQUARE)
    assert "The function returns a generator" in refusal(f"{tmp_path}/mine.py:yields")
    assert "through asyncio.run(...)" in refusal(f"{tmp_path}/mine.py:waits")


def test_a_view_of_an_input():
    assert "view" in refusal("x.T", SQUARE)


def test_nothing_to_compare():
    assert "NoneType" in refusal("print(end='')", SQUARE)


def test_an_input_that_changes():
    assert "--in-place" in refusal("x.mul_(2)", VECTOR)


def test_an_input_that_may_change_is_restored_before_each_call():
    op, workload = loaded("x.mul_(2)", VECTOR, in_place=True)
    examine(op, workload, "cpu", None)
    results = []
    for _ in range(3):
        op.restore()
        results.append(op.step(*op.inputs).clone())
    assert torch.equal(results[0], results[2])


def test_a_thread_that_nobody_waits_for():
    over = threading.Event()
    torch.waiting_for = over.wait  # type: ignore[attr-defined]
    try:
        setup = ("import threading", VECTOR)
        assert "thread" in refusal("threading.Thread(target=torch.waiting_for).start(); y = x.sum()", *setup)
    finally:
        over.set()
        del torch.waiting_for  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "name", "read"),
    [
        ("torch.set_num_threads(3); x.sum()", "threads", torch.get_num_threads),
        ("torch.set_default_dtype(torch.float64); x.sum()", "dtype", torch.get_default_dtype),
        ("torch.set_float32_matmul_precision('medium'); x.sum()", "TF32", torch.get_float32_matmul_precision),
        ("torch.set_default_device('meta'); x.sum()", "device", lambda: str(torch.get_default_device())),
        ("torch.set_grad_enabled(False); x.sum()", "Use `with torch.no_grad():`", torch.is_grad_enabled),
    ],
)
def test_settings_that_would_stay_changed_are_named_and_put_back(statement, name, read):
    before = read()
    assert name in refusal(statement, VECTOR)
    assert read() == before


def test_a_later_call_with_the_result_of_other_inputs():
    op, workload = loaded("x @ x", SQUARE)
    examine(op, workload, "cpu", None)
    check_later_call(op)
    first = op.step(*op.inputs).clone()
    workload.reset("default", op.inputs)
    check_later_call(op)
    op.step = lambda *_inputs: first
    with pytest.raises(CaseError, match="other inputs"):
        check_later_call(op)


def test_results_may_have_another_size_for_other_inputs():
    """As those of `nms` and `nonzero`, which ended with torch's own error."""
    op, workload = loaded("x[x > 0.5]", VECTOR)
    examine(op, workload, "cpu", None)
    assert len({each.shape for each in op.expected}) == 2
    for _ in range(2):
        workload.reset("default", op.inputs)
        check_later_call(op)


def test_rounds_take_other_numbers_in_the_same_tensors():
    op, workload = loaded("x.sum()", VECTOR)
    before, address = op.inputs[0].clone(), op.inputs[0].data_ptr()
    workload.reset("default", op.inputs)
    assert op.inputs[0].data_ptr() == address
    assert not torch.equal(op.inputs[0], before)


@pytest.mark.parametrize("name", ["matmul", "vector-dot", "elementwise", "jacobian", "mnist-mlp"])
def test_built_in_workloads_are_not_accused(name):
    """The same checks, made of each built-in step."""
    built_in = catalogue.find(name)
    size = min(built_in.sizes[0], 64)
    for variant in built_in.steps():
        if "graph" in variant or variant.startswith(("pinned", "compiled")):
            continue  # these need a GPU
        inputs = built_in.inputs(size, torch.float32, torch.Generator().manual_seed(1))
        placed = built_in.place(variant, inputs, "cpu")
        step = functools.partial(built_in.variant(variant), *placed)
        torch.run_built_in = step  # type: ignore[attr-defined]
        try:
            assert traced("torch.run_built_in()").operators, variant
        finally:
            del torch.run_built_in  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "marks"),
    [
        ("x @ x", ()), ("float(x.sum())", ()), ("(x.half() @ x.half()).float()", ("lower-precision",)),
        ("x.double() @ x.double()", ("higher-precision",)), ("np.sort(np.ones(4))", ("higher-precision",)),
    ],
)  # fmt: skip
def test_another_float_type_than_that_of_inputs_or_row_is_marked(statement, marks):
    op, workload = loaded(statement, SQUARE)
    examine(op, workload, "cpu", None)
    assert op.own_marks == marks


def test_a_process_that_is_left_at_work_is_refused():
    started = ("import subprocess", VECTOR, "def f(x):", "    subprocess.Popen(['sleep', '3'])", "    return x * 2")
    assert "leaves a process at work" in refusal("f(x)", *started)
    waited = ("import subprocess", VECTOR, "def f(x):", "    subprocess.run(['true'])", "    return x * 2")
    assert traced("f(x)", *waited).operators == 1


def test_a_forked_copy_of_the_agent_writes_nothing_into_its_stream():
    reading, writing = os.pipe()
    emitter = LineEmitter(writing)
    pid = os.fork()
    if not pid:
        emitter(RunFinished(status="done"))
        emitter.flush()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    os.close(writing)
    assert os.read(reading, 100) == b""
    os.close(reading)


@pytest.mark.parametrize(
    ("code", "threads", "used", "is_refused"),
    [
        ("x @ x", 1, (2,) * own_code.LOOKS, True),
        ("x @ x", 1, (2, 2, 1), False),  # threads of the call before spun for a while
        ("x @ x", 2, (2,), False),
        ("x @ x", None, (), False),
        ("torch.from_numpy(x).sum()", 1, (), False),
    ],
)
def test_code_without_torch_that_uses_more_threads_than_asked_is_refused(monkeypatch, code, threads, used, is_refused):
    clock = [0]
    spent = iter([each for cores in used for each in (0, cores * own_code.LOOK_NS)])

    def step_clock():
        clock[0] += own_code.LOOK_NS / 2
        return clock[0]

    monkeypatch.setattr(own_code, "perf_counter_ns", step_clock)
    monkeypatch.setattr(own_code, "process_time_ns", lambda: next(spent))
    op = operation_of(typed_workload(code, "x = np.random.rand(n, n)"), 8, threads=threads)
    op.runs_torch = code.startswith("torch")
    if is_refused:
        with pytest.raises(CaseError, match=r"used 2\.0 CPU threads, where --threads asks for 1"):
            own_code.require_threads(op)
    else:
        own_code.require_threads(op)
    assert next(spent, None) is None


ONCE = "x = np.zeros(n)\ndef once(x):\n    if x[0] == 0:\n        x += 1\n    return float(len(x))"


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("statement", "setup"), [("np.add(x, 1, out=x)", "x = np.random.rand(n)"), ("once(x)", ONCE),
                             ("once(both[0])", f"{ONCE}\nboth = (x, x)")]
)  # fmt: skip
def test_code_that_changes_an_array_beside_torch_is_refused(statement, setup, in_place):
    """In its first call alone, too: what came after took 464 ns instead of 9.8 ms. Only tensors can be restored."""
    assert "Let it work on a copy" in refusal(statement, setup, in_place=in_place)
    traced("np.sort(x)", setup)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_a_buffer_that_is_only_written_is_no_input(dtype):
    traced("x.add_(int(y[0]))", VECTOR, "y = np.ones(n)", in_place=True)  # a tensor is restored
    traced("np.greater(x, 0.5, out=out)", "x = np.random.rand(n)", f"out = np.zeros(n, '{dtype}')")
