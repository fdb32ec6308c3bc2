"""Tensors and modules that a function uses by name are placed and converted like its arguments."""

import copy

import pytest
import torch

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads.code_workload import with_captured
from cpugpu_tui.workloads.containers import doubled, moved

net = torch.nn.Linear(4, 4)
weight = torch.ones(4, 4)
optimizer = torch.optim.SGD(net.parameters())


def forward(x, scale=2.0, *, shift=1.0):
    return net(x) @ weight * scale + shift


def train(x):
    optimizer.step()
    return net(x)


def twice(x):
    return forward(forward(x))


def closure():
    inner = torch.full((4,), 3.0)
    return lambda x: sum(x * inner for _ in range(2))


@pytest.mark.parametrize("function", [forward, closure(), twice], ids=["globals", "closure", "function beside it"])
def test_what_it_uses_goes_where_its_arguments_go(function):
    made, x = with_captured(function), torch.rand(2, 4)
    assert torch.equal(made(x), function(x))
    assert moved(made, "meta")(x.to("meta")).device.type == "meta"
    exact = doubled(made)(x.double())
    assert exact.dtype == torch.float64
    assert torch.allclose(exact.float(), function(x))


def test_the_original_values_stay_as_they_are():
    made = copy.deepcopy(with_captured(forward))
    with torch.no_grad():
        for each in (*made.parameters(), *made.buffers()):
            each.zero_()
    assert float(made(torch.rand(2, 4)).detach().abs().max()) == 1.0
    assert float(weight.min()) == 1.0
    assert float(net.weight.detach().abs().max()) > 0


def test_a_function_without_such_values_stays_itself():
    def plain(x):
        return x * 2

    assert with_captured(plain) is plain
    assert with_captured(torch.matmul) is torch.matmul


def test_an_optimizer_is_refused_because_it_would_train_the_original():
    with pytest.raises(UsageError, match="optimizer"):
        with_captured(train)
