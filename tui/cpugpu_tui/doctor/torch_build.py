"""Checks of torch: whether it can be imported, whether its build fits the driver, whether it sees what NVML sees."""

from __future__ import annotations

import shlex

from cpugpu_tui.doctor.driver import version_text
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
