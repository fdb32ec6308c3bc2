"""Checks of torch and CUDA's variables: whether the build fits the driver, and which GPUs are visible.

CUDA reads CUDA_VISIBLE_DEVICES from the left and silently stops at the first invalid entry. Entries are numbers in
CUDA's order, or UUIDs (`GPU-…`, `MIG-…`) or unique beginnings of them. A list holds numbers or UUIDs, not both.
CUDA_DEVICE_ORDER sets the order.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cpugpu_tui.analysis.ceilings import clock_text
from cpugpu_tui.doctor.checks_gpu import known_name, version_text
from cpugpu_tui.doctor.facts import Facts, Finding, fail, ok, sentences, unknown, warn, worst
from cpugpu_tui.model import Device, EventClock
from cpugpu_tui.model.quantities import count_of

_SIMULATED = "not needed: the machine is simulated"
_NOT_ASKED = "not judged: torch could not be imported"
_WHERE = "Install torch in this interpreter, or choose another interpreter with --python PATH."


def importable(facts: Facts) -> Finding:
    """Judge whether an agent starts in the chosen interpreter and can import torch."""
    environment = facts.agent.environment
    if environment is None:
        return fail("The agent did not start.", facts.agent.problem, _better(facts) or facts.agent.remedy)
    if facts.simulated:
        return ok(_SIMULATED)
    interpreter = f"Python {environment.get('python')} at {environment.get('interpreter')}"
    error = environment.get("torch_error")
    if error:
        return fail(f"{interpreter} cannot import torch.", f"It raised {error}.", _better(facts) or _WHERE)
    return ok(f"torch {environment.get('torch')} in {interpreter}, imported in {environment['torch_import_s']:.1f} s")


def build(facts: Facts) -> Finding:
    """Judge whether the driver supports the CUDA version of the torch build (publications.md, P1).

    A newer minor version works unless kernels must be compiled from PTX (NVIDIA's minor version compatibility). A
    newer major version works only with a compatibility package; if one is installed, torch finds the GPU.
    """
    environment = facts.agent.environment or {}
    name = environment.get("torch")
    if facts.simulated:
        return ok(_SIMULATED)
    if not name:
        return unknown(_NOT_ASKED)
    built, supported = cuda_version(environment.get("torch_cuda")), facts.driver.setup.cuda
    has_gpu = bool(facts.driver.gpus) or facts.driver.has_hardware
    if built is None:
        return _without_cuda(str(name), facts, has_gpu=has_gpu)
    if supported is None:
        found = f"built for CUDA {version_text(built)}"
        return (
            unknown(f"torch is {found}; the version that the driver supports is unknown")
            if has_gpu
            else ok(f"torch is {found}; this machine has no driver")
        )
    found = f"torch is built for CUDA {version_text(built)}, the driver supports up to {version_text(supported)}"
    remedy = f"Update the driver, or install torch for CUDA {version_text(supported)} or older."
    if built[0] > supported[0] and not facts.agent.gpus:
        return fail(found, "A driver cannot run a newer major version of CUDA.", _better(facts) or remedy)
    if built > supported:
        return warn(found, "It works unless a kernel must be compiled at its first use.", remedy)
    return ok(found)


def _better(facts: Facts) -> str:
    """Return the remedy that names a better interpreter; empty if none was found."""
    found = facts.better_python
    return "" if found is None else f"Use --python {shlex.quote(found.path)}, or --python auto: it {found.able}."


def _without_cuda(name: str, facts: Facts, *, has_gpu: bool) -> Finding:
    if not has_gpu:
        return ok(f"torch {name} is a CPU build, which suits a machine without a GPU")
    return fail(
        f"torch {name} is a CPU build, but this machine has an NVIDIA GPU.",
        "A CPU build cannot use the GPU.",
        _better(facts) or "Install a CUDA build of torch, or choose an interpreter that has one with --python PATH.",
    )


def cuda_version(text: object) -> tuple[int, int] | None:
    """Return (13, 0) for `13.0`; None for anything else, and for a build without CUDA."""
    major, _, minor = str(text or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def devices(facts: Facts) -> Finding:
    """Judge whether torch can use the GPUs that the driver lists; GPUs are matched by UUID."""
    agent, listed = facts.agent, facts.driver.gpus
    if agent.devices is None:
        if agent.environment is None or agent.environment.get("torch_error"):
            return unknown(_NOT_ASKED)
        if agent.spared:
            return unknown(f"not judged: {agent.problem}")
        return fail("CUDA did not list its GPUs.", agent.problem, agent.remedy)
    if not agent.gpus:
        if facts.simulated:
            return ok("the simulated machine has no GPU")
        if facts.driver.hides_gpus:
            return unknown("torch finds no usable GPU; see the check `driver`")
        if not listed:
            return ok("no GPU, as the driver says too")
        cause, remedy = sentences(agent.no_gpu or "CUDA finds no usable GPU.")
        return fail("torch cannot use the GPUs that the driver lists.", cause, _better(facts) or remedy)
    index_of = {gpu.uuid: f"NVML {gpu.index}" for gpu in listed}
    index_of |= {slice_.uuid: f"NVML {gpu.index}, slice {slice_.index}" for gpu in listed for slice_ in gpu.instances}
    found = "; ".join(f"{device.name} {device.label}{_place(device, index_of)}" for device in agent.gpus)
    strangers = [device.name for device in agent.gpus if device.uuid not in index_of and not device.simulated]
    if strangers:
        return warn(
            found,
            f"The driver does not list {', '.join(strangers)}, so those results have no telemetry.",
            "See the checks `driver` and `driver.gpus`. In a container, add the driver capability `utility`.",
        )
    return ok(found)


def _place(device: Device, index_of: dict[str | None, str]) -> str:
    return "" if device.simulated else f" = {index_of.get(device.uuid, 'unknown to NVML')}"


def event_clocks(facts: Facts) -> Finding:
    """Judge the clocks that time kernels, which the agent has just checked."""
    agent = facts.agent
    if agent.devices is None:
        return unknown("not judged: CUDA did not list its GPUs")
    if not agent.gpus:
        return ok("no GPU")
    found = {device.name: _clock(agent.clocks.get(device.name)) for device in agent.gpus}
    return worst({name: replace(each, found=f"the event clock of {name} {each.found}") for name, each in found.items()})


def _clock(clock: EventClock | None) -> Finding:
    if clock is None:
        return unknown("not judged: the agent ended before the check")
    if clock.is_sound:
        return ok(clock_text(clock))
    cause = "Kernel times would be wrong. Rows have latency only; winners and crossover do not need that clock."
    return warn(clock_text(clock), cause, "Update the driver, or restart the machine. The next run checks again.")


# -------------------------------------------------------------------- cuda visibility


VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
_UNSET = f"Unset {VISIBLE}, or list GPUs that exist (see `cpugpu-tui devices`)."
_SCHEDULERS_NONE = "NoDevFiles"
"""What Slurm writes for a job without a GPU."""


@dataclass(frozen=True)
class Visible:
    """The entries of a list that CUDA uses."""

    entries: tuple[str, ...]
    """Entries before the first invalid one."""
    problem: str = ""
    """Why CUDA stops before the end, one sentence; empty if it does not."""


def read_list(text: str, uuids: Sequence[str], slices: Sequence[str]) -> Visible:
    """Return how CUDA reads a list, given the UUIDs of GPUs and MIG slices that the driver lists."""
    entries: list[str] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry in entries:
            return Visible((), f"{entry!r} is listed twice, so CUDA shows no GPU.")
        problem = _refusal(entry, entries, uuids, slices)
        if problem:
            return Visible(tuple(entries), problem)
        entries.append(entry)
    if sum(entry.startswith("MIG-") for entry in entries) > 1:
        return Visible(tuple(entries[:1]), "A process can use one MIG slice only, the first.")
    return Visible(tuple(entries))


def _refusal(entry: str, before: Sequence[str], uuids: Sequence[str], slices: Sequence[str]) -> str:
    """Return why CUDA stops at an entry; empty if it does not."""
    named = entry.startswith(("GPU-", "MIG-"))
    if before and (entry.isdecimal() or named) and entry.isdecimal() != before[0].isdecimal():
        return f"{entry!r} mixes numbers and UUIDs in one list."
    if entry.isdecimal():
        listed = count_of(len(uuids), "GPU")
        return "" if int(entry) < len(uuids) else f"GPU {entry} does not exist; the driver lists {listed}."
    if entry.startswith("MIG-GPU-"):
        # MIG-GPU-<uuid>/<gpu instance>/<compute instance>: the form of drivers before 470.
        parent = entry.removeprefix("MIG-").partition("/")[0]
        return "" if parent in uuids else f"No GPU has the UUID of {entry!r}."
    if named:
        matches = [uuid for uuid in (*uuids, *slices) if uuid.lower().startswith(entry.lower())]
        if len(matches) > 1:
            return f"{entry!r} is ambiguous: {len(matches)} UUIDs begin with it."
        return "" if matches else f"No GPU has the UUID {entry!r}."
    return f"{entry!r} is not a GPU number or UUID."


def visible(facts: Facts) -> Finding:
    """Judge CUDA_VISIBLE_DEVICES against what the driver lists."""
    text = facts.environ.get(VISIBLE)
    gpus = facts.driver.gpus
    if text is None:
        return ok(f"{VISIBLE} is not set: every GPU is visible")
    found = f"{VISIBLE}={text}"
    if not gpus:
        found = f"{found}; the driver lists no GPU"
        return unknown(found) if facts.driver.hides_gpus else ok(found)
    if not text.strip() or text.strip() == "-1" or text.strip() == _SCHEDULERS_NONE:
        cause = "The job has no GPU." if text.strip() == _SCHEDULERS_NONE else "It hides every GPU."
        return warn(found, cause, f"Unset {VISIBLE} to time a GPU, or request one from the scheduler.")
    uuids = [gpu.uuid or "" for gpu in gpus]
    slices = [slice_.uuid for gpu in gpus for slice_ in gpu.instances if slice_.uuid]
    read = read_list(text, uuids, slices)
    if read.problem and not read.entries:
        return fail(found, f"{read.problem} CUDA sees no GPU.", _UNSET)
    if read.problem:
        return warn(found, f"{read.problem} CUDA sees only {', '.join(read.entries)}.", _UNSET)
    return ok(f"{found}: {count_of(len(read.entries), 'GPU')} of {len(gpus)} visible" if not slices else found)


def order(facts: Facts) -> Finding:
    """Judge CUDA_DEVICE_ORDER: by default CUDA counts the fastest GPU first, NVML by bus position."""
    text = facts.environ.get(ORDER)
    found = f"{ORDER} is not set" if text is None else f"{ORDER}={text}"
    kinds = {known_name(gpu) for gpu in facts.driver.gpus} - {""}
    alike = len(kinds) == 1 and all(known_name(gpu) for gpu in facts.driver.gpus)
    remedy = f"Set {ORDER}=PCI_BUS_ID, so that all tools number GPUs alike. We match GPUs by UUID."
    if text not in (None, "PCI_BUS_ID", "FASTEST_FIRST"):
        return warn(found, "CUDA ignores values other than PCI_BUS_ID and FASTEST_FIRST.", remedy)
    if len(kinds) > 1 and text != "PCI_BUS_ID":
        return warn(found, "The GPUs differ, so cuda:0 may not be GPU 0 of nvidia-smi.", remedy)
    return ok(found if text else f"{found}; all GPUs are the same model" if alike else found)
