"""GPU readings through NVML. Only this room imports pynvml, and only when it is first used (40 ms).

`Nvml` (session) is a session with all GPUs. Each GPU has a fast and a slow tier (values), which read single calls
(calls), counters, NVLink and GPM (fields), and processes and MIG slices (processes). `GpuProbe` (probe) is the
benchmark's view of one GPU. An unsupported value or a broken GPU does not affect the others.
Two calls are too slow to use: PCIe throughput (21 ms each) and graphics processes (4.5 ms).
"""
