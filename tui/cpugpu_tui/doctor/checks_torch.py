"""Checks of torch and of CUDA's variables: whether the build fits the driver, and which GPUs are left visible.

CUDA reads CUDA_VISIBLE_DEVICES from the left and stops at the first entry that names nothing, without a word; entries
are numbers in CUDA's order, or UUIDs (`GPU-…`, `MIG-…`) of which the beginning is enough. Sets of both kinds do not
mix. CUDA_DEVICE_ORDER says in which order it counts.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from cpugpu_tui.doctor.checks_gpu import count_text, known_name, version_text
from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, fail, ok, sentences, unknown, warn
from cpugpu_tui.model import Device

_MADE_UP = "a simulated machine: torch is not needed"
_NOT_ASKED = "not judged: torch could not be asked"
_WHERE = "Name an interpreter whose torch is whole with --python PATH, or install torch again there."


def importable(facts: Facts) -> Finding:
    """Judge whether an agent of the wanted interpreter comes up and can import torch."""
    environment = facts.agent.environment
    if environment is None:
        return fail("No agent came up.", facts.agent.problem, _better(facts) or facts.agent.remedy)
    if facts.simulated:
        return ok(_MADE_UP)
    interpreter = f"Python {environment.get('python')} at {environment.get('interpreter')}"
    error = environment.get("torch_error")
    if error:
        return fail(f"{interpreter} cannot import torch.", f"It raised {error}.", _better(facts) or _WHERE)
    return ok(f"torch {environment.get('torch')} in {interpreter}, imported in {environment['torch_import_s']:.1f} s")


def build(facts: Facts) -> Finding:
    """Judge the rule of the first publication (publications.md, P1): the CUDA of the torch build must fit the driver.

    Within one major version a newer minor one works too, as long as nothing has to be compiled from PTX (NVIDIA's
    minor version compatibility); across major versions nothing does, unless a compatibility package is installed,
    which shows in torch seeing the GPU.
    """
    environment = facts.agent.environment or {}
    name = environment.get("torch")
    if facts.simulated:
        return ok(_MADE_UP)
    if not name:
        return unknown(_NOT_ASKED)
    built, supported = cuda_version(environment.get("torch_cuda")), facts.driver.setup.cuda
    has_gpu = bool(facts.driver.gpus) or facts.driver.has_hardware
    if built is None:
        return _without_cuda(str(name), facts, has_gpu=has_gpu)
    if supported is None:
        found = f"built for CUDA {version_text(built)}"
        return (
            unknown(f"{found}; which one the driver supports is not known")
            if has_gpu
            else ok(f"{found}; there is no driver to fit")
        )
    found = f"torch is built for CUDA {version_text(built)}, the driver supports up to {version_text(supported)}"
    remedy = f"Update the driver, or install a torch that is built for CUDA {version_text(supported)} or older."
    if built[0] > supported[0] and not facts.agent.gpus:
        return fail(found, "A driver runs no CUDA of a newer major version.", _better(facts) or remedy)
    if built > supported:
        return warn(found, "It works as long as no kernel has to be compiled when it is first used.", remedy)
    return ok(found)


def _better(facts: Facts) -> str:
    """Return the remedy of an interpreter that can do more; empty if none was found."""
    found = facts.better_python
    return "" if found is None else f"Use --python {shlex.quote(found.path)}, or --python auto: it {found.able}."


def _without_cuda(name: str, facts: Facts, *, has_gpu: bool) -> Finding:
    if not has_gpu:
        return ok(f"torch {name} has no CUDA, and there is no GPU")
    return fail(
        f"torch {name} is not built for CUDA, and there is an NVIDIA GPU.",
        "This build can use the CPU only.",
        _better(facts) or "Install a CUDA build of torch, or name an interpreter that has one with --python PATH.",
    )


def cuda_version(text: object) -> tuple[int, int] | None:
    """Return (13, 0) for `13.0`; None for anything else, and for a build without CUDA."""
    major, _, minor = str(text or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def devices(facts: Facts) -> Finding:
    """Judge whether torch can use the GPUs that the driver lists; they are matched by UUID, never by number."""
    agent, listed = facts.agent, facts.driver.gpus
    if agent.devices is None:
        if agent.environment is None or agent.environment.get("torch_error"):
            return unknown(_NOT_ASKED)
        if agent.spared:
            return unknown(f"not judged: {agent.problem}")
        return fail("CUDA did not say which GPUs there are.", agent.problem, agent.remedy)
    if not agent.gpus:
        if facts.simulated:
            return ok("the simulated machine has no GPU")
        if facts.driver.hides_gpus:
            return unknown("torch finds no GPU that it can use; see the check `driver`")
        if not listed:
            return ok("torch and the driver agree that there is no GPU")
        cause, remedy = sentences(agent.no_gpu or "CUDA finds no usable GPU.")
        return fail("torch can use none of the driver's GPUs.", cause, _better(facts) or remedy)
    index_of = {gpu.uuid: f"NVML {gpu.index}" for gpu in listed}
    index_of |= {slice_.uuid: f"NVML {gpu.index}, slice {slice_.index}" for gpu in listed for slice_ in gpu.instances}
    found = "; ".join(f"{device.name} {device.label} = {_where(device, index_of)}" for device in agent.gpus)
    strangers = [device.name for device in agent.gpus if device.uuid not in index_of and not device.simulated]
    if strangers:
        return warn(
            found,
            f"{', '.join(strangers)}: not among the GPUs that can be watched, so their results carry no telemetry.",
            "See what the checks of the driver say; in a container, give it the driver's `utility` capability too.",
        )
    return ok(found)


def _where(device: Device, index_of: dict[str | None, str]) -> str:
    return "made up" if device.simulated else index_of.get(device.uuid, "unknown to NVML")


# -------------------------------------------------------------------- cuda visibility


VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
_UNSET = f"Unset {VISIBLE}, or name GPUs that exist (`cpugpu-tui devices` lists them)."
_SCHEDULERS_NONE = "NoDevFiles"
"""What Slurm writes for a job that was given no GPU."""


@dataclass(frozen=True)
class Visible:
    """How CUDA reads a list."""

    entries: tuple[str, ...]
    """Those that count."""
    problem: str = ""
    """Why it stopped before the end, one sentence; empty when it did not."""


def read_list(text: str, uuids: Sequence[str], slices: Sequence[str]) -> Visible:
    """Return how CUDA reads a list, where the driver lists GPUs of these UUIDs and these of MIG slices."""
    entries: list[str] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry in entries:
            return Visible((), f"{entry!r} is named twice, and CUDA then shows no GPU at all.")
        problem = _refusal(entry, entries, uuids, slices)
        if problem:
            return Visible(tuple(entries), problem)
        entries.append(entry)
    if sum(entry.startswith("MIG-") for entry in entries) > 1:
        return Visible(tuple(entries[:1]), "A process is given one MIG slice only, the first of the list.")
    return Visible(tuple(entries))


def _refusal(entry: str, before: Sequence[str], uuids: Sequence[str], slices: Sequence[str]) -> str:
    """Return why an entry ends the list, empty if it does not."""
    named = entry.startswith(("GPU-", "MIG-"))
    if before and (entry.isdecimal() or named) and entry.isdecimal() != before[0].isdecimal():
        return f"{entry!r} is not of the kind of the entries before it, and numbers and UUIDs do not mix."
    if entry.isdecimal():
        return "" if int(entry) < len(uuids) else f"There is no GPU {entry}: the driver lists {count_text(len(uuids))}."
    if entry.startswith("MIG-GPU-"):
        # MIG-GPU-<uuid>/<gpu instance>/<compute instance>: the form of drivers before 470.
        parent = entry.removeprefix("MIG-").partition("/")[0]
        return "" if parent in uuids else f"No GPU has the UUID of {entry!r}."
    if named:
        matches = [uuid for uuid in (*uuids, *slices) if uuid.lower().startswith(entry.lower())]
        if len(matches) > 1:
            return f"{entry!r} is the beginning of {len(matches)} UUIDs."
        return "" if matches else f"No GPU has the UUID {entry!r}."
    return f"{entry!r} names no GPU."


def visible(facts: Facts) -> Finding:
    """Judge CUDA_VISIBLE_DEVICES against what the driver lists."""
    text = facts.environ.get(VISIBLE)
    gpus = facts.driver.gpus
    if text is None:
        return ok(f"{VISIBLE} is not set: every GPU is visible")
    found = f"{VISIBLE}={text}"
    if not gpus:
        said = f"{found}, and the driver lists no GPU"
        return unknown(said) if facts.driver.hides_gpus else ok(said)
    if not text.strip() or text.strip() == "-1" or text.strip() == _SCHEDULERS_NONE:
        cause = "The job was given no GPU." if text.strip() == _SCHEDULERS_NONE else "It hides every GPU."
        return warn(found, cause, f"Unset {VISIBLE} to time a GPU, or ask the scheduler for one.")
    uuids = [gpu.uuid or "" for gpu in gpus]
    slices = [slice_.uuid for gpu in gpus for slice_ in gpu.instances if slice_.uuid]
    read = read_list(text, uuids, slices)
    if read.problem and not read.entries:
        return fail(found, f"{read.problem} No GPU is left.", _UNSET)
    if read.problem:
        return warn(found, f"{read.problem} Only {', '.join(read.entries)} count.", _UNSET)
    return ok(f"{found}: {count_text(len(read.entries))} of {len(gpus)} visible" if not slices else found)


def order(facts: Facts) -> Finding:
    """Judge CUDA_DEVICE_ORDER: CUDA counts the fastest GPU first, NVML and nvidia-smi by their place on the bus."""
    text = facts.environ.get(ORDER)
    found = f"{ORDER} is not set" if text is None else f"{ORDER}={text}"
    kinds = {known_name(gpu) for gpu in facts.driver.gpus} - {""}
    alike = len(kinds) == 1 and all(known_name(gpu) for gpu in facts.driver.gpus)
    remedy = f"Set {ORDER}=PCI_BUS_ID before other tools are compared with ours; we match GPUs by UUID."
    if text not in (None, "PCI_BUS_ID", "FASTEST_FIRST"):
        return warn(found, "CUDA knows PCI_BUS_ID and FASTEST_FIRST, and takes anything else for the latter.", remedy)
    if len(kinds) > 1 and text != "PCI_BUS_ID":
        return warn(found, "The GPUs differ, so CUDA's cuda:0 need not be GPU 0 of nvidia-smi.", remedy)
    return ok(found if text else f"{found}; CUDA and NVML count alike here" if alike else found)
