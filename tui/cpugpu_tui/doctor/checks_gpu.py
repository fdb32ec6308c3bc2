"""Checks of the NVIDIA driver and of its GPUs; one line for all GPUs, with the worst verdict of them."""

from __future__ import annotations

from collections.abc import Callable

from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, fail, ok, sentences, unknown, warn, worst
from cpugpu_tui.machine.nvml.returns import LIBRARY_MISSING
from cpugpu_tui.model import GpuProcess, GpuTelemetry
from cpugpu_tui.telemetry.reasons import REASONS

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


# -------------------------------------------------------------------- gpus


LOADED_PCT = 50.0
"""From this share of kernel-active time on a PCIe generation is judged: idle cards lower it to save power."""
_HAS_NONE = ("not-supported", "mig")
"""Reasons that tell that there is nothing to judge; all others leave it open."""


def _each(facts: Facts, judge: Callable[[GpuTelemetry], Finding]) -> Finding:
    if not facts.driver.gpus:
        return unknown(NOT_LISTED) if facts.driver.hides_gpus else ok("no GPU to judge")
    return worst({f"GPU {gpu.index}": judge(gpu) if gpu.problem is None else _mute(gpu) for gpu in facts.driver.gpus})


def _mute(gpu: GpuTelemetry) -> Finding:
    return unknown(f"GPU {gpu.index}: not judged, it does not answer")


def _value(gpu: GpuTelemetry, key: str) -> float | None:
    reading = gpu.readings.get(key)
    return None if reading is None else reading.value


def _reason(gpu: GpuTelemetry, key: str) -> str:
    reading = gpu.readings.get(key)
    return "not-yet" if reading is None else reading.reason or "unknown"


def _without(gpu: GpuTelemetry, key: str) -> Finding:
    """Return that a number is not there: fine where this GPU has none, else not judged."""
    reason = _reason(gpu, key)
    found = f"GPU {gpu.index}: {REASONS.get(reason, reason)}"
    return ok(found) if reason in _HAS_NONE else unknown(found)


def persistence(facts: Facts) -> Finding:
    """Judge persistence mode: without it every first client waits for the driver to wake the GPU."""

    def judge(gpu: GpuTelemetry) -> Finding:
        if gpu.persistence is None:
            return unknown(f"GPU {gpu.index}: cannot be told")
        if gpu.persistence:
            return ok(f"GPU {gpu.index}: on")
        return warn(
            f"GPU {gpu.index}: off",
            "The driver unloads the GPU when nobody uses it: the first call takes seconds, and counters begin again.",
            f"An administrator can turn it on: nvidia-smi -i {gpu.index} -pm 1.",
        )

    return _each(facts, judge)


def clocks(facts: Facts) -> Finding:
    """Judge whether somebody set the clocks below what the card offers by itself."""
    settings = {setting.index: setting for setting in facts.driver.setup.clocks}

    def judge(gpu: GpuTelemetry) -> Finding:
        setting = settings.get(gpu.index)
        set_mhz = None if setting is None else setting.set_mhz
        usual_mhz = None if setting is None else setting.default_mhz or setting.max_mhz
        lowered = set_mhz is not None and usual_mhz is not None and set_mhz < usual_mhz
        if lowered or "app-clocks" in gpu.throttle:
            held = f"at {set_mhz} MHz (usual: {usual_mhz} MHz)" if lowered else "by a setting"
            return warn(
                f"GPU {gpu.index}: clock held {held}",
                "Times repeat well but are slower than this card can do.",
                f"If that is not wanted: nvidia-smi -i {gpu.index} -rac, and -rgc for locked clocks.",
            )
        return ok(f"GPU {gpu.index}: clock is free; each result says what it was")

    return _each(facts, judge)


def mig(facts: Facts) -> Finding:
    """Say which GPUs are cut into slices: what is asked of a slice is answered for the board, or not at all."""

    def judge(gpu: GpuTelemetry) -> Finding:
        if not gpu.instances and gpu.readings and _reason(gpu, "kernel_active_pct") != "mig":
            return ok(f"GPU {gpu.index}: whole")
        return warn(
            f"GPU {gpu.index}: in MIG mode, {len(gpu.instances)} slices",
            "Power, temperature and energy are the whole board's, others' slices included; utilisation is not told.",
            f"To time the whole card, an administrator turns it off: nvidia-smi -i {gpu.index} -mig 0.",
        )

    return _each(facts, judge)


def ecc(facts: Facts) -> Finding:
    """Judge memory errors since the driver was loaded."""

    def judge(gpu: GpuTelemetry) -> Finding:
        uncorrected, corrected = (_value(gpu, f"ecc_{kind}_count") for kind in ("uncorrected", "corrected"))
        if uncorrected:
            return fail(
                f"GPU {gpu.index}: {uncorrected:.0f} uncorrected errors",
                "Results computed since then may be wrong.",
                "Look for Xid errors in dmesg, reset the GPU, and have it exchanged if they come back.",
            )
        if corrected:
            return warn(
                f"GPU {gpu.index}: {corrected:.0f} corrected errors",
                "Results are right, but the memory is wearing out or too hot.",
                "Watch whether the count grows: cpugpu-tui telemetry.",
            )
        if uncorrected is None:
            return _without(gpu, "ecc_uncorrected_count")
        return ok(f"GPU {gpu.index}: none")

    return _each(facts, judge)


def pcie(facts: Facts) -> Finding:
    """Judge the PCIe link against what card and slot can do together; its generation under load only."""

    def judge(gpu: GpuTelemetry) -> Finding:
        keys = ("pcie_generation", "pcie_width", "pcie_max_generation", "pcie_max_width")
        generation, width, max_generation, max_width = (_value(gpu, key) for key in keys)
        if generation is None or width is None or max_generation is None or max_width is None:
            return _without(gpu, next(key for key in keys if _value(gpu, key) is None))
        now = f"GPU {gpu.index}: gen {generation:.0f} x{width:.0f}"
        if generation >= max_generation and width >= max_width:
            return ok(now)
        less = f"{now} of gen {max_generation:.0f} x{max_width:.0f}"
        active_pct = _value(gpu, "kernel_active_pct")
        loaded = active_pct is not None and active_pct >= LOADED_PCT
        # Lanes do not go to sleep with the card: fewer of them are a slot, a riser or a fault.
        if width >= max_width and not loaded:
            return ok(f"{less} (the generation is judged under load only)")
        return warn(
            f"{less}, under load" if loaded else less,
            "Copies between host and GPU are slower than this card can do.",
            "Look at the slot, the riser and the BIOS; a card beside it may share its lanes.",
        )

    return _each(facts, judge)


def processes(facts: Facts) -> Finding:
    """Judge whether somebody else is on the GPUs: their work is in our times."""

    def judge(gpu: GpuTelemetry) -> Finding:
        everyone = gpu.everyone
        if everyone is None:
            return unknown(f"GPU {gpu.index}: processes cannot be listed")
        others = [process for process in everyone if not process.own]
        if not others:
            return ok(f"GPU {gpu.index}: nobody else")
        return warn(
            f"GPU {gpu.index}: {', '.join(map(process_text, others))}",
            "Others' kernels run between ours: times are longer and spread wider.",
            "Wait until they are done, or choose another GPU with --device cuda:N.",
        )

    return _each(facts, judge)


def process_text(process: GpuProcess) -> str:
    """Return user, command, pid and memory of a process; one of another namespace is shown, not hidden."""
    if process.command is None and process.user is None:
        who = f"pid {process.pid} (outside namespace)"
    else:
        who = f"{process.user or '?'}: {process.command or '?'} (pid {process.pid})"
    return who if process.memory_bytes is None else f"{who} {process.memory_bytes / 2**30:.1f} GiB"
