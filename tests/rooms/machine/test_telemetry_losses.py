"""GPUs and drivers that are lost, forbidden, missing or broken: each has a cause and a remedy."""

import pynvml
import pytest
from tests.helpers.machine.fake_nvml_library import (
    HEALTHY,
    LOST,
    NO_PERMISSION,
    RESET_REQUIRED,
    UNKNOWN,
    reasons,
    rows_of,
    values,
)

from cpugpu_tui.machine.nvml.session import SLOW_S
from cpugpu_tui.machine.nvml.values import KEYS

# ------------------------------------------------------------------ whole GPUs


@pytest.mark.parametrize(
    ("code", "reason"),
    [(NO_PERMISSION, "no-permission"), (LOST, "gpu-lost"), (RESET_REQUIRED, "gpu-lost"), (UNKNOWN, "unknown")],
)
def test_a_gpu_that_cannot_be_opened_keeps_its_row(library, nvml, code, reason, words):
    library.gpus[1].dead = code
    healthy, broken = rows_of(nvml)
    assert values(healthy) == HEALTHY
    assert (broken.index, broken.name, broken.uuid) == (1, "GPU 1", None)
    words(broken.problem)
    assert reasons(broken, KEYS) == dict.fromkeys(KEYS, reason)


def test_a_gpu_lost_in_mid_run_keeps_its_name_and_comes_back(library, nvml, clock):
    before = rows_of(nvml)[1]
    library.gpus[1].dead = LOST
    clock.now_s += 1
    healthy, lost = rows_of(nvml)
    assert values(healthy) == HEALTHY
    assert (lost.name, lost.uuid, lost.pci_bus_id) == (before.name, before.uuid, before.pci_bus_id)
    assert lost.problem is not None
    assert lost.processes is None
    assert reasons(lost, KEYS) == dict.fromkeys(KEYS, "gpu-lost")

    library.gpus[1].dead = 0
    clock.now_s += SLOW_S
    assert rows_of(nvml)[1] == before
    assert library.names().count("nvmlShutdown") == 0, "the healthy GPU's session was not touched"


def test_the_only_gpu_lost_comes_back_in_a_new_session(library, nvml, clock):
    del library.gpus[1]
    (before,) = rows_of(nvml)
    library.gpus[0].dead = LOST
    clock.now_s += 1
    (lost,) = rows_of(nvml)
    assert lost.name == before.name
    library.gpus[0].dead = 0
    clock.now_s += SLOW_S
    (back,) = rows_of(nvml)
    assert back == before
    assert (library.names().count("nvmlInitWithFlags"), library.open_sessions) == (2, 1)


def test_a_gpu_that_the_driver_drops_keeps_its_row(library, nvml, clock):
    rows_of(nvml)
    library.driver_gone = True
    clock.now_s += 1
    nvml.read()
    clock.now_s += SLOW_S
    dropped = library.gpus.pop()
    healthy, row = rows_of(nvml)
    assert values(healthy) == HEALTHY
    assert row.uuid == dropped.uuid.decode()
    assert "no longer lists" in row.problem


# ------------------------------------------------------------------ the driver


@pytest.mark.parametrize(
    ("code", "cause", "remedy"),
    [
        (9, "not loaded", "modprobe nvidia"),
        (18, "updated", "Reboot"),
        (NO_PERMISSION, "No permission", "/dev/nvidiactl"),
        (UNKNOWN, "Unknown Error", "nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_start_has_a_cause_and_a_remedy_and_is_tried_again(
    library, nvml, clock, code, cause, remedy
):
    library.init_code = code
    rows, problem = nvml.read()
    assert rows == ()
    assert cause in problem
    assert remedy in problem
    assert problem.count(". ") == 1, "one sentence of cause, one of remedy"

    library.init_code = 0
    clock.now_s += SLOW_S / 2
    assert nvml.read() == ((), problem), "not tried at every sweep"
    clock.now_s += SLOW_S
    assert values(rows_of(nvml)[0]) == HEALTHY


def test_no_driver_at_all(monkeypatch, library, nvml, words):
    def no_library(name):
        raise OSError(name)

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", no_library)
    rows, problem = nvml.read()
    assert rows == ()
    words(problem)


def test_a_driver_without_gpus(library, nvml, clock, words):
    library.count = 0
    rows, problem = nvml.read()
    assert rows == ()
    words(problem)
    library.count = None
    clock.now_s += SLOW_S
    assert len(rows_of(nvml)) == 2


def test_a_driver_unloaded_in_mid_run_is_found_again(library, nvml, clock):
    before = rows_of(nvml)
    library.driver_gone = True
    clock.now_s += 1
    rows, _ = nvml.read()
    assert {reason for row in rows for reason in reasons(row).values()} == {"no-driver"}
    assert all(reading.value is None or reading.age_s > 0 for row in rows for reading in row.readings.values())
    library.init_code = 9
    clock.now_s += SLOW_S
    rows, problem = nvml.read()
    assert rows == ()
    assert "not loaded" in problem
    library.init_code = 0
    clock.now_s += SLOW_S
    assert rows_of(nvml) == before
