"""The facts of an environment that something of ours computes with or prints in parts, and what each must be.

An export comes from strangers. Facts that are only printed whole may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cpugpu_tui.config.validation import convert

TEXT, WHOLE, NUMBER, FLAG = str | None, int | None, float | None, bool | None

FACTS: dict[str, Any] = {
    **dict.fromkeys(
        ("hostname", "cpu", "kernel", "python", "interpreter", "version", "worker", "face", "driver"), TEXT
    ),
    **dict.fromkeys(("torch", "torch_error", "torch_git", "torch_cuda", "matmul_precision", "python_option"), TEXT),
    "cuda_visible_devices": TEXT,
    **dict.fromkeys(("fleet", "fleet_host", "launcher"), TEXT),
    **dict.fromkeys(("affinity_cores", "physical_cores", "threads"), WHOLE),
    **dict.fromkeys(("memory_total_bytes", "last_level_cache_bytes", "cache_flush_bytes"), WHOLE),
    **dict.fromkeys(("quota_cores", "torch_import_s", "case_timeout_s"), NUMBER),
    **dict.fromkeys(("simulated", "tf32_matmul"), FLAG),
    "inherited": dict[str, str] | None,
    "argv": list[str] | None,
}
"""Name → type."""


def wrong_fact(environment: Mapping[str, Any]) -> str | None:
    """Return the name of a fact that is of another type than ours; None where there is none."""
    return next((name for name, kind in FACTS.items() if not _fits(environment.get(name), kind)), None)


def _fits(value: Any, kind: Any) -> bool:
    try:
        convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
