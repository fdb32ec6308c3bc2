"""What a part ran on, in one line; asks NVML, so that no CUDA context of this process stands beside an agent's."""

import os
from contextlib import suppress
from importlib.metadata import version

from cpugpu_tui.agent.main import facts


def surroundings() -> str:
    """Return processor, threads, torch, GPUs and load."""
    found = facts(simulated=True)
    gpus = ", ".join(gpu_names()) or "no GPU"
    load = os.getloadavg()[0]
    return (
        f"{found['cpu'] or 'an unnamed processor'}, {found['threads']} of {os.cpu_count()} threads, "
        f"Python {found['python']}, torch {version('torch')}, {gpus}, load {load:.1f}"
    )


def gpu_names() -> list[str]:
    """Return the names of all GPUs; none where the driver does not answer."""
    import pynvml

    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
        finally:
            pynvml.nvmlShutdown()
    return []
