"""Checks of the NVIDIA driver and its GPUs. Each check is one line for all GPUs, with the worst verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from cpugpu_tui.doctor.facts import Facts, Finding, fail, ok, sentences, unknown, warn, worst
from cpugpu_tui.machine.nvml.calls import LIBRARY_MISSING
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import GpuProcess, GpuTelemetry
from cpugpu_tui.model.quantities import count_of

NOT_LISTED = "not judged: the driver does not list its GPUs"


def driver(facts: Facts) -> Finding:
    """Judge whether NVML can be opened."""
    found = facts.driver
    if found.problem is None:
        cuda = "" if found.setup.cuda is None else f", CUDA {version_text(found.setup.cuda)}"
        gpus = count_of(len(found.gpus), "GPU")
        return ok(f"NVIDIA driver {found.setup.version or 'of unknown version'}{cuda}, {gpus}")
    cause, remedy = sentences(found.problem)
    if found.setup.init_code == LIBRARY_MISSING and found.has_hardware:
        return fail(
            "This machine has an NVIDIA GPU but no driver.",
            cause,
            "Install the NVIDIA driver. In a container, start the container with access to the GPU.",
        )
    if found.setup.init_code == LIBRARY_MISSING:  # not a failure on a machine without a GPU
        return warn("No NVIDIA GPU and no driver found: CPU results only.", cause, remedy)
    if found.setup.init_code is None and not found.gpus and not found.has_hardware:
        return warn("No GPU can be monitored.", cause, remedy)
    return fail("The NVIDIA driver cannot be used.", cause, remedy)


def gpus_answer(facts: Facts) -> Finding:
    """Judge whether every GPU that the driver lists can be read."""
    if not facts.driver.gpus:
        return unknown(NOT_LISTED) if facts.driver.hides_gpus else ok("no GPU")
    return worst({f"GPU {gpu.index}": _answer(gpu) for gpu in facts.driver.gpus})


def _answer(gpu: GpuTelemetry) -> Finding:
    name = f"GPU {gpu.index} {known_name(gpu)}".rstrip()
    if gpu.problem is None:
        return ok(f"{name} answers")
    return fail(f"{name} does not answer", *sentences(gpu.problem))


def known_name(gpu: GpuTelemetry) -> str:
    """Return the name of a GPU; empty for one that never answered, whose name is only its number."""
    return "" if gpu.name == f"GPU {gpu.index}" else gpu.name


def version_text(version: tuple[int, int]) -> str:
    """Return `13.0` for (13, 0)."""
    return f"{version[0]}.{version[1]}"


# -------------------------------------------------------------------- gpus


LOADED_PCT = 50.0
"""The PCIe generation is judged from this utilisation: idle GPUs lower it to save power."""
_HAS_NONE = ("not-supported", "mig")
"""Reasons that mean there is nothing to judge; with any other reason the check is not judged."""


def of_each_gpu(judge: Callable[[GpuTelemetry], Finding]) -> Callable[[Facts], Finding]:
    """Make a check of all GPUs out of one that judges a GPU."""

    @wraps(judge)
    def check(facts: Facts) -> Finding:
        if not facts.driver.gpus:
            return unknown(NOT_LISTED) if facts.driver.hides_gpus else ok("no GPU")
        mute = unknown("not judged, because it does not answer")
        found = {f"GPU {gpu.index}": judge(gpu) if gpu.problem is None else mute for gpu in facts.driver.gpus}
        return worst({name: replace(each, found=f"{name}: {each.found}") for name, each in found.items()})

    return check


def _value(gpu: GpuTelemetry, key: str) -> float | None:
    reading = gpu.readings.get(key)
    return None if reading is None else reading.value


def _reason(gpu: GpuTelemetry, key: str) -> str:
    reading = gpu.readings.get(key)
    return "not-yet" if reading is None else reading.reason or "unknown"


def _without(gpu: GpuTelemetry, key: str) -> Finding:
    """Return the finding for a missing value: ok if this GPU has no such value, else not judged."""
    reason = _reason(gpu, key)
    found = REASONS.get(reason, reason)
    return ok(found) if reason in _HAS_NONE else unknown(found)


@of_each_gpu
def persistence(gpu: GpuTelemetry) -> Finding:
    """Judge persistence mode. Without it the first program waits until the driver has started the GPU."""
    if gpu.persistence is None:
        return unknown("persistence mode is unknown")
    if gpu.persistence:
        return ok("persistence mode is on")
    return warn(
        "persistence mode is off",
        "The driver shuts an unused GPU down, so the first call takes seconds and counters restart.",
        f"Turn it on as root: nvidia-smi -i {gpu.index} -pm 1.",
    )


def clocks(facts: Facts) -> Finding:
    """Judge whether the clocks were set below their default."""
    settings = {setting.index: setting for setting in facts.driver.setup.clocks}

    def judge(gpu: GpuTelemetry) -> Finding:
        setting = settings.get(gpu.index)
        set_mhz = None if setting is None else setting.set_mhz
        usual_mhz = None if setting is None else setting.default_mhz or setting.max_mhz
        lowered = set_mhz is not None and usual_mhz is not None and set_mhz < usual_mhz
        if lowered or "app-clocks" in gpu.throttle:
            limit = f"to {set_mhz} MHz (default: {usual_mhz} MHz)" if lowered else "by a setting"
            return warn(
                f"clock limited {limit}",
                "Times are repeatable, but slower than this GPU can be.",
                f"To lift the limit: nvidia-smi -i {gpu.index} -rac (application clocks) or -rgc (locked clocks).",
            )
        return ok("clock is not limited; each result records it")

    return of_each_gpu(judge)(facts)


@of_each_gpu
def mig(gpu: GpuTelemetry) -> Finding:
    """Report GPUs in MIG mode: most readings of a slice are those of the whole GPU, or missing."""
    if not gpu.instances and gpu.readings and _reason(gpu, "kernel_active_pct") != "mig":
        return ok("MIG mode is off")
    return warn(
        f"MIG mode is on, with {count_of(len(gpu.instances), 'slice')}",
        "Power, temperature and energy are those of the whole GPU. Utilisation is not reported.",
        f"To time the whole GPU, turn MIG off as root: nvidia-smi -i {gpu.index} -mig 0.",
    )


@of_each_gpu
def ecc(gpu: GpuTelemetry) -> Finding:
    """Judge the memory errors since the driver was loaded."""
    uncorrected, corrected = (_value(gpu, f"ecc_{kind}_count") for kind in ("uncorrected", "corrected"))
    if uncorrected:
        return fail(
            count_of(uncorrected, "uncorrected memory error"),
            "Results since the driver was loaded may be wrong.",
            "Look for Xid errors in dmesg and reset the GPU. If errors return, have it replaced.",
        )
    if corrected:
        return warn(
            count_of(corrected, "corrected memory error"),
            "Results are correct, but the memory is wearing out or too hot.",
            "Check whether the count grows: cpugpu-tui telemetry.",
        )
    if uncorrected is None:
        return _without(gpu, "ecc_uncorrected_count")
    return ok("no memory errors")


@of_each_gpu
def pcie(gpu: GpuTelemetry) -> Finding:
    """Compare the PCIe link with the best that GPU and slot support; the generation is judged under load only."""
    keys = ("pcie_generation", "pcie_width", "pcie_max_generation", "pcie_max_width")
    generation, width, max_generation, max_width = (_value(gpu, key) for key in keys)
    if generation is None or width is None or max_generation is None or max_width is None:
        return _without(gpu, next(key for key in keys if _value(gpu, key) is None))
    now = f"gen {generation:.0f} x{width:.0f}"
    if generation >= max_generation and width >= max_width:
        return ok(now)
    less = f"{now}, of at most gen {max_generation:.0f} x{max_width:.0f}"
    active_pct = _value(gpu, "kernel_active_pct")
    loaded = active_pct is not None and active_pct >= LOADED_PCT
    # An idle GPU lowers its generation but keeps its lanes: missing lanes are a slot, a riser or a fault.
    if width >= max_width and not loaded:
        return ok(f"{less} (the generation is only judged under load)")
    return warn(
        f"{less}, under load" if loaded else less,
        "Copies between host and GPU are slower than this GPU supports.",
        "Check the slot, the riser and the BIOS; another card may share its lanes.",
    )


@of_each_gpu
def processes(gpu: GpuTelemetry) -> Finding:
    """Judge whether other processes use the GPUs, because they slow our calls."""
    everyone = gpu.everyone
    if everyone is None:
        return unknown("its processes cannot be listed")
    others = [process for process in everyone if not process.own]
    if not others:
        return ok("no other processes")
    return warn(
        ", ".join(map(process_text, others)),
        "Other processes share the GPU, so times are longer and vary more.",
        "Wait until they end, or choose another GPU with --device cuda:N.",
    )


def process_text(process: GpuProcess) -> str:
    """Return user, command, pid and memory of a process; only the pid is known outside our namespace."""
    if process.command is None and process.user is None:
        who = f"pid {process.pid} (outside namespace)"
    else:
        who = f"{process.user or '?'}: {process.command or '?'} (pid {process.pid})"
    return who if process.memory_bytes is None else f"{who} {process.memory_bytes / 2**30:.1f} GiB"
