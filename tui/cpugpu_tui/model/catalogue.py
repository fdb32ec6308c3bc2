"""What a catalogue of workloads says of each, and why one could not be loaded."""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.model.names import DTYPES


@dataclass(frozen=True)
class WorkloadInfo:
    """Description of a workload for the catalogue, without its code."""

    name: str
    axis: str
    """Meaning of the size, for example `n of n×n`."""
    variants: tuple[str, ...]
    sizes: tuple[int, ...]
    """Default sizes."""
    summary: str
    """Summary in one line."""
    dtypes: tuple[str, ...] = DTYPES
    """Supported element types."""
    source: str = ""
    """File or installed package that defines it; empty if built in."""


@dataclass(frozen=True)
class Refused:
    """A workload file or package that could not be loaded."""

    source: str
    message: str
    """What is wrong, one sentence, with the line if known."""
    remedy: str
