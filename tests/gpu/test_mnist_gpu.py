"""On a real GPU: networks train to the same result as on the CPU, eager or captured, with any input pipeline."""

import pytest

from cpugpu_tui.workloads import Setting, Workload, find
from cpugpu_tui.workloads import mnist_data as data
from cpugpu_tui.workloads.contract import layers
from cpugpu_tui.workloads.mnist_networks import Network, evaluate, fit

pytestmark = pytest.mark.gpu
GPU = "cuda:0"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(Workload, "setting", Setting("small"))


def trained(device, seed):
    """Train P5's small network for five epochs; return loss and accuracy on the test images."""
    import torch

    weights = layers(torch.float32, torch.Generator().manual_seed(1), *(784, 128, 10))
    network = Network(weights, device)
    torch.manual_seed(seed)
    digits = data.load(Setting("small"))
    fit(network, digits, 5, 32, lambda *told: None, lambda *facts: None)
    return evaluate(network, digits, 100)


def test_both_devices_train_the_same_net_within_what_dropout_draws_allow():
    """The CPU's own seeds lie within 0.15 in loss and 0.05 in accuracy of each other (tests/unit/test_mnist.py)."""
    for seed in (1,):
        (cpu_loss, cpu_accuracy), (gpu_loss, gpu_accuracy) = trained("cpu", seed), trained(GPU, seed)
        assert abs(cpu_loss - gpu_loss) < 0.15
        assert abs(cpu_accuracy - gpu_accuracy) < 0.05


def placed(variant, device):
    import torch

    item = find("mnist-mlp")
    inputs = item.inputs(32, torch.float32, torch.Generator().manual_seed(1))
    return item.place(variant, inputs, device)


@pytest.mark.parametrize("variant", ["eager", "cuda-graph", "pageable", "pinned"])
def test_one_step_without_dropout_is_the_cpus(variant):
    item = find("mnist-mlp")
    cpu = item.checked("eager", placed("eager", "cpu"))
    gpu = item.checked(variant, placed(variant, GPU)).cpu()
    assert float((gpu - cpu).norm() / cpu.norm()) < item.tolerance("float32")


def test_the_captured_step_learns_as_the_eager_one_does():
    """Fifty steps on one batch take the loss from 2.3 to almost 0 on both devices."""
    import torch

    losses = {}
    for variant in ("eager", "cuda-graph"):
        given, step = placed(variant, GPU), find("mnist-mlp").variant(variant)
        torch.manual_seed(1)
        losses[variant] = [float(step(*given)) for _ in range(50)]
    assert losses["eager"][0] == pytest.approx(losses["cuda-graph"][0], abs=0.3)
    assert losses["eager"][-1] == pytest.approx(losses["cuda-graph"][-1], abs=0.15)
    assert losses["cuda-graph"][-1] < 0.3 * losses["cuda-graph"][0]


def test_a_restarted_graph_begins_anew():
    given = placed("cuda-graph", GPU)
    item = find("mnist-mlp")
    start = given[0].flat().clone()
    for _ in range(10):
        item.variant("cuda-graph")(*given)
    assert not start.equal(given[0].flat())
    item.reset("cuda-graph", given)
    assert start.equal(given[0].flat())
