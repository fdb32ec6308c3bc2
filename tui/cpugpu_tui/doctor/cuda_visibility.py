"""Checks of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: what the variables leave visible, and in which order.

CUDA reads the list from the left and stops at the first entry that names nothing, without a word; entries are
numbers in CUDA's order, or UUIDs (`GPU-…`, `MIG-…`) of which the beginning is enough. Sets of both kinds do not mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cpugpu_tui.doctor.driver import count_text, known_name
from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, fail, ok, unknown, warn

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
