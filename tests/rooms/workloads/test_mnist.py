"""MNIST: generated digits, checks of the user's files, and training that gives the same on every device."""

import gzip
import struct
import subprocess
import sys

import pytest
import torch
from tests.helpers.runs.counting import Told

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads import Setting, Workload, find
from cpugpu_tui.workloads import mnist_data as data
from cpugpu_tui.workloads.contract import layers
from cpugpu_tui.workloads.mnist_networks import Network, evaluate, fit


def drawn(count, seed=5):
    return data.draw(count, torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------ drawn digits


def test_one_seed_gives_the_same_bytes_on_one_thread_and_on_two():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = drawn(6000)
        torch.set_num_threads(2)
        two = drawn(6000)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])
    assert not torch.equal(one[0], drawn(6000, seed=6)[0])


def test_all_ten_digits_come_and_no_two_images_are_alike():
    images, labels = drawn(2000)
    assert (images.shape, images.dtype) == ((2000, 28, 28), torch.uint8)
    assert labels.bincount().min() > 100
    assert len({image.sum().item() for image in images}) > 1000


# ------------------------------------------------------------------ training


def network(seed, widths=(784, 128, 10)):
    return Network(layers(torch.float32, torch.Generator().manual_seed(seed), *widths), "cpu")


@pytest.fixture(scope="module")
def small():
    return data.load(Setting("small"))


def test_training_learns(small):
    trained, epochs = network(1), []
    untrained = evaluate(trained, small, 100)
    torch.manual_seed(1)
    fit(trained, small, 8, 32, lambda *told: None, lambda *facts: epochs.append(facts))
    loss, accuracy = evaluate(trained, small, 100)
    assert untrained[1] < 0.3
    assert accuracy > 0.5
    assert loss < untrained[0]
    assert [epoch for epoch, _, _ in epochs] == list(range(1, 9))
    assert epochs[-1][1] < epochs[0][1]
    assert {steps for _, _, steps in epochs} == {63}


def test_nets_trained_from_other_seeds_agree_in_loss_and_accuracy(small):
    """Tolerance for whole trainings, because random numbers of dropout differ between devices."""
    found = []
    for seed in (1, 2, 3):
        trained = network(1)
        torch.manual_seed(seed)
        fit(trained, small, 5, 32, lambda *told: None, lambda *facts: None)
        found.append(evaluate(trained, small, 100))
    losses, accuracies = zip(*found, strict=True)
    assert max(losses) - min(losses) < 0.15
    assert max(accuracies) - min(accuracies) < 0.05


def test_a_restart_puts_weights_and_optimiser_back(small):
    trained = network(1)
    before = trained.flat()
    images, labels = small.train_images[:32], small.train_labels[:32]
    trained.learn(images, labels, dropout=False)
    once = trained.flat()
    for _ in range(3):
        trained.learn(images, labels, dropout=False)
    trained.restart()
    assert torch.equal(before, trained.flat())
    trained.learn(images, labels, dropout=False)
    assert torch.equal(once, trained.flat()), "Adam's moments and step count begin anew"


def test_publication_5_builds_trains_and_evaluates(monkeypatch):
    monkeypatch.setattr(Workload, "setting", Setting("small"))
    item, told = find("mnist-mlp"), Told()
    item.prepare_written("pageable", 32, "cpu")
    assert item.written("pageable", 32, torch.float32, "cpu", told) == {}
    assert told.parts[-1][:2] == (63, 63)
    assert "loss" in told.parts[-1][2]
    assert "accuracy" in told.parts[-1][2]
    ((epoch, epochs, loss, accuracy, elapsed_ns, steps),) = told.epochs
    assert (epoch, epochs, steps) == (1, 1, 63)
    assert 0 < loss < 3
    assert 0.1 < accuracy < 1
    assert elapsed_ns > 0
    assert item.written_operations(32) == 63
    assert item.as_written.covers("pageable", 32, "full")
    assert find("mnist-mlp-width").as_written is None


def test_a_network_that_learns_wrong_is_noticed(monkeypatch):
    monkeypatch.setattr(Workload, "setting", Setting("small"))
    item = find("mnist-mlp")
    inputs = item.inputs(32, torch.float32, torch.Generator().manual_seed(1))
    reference = item.reference("eager", tuple(t.double() if t.is_floating_point() else t for t in inputs))
    monkeypatch.setattr("cpugpu_tui.workloads.mnist_networks.LEARNING_RATE", 2e-3)
    wrong = item.checked("eager", item.place("eager", inputs, "cpu"))
    assert float((wrong.double() - reference).norm() / reference.norm()) > item.tolerance("float32")


# ------------------------------------------------------------------ a person's own files


def write_idx(folder, count=20, suffix="", **more):
    """Write the four files; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        images, labels = drawn(count)
        pixels, names = bytes(images.flatten().tolist()), bytes(labels.tolist())
        for name, content in (
            (f"{part}-images-idx3-ubyte", struct.pack(">4I", 0x803, count, 28, 28) + pixels),
            (f"{part}-labels-idx1-ubyte", struct.pack(">2I", 0x801, count) + names),
        ):
            packed = gzip.compress(content) if suffix else content
            (folder / (name + suffix)).write_bytes(packed)
    return folder


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("place", ["", "MNIST/raw"])
def test_a_persons_files_are_found_plain_or_packed(tmp_path, suffix, place):
    write_idx(tmp_path / place, suffix=suffix)
    images, labels = data.read_idx(str(tmp_path), "train")
    wanted = drawn(20)
    assert torch.equal(images, wanted[0])
    assert torch.equal(labels, wanted[1])
    loaded = data.load(Setting("full", str(tmp_path)))
    assert loaded.train_images.shape == (20, 784)
    assert 0 <= float(loaded.train_images.min()) <= float(loaded.train_images.max()) <= 1


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def rewrite(name, change):
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def bomb(folder):
    """Replace the images by a header of 20 images and 200 MB of zeros, compressed to 200 kB."""
    (folder / IMAGES).unlink()
    content = struct.pack(">4I", 0x803, 20, 28, 28) + bytes(200_000_000)
    (folder / f"{IMAGES}.gz").write_bytes(gzip.compress(content, 1))


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        pytest.param(lambda folder: (folder / LABELS).unlink(), LABELS, id="no labels"),
        pytest.param(rewrite(IMAGES, lambda b: b"\x89PNG" + b[4:]), "89504e47", id="a picture"),
        pytest.param(rewrite(IMAGES, lambda b: b""), IMAGES, id="empty"),
        pytest.param(rewrite(LABELS, lambda b: b[:6]), "6 of 8", id="short header"),
        pytest.param(rewrite(IMAGES, lambda b: b[:1000]), "1,000 of 15,696", id="short data"),
        pytest.param(rewrite(IMAGES, lambda b: b + b"x"), "15,696", id="long data"),
        pytest.param(rewrite(LABELS, lambda b: b[:-1] + b"\x0a"), "label 10", id="label 10"),
        pytest.param(rewrite(LABELS, lambda b: struct.pack(">2I", 0x801, 19) + b[9:]), "19", id="19 labels"),
        pytest.param(rewrite(IMAGES, lambda b: struct.pack(">4I", 0x803, 2**31, 28, 28)), "2,147,483,648", id="count"),
        pytest.param(rewrite(IMAGES, lambda b: struct.pack(">4I", 0x803, 20, 32, 32) + b[16:]), "32×32", id="pixels"),
        pytest.param(lambda folder: (folder / IMAGES).rename(folder / "x"), IMAGES, id="no images"),
        pytest.param(bomb, "15,696", id="bomb"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused_with_cause_and_remedy(tmp_path, spoil, named, words):
    spoil(write_idx(tmp_path))
    with pytest.raises(UsageError, match=named) as caught:
        data.read_idx(str(tmp_path), "train")
    words(str(caught.value).replace(str(tmp_path), "."))


def test_a_bomb_is_never_unpacked(tmp_path):
    """The header limits the bytes that are read, not the unpacked size of the file."""
    import resource

    bomb(write_idx(tmp_path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UsageError):
        data.read_idx(str(tmp_path), "train")
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 50_000_000


# ------------------------------------------------------------------ memory

PEAK = """
import torch
from cpugpu_tui.model import Case
from cpugpu_tui.workloads import case_costs, find

def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

workload, before = find("{name}"), peak()
inputs = workload.inputs({size}, torch.float32, torch.Generator().manual_seed(1))
placed = workload.place("eager", inputs, "cpu")
workload.step(*placed)
print(peak() - before, case_costs(Case("{name}", {size})).memory_bytes)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("mnist-mlp", 32), ("mnist-mlp-wide", 4096)])
def test_the_images_are_part_of_the_memory(name, size):
    """A batch of 32 was estimated as 4 MB, and took 280 MB. torch's optimiser is another 50 to 200 MB at first use."""
    child = subprocess.run(
        [sys.executable, "-c", PEAK.format(name=name, size=size)], capture_output=True, text=True, check=True
    )
    used, estimated = map(float, child.stdout.split())
    assert used - 200e6 < estimated < 2.5 * used
