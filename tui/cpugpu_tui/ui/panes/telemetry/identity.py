"""Names of a GPU in torch, NVML and PCI. Their indices differ, so that GPUs are matched by UUID."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.model import Device, GpuTelemetry, MigInstance
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.telemetry.wording import bus_text, stranger

UUID_WIDTH = 13
"""Cells of `GPU-1234abcd…`: enough of a UUID for nvidia-smi and CUDA_VISIBLE_DEVICES."""


def torch_names(gpu: GpuTelemetry, devices: Sequence[Device]) -> tuple[str, ...]:
    """Return torch's names of this GPU and its MIG instances in this run: `cuda:0`."""
    uuids = {gpu.uuid, *(instance.uuid for instance in gpu.instances)} - {None}
    return tuple(device.name for device in devices if device.uuid in uuids)


def torch_name(uuid: str | None, devices: Sequence[Device]) -> str | None:
    """Return torch's name of the GPU or MIG instance with this UUID; None if the run does not use it."""
    return next((device.name for device in devices if uuid is not None and device.uuid == uuid), None)


def mapping(gpu: GpuTelemetry, devices: Sequence[Device], glyphs: Glyphs, *, full: bool = False) -> tuple[str, ...]:
    """Return the known parts of `cuda:0 ↔ NVML 3 ↔ GPU-1234abcd… ↔ 0000:04:00.0`."""
    name = torch_name(gpu.uuid, devices)
    parts = [name or "", f"NVML {gpu.index}"]
    if gpu.uuid is not None:
        parts.append(uuid_text(gpu.uuid, glyphs, full=full))
    if gpu.pci_bus_id is not None:
        parts.append(stranger(bus_text(gpu.pci_bus_id), 16, glyphs))
    return tuple(part for part in parts if part)


def instance_mapping(
    gpu: GpuTelemetry, instance: MigInstance, devices: Sequence[Device], glyphs: Glyphs, *, full: bool = False
) -> tuple[str, ...]:
    """Return the known parts of `cuda:0 ↔ MIG 1 of NVML 3 ↔ MIG-1234abcd…`."""
    name = torch_name(instance.uuid, devices)
    parts = [name or "", f"MIG {instance.index} of NVML {gpu.index}"]
    if instance.uuid is not None:
        parts.append(uuid_text(instance.uuid, glyphs, full=full))
    return tuple(part for part in parts if part)


def uuid_text(uuid: str, glyphs: Glyphs, *, full: bool = False) -> str:
    """Return a UUID, shortened unless `full`."""
    if full or len(uuid) <= UUID_WIDTH:
        return stranger(uuid, 80, glyphs)
    return stranger(uuid, UUID_WIDTH - 1, glyphs) + glyphs.ellipsis


def joined(parts: Sequence[str], glyphs: Glyphs) -> str:
    """Join the parts of a mapping."""
    return f" {glyphs.link} ".join(parts)
