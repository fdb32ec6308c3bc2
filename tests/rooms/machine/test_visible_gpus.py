"""CUDA_VISIBLE_DEVICES hides some GPUs: the driver is queried for torch's GPU by UUID, never by index.

torch is faked: the tests set which GPUs CUDA shows for each form of the variable. NVML lists all GPUs whatever the
variable says, here in the reverse order of the cards' numbers.
"""

from dataclasses import dataclass

import pytest
import torch

from cpugpu_tui.doctor.checks_torch import read_list
from cpugpu_tui.model import Plan
from cpugpu_tui.timing import torch_devices
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.ui.panes.telemetry.wording import torch_names

TAIL = "0000-4000-8000-000000000000"
CARDS = [f"GPU-{number:08x}-{TAIL}" for number in range(4)]
SLICES = [f"MIG-{2:08x}-{instance:04x}-4000-8000-000000000000" for instance in range(2)]
"""Two of card 2."""


@dataclass
class Properties:
    """A GPU as torch describes it."""

    uuid: str
    name: str = "NVIDIA H200"
    total_memory: int = 150 << 30


class Cuda:
    """A process in which CUDA shows these UUIDs; torch reports them without prefix."""

    def __init__(self, monkeypatch, fake):
        fake.use()
        fake.set("count", 4)
        fake.set("reversed", 1)
        for number in range(4):
            fake.set("clock:1", 1000 + number, gpu=number)
        self._monkeypatch = monkeypatch

    def sees(self, variable, uuids, *wanted):
        """Return the machine of a plan for these devices."""
        shown = [Properties(uuid.partition("-")[2]) for uuid in uuids]
        if variable is None:
            self._monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            self._monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
        self._monkeypatch.setattr(torch_devices, "gpu_problem", lambda: None)
        self._monkeypatch.setattr(torch.cuda, "device_count", lambda: len(shown))
        self._monkeypatch.setattr(torch.cuda, "get_device_properties", lambda name: shown[int(name.partition(":")[2])])
        return TorchMachine(Plan("test", (), devices=wanted or ("cuda",)), {"threads": 1})


@pytest.fixture
def cuda(monkeypatch, fake_nvml):
    return Cuda(monkeypatch, fake_nvml)


def clocks(found):
    """Return GPU → its clock, which identifies the card."""
    edges = {device.name: found.watcher(device.name).edge() for device in found.devices if not device.is_cpu}
    return {name: edge.sm_clock_mhz for name, edge in edges.items() if edge is not None}


@pytest.mark.parametrize(
    ("variable", "cards"),
    [
        (None, [0, 1, 2, 3]),
        ("2", [2]),
        ("3,1", [3, 1]),
        (CARDS[1], [1]),
        (f"{CARDS[3]},{CARDS[0]}", [3, 0]),
        ("GPU-00000002", [2]),
    ],
)
def test_each_visible_gpu_is_watched_by_its_uuid(cuda, variable, cards):
    if variable is not None:
        entries = read_list(variable, CARDS, SLICES).entries
        assert len(entries) == len(cards), "what doctor says CUDA reads of it"
    found = cuda.sees(variable, [CARDS[card] for card in cards])
    assert [device.uuid for device in found.devices] == [CARDS[card] for card in cards]
    assert clocks(found) == {f"cuda:{index}": 1000.0 + card for index, card in enumerate(cards)}


@pytest.mark.parametrize("told", [SLICES[1], CARDS[2]], ids=["slice", "its GPU"])
@pytest.mark.parametrize("variable", [SLICES[1], SLICES[1][:18]], ids=["whole", "beginning"])
def test_a_slice_is_known_by_its_own_uuid_whichever_cuda_tells(cuda, fake_nvml, told, variable):
    """A slice has its own memory, but the clock of its GPU."""
    fake_nvml.set("mig", 2, gpu=2)
    found = cuda.sees(variable, [told])
    (device,) = found.devices
    assert device.uuid == SLICES[1]
    assert clocks(found) == {"cuda:0": 1002.0}


def test_a_gpu_that_is_cut_into_slices_is_itself_where_none_is_named(cuda, fake_nvml):
    fake_nvml.set("mig", 2, gpu=2)
    assert [device.uuid for device in cuda.sees("2", [CARDS[2]]).devices] == [CARDS[2]]


def test_the_terminals_telemetry_names_the_gpus_at_work(cuda, machine):
    """The terminal lists every GPU in NVML's order, with torch's name for those in the run."""
    found = cuda.sees("3,1", [CARDS[3], CARDS[1]])
    rows = machine.rows()
    assert [row.uuid for row in rows] == CARDS[::-1]
    assert [torch_names(row, found.devices) for row in rows] == [("cuda:0",), (), ("cuda:1",), ()]


def test_copies_are_timed_between_the_visible_gpus_alone(cuda, tmp_path):
    del tmp_path
    found = cuda.sees("3,1", [CARDS[3], CARDS[1]], "auto")
    assert [(device.name, device.uuid) for device in found.peers()] == [("cuda:0", CARDS[3]), ("cuda:1", CARDS[1])]
