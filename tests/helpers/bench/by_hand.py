"""Time Python code on CPU and GPU as a careful person would by hand, without any code of cpugpu-tui.

Reads a list of `{"setup", "statement", "sizes"}` as JSON from stdin and prints one JSON line for each, with
`[cpu_s, gpu_s, kernels]` for each size, or the error.
"""

import json
import sys
from statistics import median
from time import perf_counter
from typing import Any

BUDGET_S = 0.5
"""Time of the timed calls of one size on one device; at least five calls."""


def moved(value: Any, device: str) -> Any:
    """Return tensors and modules on a device, also those in lists, tuples and dictionaries."""
    import torch

    if isinstance(value, torch.Tensor | torch.nn.Module):
        return value.to(device)
    if type(value) in (list, tuple):
        return type(value)(moved(each, device) for each in value)
    if type(value) is dict:
        return {key: moved(each, device) for key, each in value.items()}
    return value


def seconds_on(device: str, setup: str, statement: str, n: int) -> tuple[float, int]:
    """Return the median time of a call from start until the GPU has finished, and the GPU kernels of one call."""
    import numpy
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    names: dict[str, Any] = {"torch": torch, "np": numpy, "n": n, "device": device}
    exec(setup, names)
    names = {name: moved(value, device) if not name.startswith("__") else value for name, value in names.items()}
    code = compile(statement, "by hand", "eval")

    def call_s() -> float:
        torch.cuda.synchronize()
        begin_s = perf_counter()
        # Kept until the next call, as by `y = f(x)` in a loop: freed at once, 4 MB would be mapped again for each call.
        names["last_result"] = eval(code, names)
        torch.cuda.synchronize()
        return perf_counter() - begin_s

    warmed_s = perf_counter()
    while perf_counter() - warmed_s < BUDGET_S / 2:
        call_s()
    times_s = [call_s() for _ in range(5)]
    while sum(times_s) < BUDGET_S:
        times_s.append(call_s())
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        call_s()
    on_gpu = [each for each in profiled.events() if each.device_type == torch.autograd.DeviceType.CUDA]
    return median(times_s), len(on_gpu)


def main() -> None:
    """Time each item of stdin."""
    for item in json.load(sys.stdin):
        found: dict[str, Any] = {}
        try:
            for n in item["sizes"]:
                cpu_s, _ = seconds_on("cpu", item["setup"], item["statement"], n)
                gpu_s, kernels = seconds_on("cuda", item["setup"], item["statement"], n)
                found[str(n)] = (cpu_s, gpu_s, kernels)
        except Exception as error:  # noqa: BLE001 - other people's code, whose error is the row
            found["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
