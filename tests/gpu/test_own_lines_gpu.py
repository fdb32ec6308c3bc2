"""Lines of typed code on a real GPU: waits, copies with their bytes, fall-backs, and kernels that take long."""

import pytest
import torch
from tests.helpers.runs.typed_code import line, operation_of, typed_workload

from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model.line_costs import COPY, FALLBACK, LOOP, SMALL, WAIT, WORK
from cpugpu_tui.timing.own_lines import profile_lines

pytestmark = pytest.mark.gpu

GPU = "cuda:0"

FILE = """\
import torch

def inputs(n):
    return torch.rand(n, n)

def waiting(x):
    y = x @ x
    for _ in range(4): y = (y @ x) / x.shape[0]
    s = y.sum()
    s = s.item()
    return x[0] * s

def masked(x):
    wanted = x > 0.5
    return x[wanted].sum() + x[0]

def copied(x):
    y = x * 2
    host = y.cpu()
    back = host.to(x.device)
    return back + 1

def sorted_on_host(x):
    host = x.cpu()
    host = torch.linalg.matrix_exp(host / 1000)
    return host.to(x.device) + x

def small(x):
    y = x[0]
    return y.sin().cos().sin().cos().sin().cos().sin().cos().sin().cos()

def loop(x):
    y = x[0]
    for row in x:
        y = y + row
    return y

def printed(x):
    y = x @ x
    text = str(y)
    return y + len(text)

def trained(x):
    w = torch.ones(x.shape[1], 1, device=x.device, requires_grad=True)
    loss = (x @ w).square().mean()
    loss.backward()
    return w.grad * 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_model.py"
    path.write_text(FILE)
    return path


def profiled(statement, n):
    workload = typed_workload(statement)
    return profile_lines(operation_of(workload, n, GPU), workload, GPU, torch.cuda.synchronize)


@pytest.mark.alone
def test_the_line_that_waits_for_earlier_kernels_is_named(file):
    found = profiled(f"{file}:waiting", 4096)
    wait, product = line(found, ".item()"), line(found, "y @ x")
    assert (wait.reason, wait.synchronisations) == (WAIT, 1)
    assert wait.share > 0.5
    assert product.reason == WORK
    assert product.device_ns > 10 * product.elapsed_ns, "launched at once, worked on for milliseconds"
    assert product.device_ns == pytest.approx(wait.elapsed_ns, rel=0.5)


@pytest.mark.alone  # a reason follows from shares of the time
@pytest.mark.parametrize(
    ("function", "text", "reason", "n"),
    [
        ("masked", "x[wanted]", WAIT, 2048),
        ("printed", "str(y)", WAIT, 256),
        ("small", "sin()", SMALL, 64),
        ("loop", "y + row", LOOP, 256),
        ("sorted_on_host", "matrix_exp", FALLBACK, 512),
    ],
)
def test_a_line_has_the_reason_for_its_cost(file, function, text, reason, n):
    assert line(profiled(f"{file}:{function}", n), text).reason == reason


def test_copies_have_their_bytes_and_direction(file):
    found, size_bytes = profiled(f"{file}:copied", 2048), 2048 * 2048 * 4
    to_host, to_gpu = line(found, ".cpu()"), line(found, ".to(x.device)")
    assert (to_host.reason, to_host.bytes_to_host, to_host.bytes_to_gpu) == (COPY, size_bytes, 0)
    assert (to_gpu.reason, to_gpu.bytes_to_host, to_gpu.bytes_to_gpu) == (COPY, 0, size_bytes)


def test_a_backward_pass_in_threads_of_torch_belongs_to_its_line(file):
    assert line(profiled(f"{file}:trained", 512), "loss.backward()").operators >= 2


def test_the_profiled_call_is_named_with_what_it_costs(cpugpu, file):
    done = cpugpu("time", f"{file}:waiting", "--n", "2048", "--rounds", "2", "--no-ceilings", "--no-save", "--explain")
    assert done.code == EXIT_OK, done.err
    said = " ".join(done.out.split())
    assert "Slowest lines on cuda:0 at n = 2,048 (profiled call: " in said
    assert "my_model.py:10 `s = s.item()`: waits " in said
