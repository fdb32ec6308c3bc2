"""GPU readings through NVML. Only this room imports pynvml, and only when it is first used (40 ms).

`Nvml` (session) is a session with all GPUs. Each GPU has a fast and a slow tier (values), which read single calls
(calls), counters, NVLink and GPM (fields), and processes and MIG slices (processes). `GpuProbe` (probe) is the
benchmark's view of one GPU. An unsupported value or a broken GPU does not affect the others.
Two calls are too slow to use: PCIe throughput (21 ms each) and graphics processes (4.5 ms).
"""

from __future__ import annotations

from cpugpu_tui.machine.nvml.calls import THROTTLE_WORDS, throttle_words
from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.machine.nvml.session import SLOW_S, Nvml
from cpugpu_tui.machine.nvml.values import FAST_KEYS, KEYS, SLOW_KEYS

__all__ = ["FAST_KEYS", "KEYS", "SLOW_KEYS", "SLOW_S", "THROTTLE_WORDS", "GpuProbe", "Nvml", "throttle_words"]
