"""A made-up reference of a GPU server, whose times are known exactly."""

from __future__ import annotations

from typing import Any

from cpugpu_tui.state.reference import RecordedCase, Reference

SIZES = (16, 20, 30, 50, 70, 100, 140, 200, 300, 500, 700, 1000, 1400, 2000, 2048)


def gpu_ns(size: int) -> float:
    """Return a GPU's time that bends from its overhead to its work: the CPU wins below 160 or so."""
    return 20_000 + 1e-4 * size**3


def reference(sizes: tuple[int, ...] = SIZES, jump: int = 10**9, **more: Any) -> Reference:
    """Return a reference of matmul in three starts that differ by 3 %; above `jump` it takes 1.5 times as long."""
    cases = []
    for size in sizes:
        ns = gpu_ns(size) * (1.5 if size > jump else 1)
        starts = tuple(
            {metric: [ns * part * start] * 5
             for metric, part in (("latency", 1.0), ("device", 0.8), ("end_to_end_pageable", 3.0))}
            for start in (0.97, 1.0, 1.03)
        )  # fmt: skip
        cases.append(RecordedCase("matmul", "default", size, "float32", starts))
    known: dict[str, Any] = {
        "gpu": "NVIDIA H200", "host": "Intel(R) Xeon(R) Platinum 8480C", "cores": 16, "torch": "2.11.0+cu130",
        "driver": "580", "made_by": "test", "made_wall_ns": 1, "starts": 3, "simulated": True, "cases": tuple(cases),
    }  # fmt: skip
    return Reference(**known | more)
