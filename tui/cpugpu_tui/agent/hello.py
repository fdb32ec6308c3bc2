"""The agent's greeting: facts that are saved with every run, and the workloads that it knows."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from cpugpu_tui import __version__
from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.procfs import driver_version
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import PROTOCOL, Hello, Refused, WorkloadsLoading
from cpugpu_tui.timing.control import FILE, INSTALLED
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.timers import Stopwatch
from cpugpu_tui.timing.timers.cpu import FLUSH_CAP_BYTES
from cpugpu_tui.workloads import catalogue
from cpugpu_tui.workloads.own_files import Loaded, load

INHERITED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "KMP_AFFINITY", "OMP_PROC_BIND")
"""Variables that slow the CPU silently: Ray, Dask and torchrun set thread counts to 1."""


def facts(*, simulated: bool) -> dict[str, Any]:
    """Return the agent's facts as JSON-ready data; imports torch unless `simulated`."""
    cache_bytes = procfs.last_level_cache_bytes()
    found: dict[str, Any] = {
        "version": __version__,
        "simulated": simulated,
        "hostname": platform.node(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "cpu": procfs.cpu_model(),
        "affinity_cores": len(procfs.affinity_cores()),
        "physical_cores": procfs.physical_cores(),
        "quota_cores": procfs.cpu_quota_cores(),
        "threads": procfs.default_threads(),
        "memory_total_bytes": procfs.memory_total_bytes(),
        "last_level_cache_bytes": cache_bytes,
        "cache_flush_bytes": min(2 * (cache_bytes or (32 << 20)), FLUSH_CAP_BYTES),
        "inherited": {name: os.environ[name] for name in INHERITED if name in os.environ},
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "torch": None,
        "torch_error": None,
    }
    return found if simulated else found | {"driver": driver_version()} | torch_facts()


def torch_facts() -> dict[str, Any]:
    """Return facts about torch, or why it cannot be imported."""
    watch = Stopwatch()
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a broken torch raises anything, OSError included
        return {"torch_error": f"{type(error).__name__}: {error}"[:300]}
    return {
        "torch": str(torch.__version__),
        "torch_import_s": watch.elapsed_s(),
        "torch_git": torch.version.git_version,
        "torch_cuda": torch.version.cuda,
        "matmul_precision": torch.get_float32_matmul_precision(),
        "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
    }


MOST_TEXT = 400
"""Most characters of an error about a file, whose exceptions may have any length."""


def wanted(arguments: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the workload files in an agent's arguments, and whether to load installed packages."""
    files = tuple(after for word, after in pairwise(arguments) if word == FILE)
    return files, INSTALLED in arguments


def hello(environment: dict[str, Any], files: Sequence[str], emit: Emit, *, installed: bool = False) -> Hello:
    """Load files and packages and return the greeting, with their workloads in its catalogue."""
    built_in = catalogue()
    found = Loaded()
    if files or installed:

        def told(source: str) -> None:
            emit(WorkloadsLoading(source=source))
            emit.flush()

        found = load(files, told, installed=installed)
    refused = tuple(
        Refused(each.source, printable(each.message, MOST_TEXT), printable(each.remedy, MOST_TEXT))
        for each in found.refused
    )
    # The catalogue of built-in workloads was made before files were loaded, so they cannot change it.
    return Hello(
        protocol=PROTOCOL,
        environment=environment,
        catalogue=(*built_in, *found.infos),
        refused=refused,
        own_files=found.files,
    )
