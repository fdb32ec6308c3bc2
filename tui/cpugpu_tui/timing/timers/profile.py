"""The kernels of one call, as torch's profiler saw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cpugpu_tui.timing.timers import Kernels


def profiled_kernels(call: Callable[[], object], synchronize: Callable[[], None]) -> Kernels | None:
    """Return number and summed time of the kernels of one call; None where the profiler sees no GPU."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        synchronize()
    # The profiler's own event list; copies and fills are work of the GPU too.
    events: Any = seen.events() or ()
    elapsed_ns = [event.time_range.elapsed_us() * 1e3 for event in events if event.device_type.name == "CUDA"]
    return Kernels(len(elapsed_ns), sum(elapsed_ns)) if elapsed_ns else None
