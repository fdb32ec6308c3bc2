"""A run's facts in three parts: what the machine is, what is installed and set on it, what was only this run's.

Thousands of runs share the first two, which are kept once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MACHINE = ("hostname", "cpu", "physical_cores", "memory_total_bytes", "last_level_cache_bytes")
"""Facts that only a change of the hardware changes."""

OF_THE_RUN = (
    "argv", "torch_import_s", "worker", "python_option", "case_timeout_s", "face", "fleet", "fleet_host", "launcher",
)  # fmt: skip
"""Facts that differ from run to run, or may."""


@dataclass(frozen=True)
class Parted:
    """The facts of one run; together they are its environment again."""

    machine: dict[str, Any]
    environment: dict[str, Any]
    run: dict[str, Any]


def parted(facts: Mapping[str, Any]) -> Parted:
    """Part a run's environment; each part is sorted by name, so that equal ones are equal as text."""
    parts = Parted({}, {}, {})
    for name in sorted(facts):
        part = parts.machine if name in MACHINE else parts.run if name in OF_THE_RUN else parts.environment
        part[name] = facts[name]
    return parts
