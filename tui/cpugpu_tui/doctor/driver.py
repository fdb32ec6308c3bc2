"""Checks of the NVIDIA driver: whether it runs, and whether each GPU answers."""

from __future__ import annotations

from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, fail, ok, sentences, unknown, warn, worst
from cpugpu_tui.machine.nvml.returns import LIBRARY_MISSING
from cpugpu_tui.model import GpuTelemetry

NOT_LISTED = "not judged: the driver does not say which GPUs there are"


def driver(facts: Facts) -> Finding:
    """Judge whether NVML can be opened; its codes 9, 12, 18 and 4 have a sentence each."""
    found = facts.driver
    if found.problem is None:
        cuda = "" if found.setup.cuda is None else f", CUDA {version_text(found.setup.cuda)}"
        return ok(f"NVIDIA driver {found.setup.version or 'of unknown version'}{cuda}, {count_text(len(found.gpus))}")
    cause, remedy = sentences(found.problem)
    if found.setup.init_code == LIBRARY_MISSING and found.has_hardware:
        return fail(
            "An NVIDIA GPU is on the PCI bus, and no driver.",
            cause,
            "Install the NVIDIA driver; in a container, start it with access to the GPU.",
        )
    if found.setup.init_code == LIBRARY_MISSING:  # no fault on a machine without a GPU
        return warn("No NVIDIA GPU and no driver: CPU results only.", cause, remedy)
    if found.setup.init_code is None and not found.gpus and not found.has_hardware:
        return warn("No GPU that can be watched.", cause, remedy)
    return fail("The driver cannot be used.", cause, remedy)


def gpus_answer(facts: Facts) -> Finding:
    """Judge whether every GPU that the driver lists can be read: one that is lost hides no other."""
    if not facts.driver.gpus:
        return unknown(NOT_LISTED) if facts.driver.hides_gpus else ok("no GPU to ask")
    return worst({f"GPU {gpu.index}": _answer(gpu) for gpu in facts.driver.gpus})


def _answer(gpu: GpuTelemetry) -> Finding:
    name = f"GPU {gpu.index} {known_name(gpu)}".rstrip()
    if gpu.problem is None:
        return ok(f"{name} answers")
    return fail(f"{name} does not answer", *sentences(gpu.problem))


def known_name(gpu: GpuTelemetry) -> str:
    """Return the name of a GPU, empty for one that never answered: it has its number for a name."""
    return "" if gpu.name == f"GPU {gpu.index}" else gpu.name


def version_text(version: tuple[int, int]) -> str:
    """Return `13.0` for (13, 0)."""
    return f"{version[0]}.{version[1]}"


def count_text(gpus: int) -> str:
    """Return `1 GPU` or `8 GPUs`."""
    return f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"
