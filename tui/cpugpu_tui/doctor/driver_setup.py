"""What is asked of the driver once, by `doctor`: versions, and clocks that somebody set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from cpugpu_tui.machine.limits import LIMITS, MOST_GPUS
from cpugpu_tui.machine.nvml.returns import BROKEN, opening_code
from cpugpu_tui.telemetry.versions import session_versions


@dataclass(frozen=True)
class ClockSetting:
    """The SM clock that somebody set for one GPU (`nvidia-smi -ac`), beside what the card offers."""

    index: int
    """NVML's."""
    set_mhz: int | None
    """Application clock in force; None where the driver no longer has such a thing."""
    default_mhz: int | None
    max_mhz: int | None


@dataclass(frozen=True)
class DriverSetup:
    """The driver's versions; None for what it does not tell."""

    init_code: int | None = None
    """NVML's code when no session could be opened: 12 no library, 9 not loaded, 18 updated underneath, 4 no
    permission; `returns.BROKEN` when it has none, or cannot count its GPUs. None when all is well, or never tried."""
    version: str | None = None
    """Like `580.159.03`."""
    cuda: tuple[int, int] | None = None
    """Newest CUDA that this driver supports, (major, minor)."""
    clocks: tuple[ClockSetting, ...] = ()


def driver_setup() -> DriverSetup:
    """Ask the driver, in a session of its own; never raises for what the driver says.

    All NVML calls of a process belong on one thread: call it where the others are made.
    """
    try:
        import pynvml
    except ImportError:
        return DriverSetup()
    try:
        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - a library that is broken raises anything
        return DriverSetup(init_code=opening_code(error))
    try:
        count = _answer(pynvml.nvmlDeviceGetCount)
        if count is None or count > MOST_GPUS:
            return replace(session_setup(pynvml), init_code=BROKEN)
        settings = (clock_setting(pynvml, index) for index in range(count))
        clocks = tuple(setting for setting in settings if setting is not None)
        return replace(session_setup(pynvml), clocks=clocks)
    finally:
        with suppress(Exception):
            pynvml.nvmlShutdown()


def _answer(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call returns, None for an error."""
    with suppress(Exception):
        return call(*arguments)
    return None


def _clock_mhz(call: Callable[..., Any], *arguments: Any) -> int | None:
    """Return the clock that a call returns, None for an error and for what cannot be one."""
    found = _answer(call, *arguments)
    least, most = LIMITS["sm_clock_mhz"]
    return int(found) if found is not None and least <= found <= most else None


def session_setup(nvml: Any) -> DriverSetup:
    """Return the versions within a session that is open; no GPU is asked."""
    number = _answer(nvml.nvmlSystemGetCudaDriverVersion_v2) or 0
    cuda = (int(number) // 1000, int(number) % 1000 // 10) if 1000 <= number < 100_000 else None
    return DriverSetup(version=session_versions(nvml)[0], cuda=cuda)


def clock_setting(nvml: Any, index: int) -> ClockSetting | None:
    """Return the clock that somebody set for one GPU within a session that is open, None where it has no handle."""
    handle = _answer(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return None
    # The SM clock follows the graphics clock, the only one of the two that can be set.
    asked = (nvml.nvmlDeviceGetApplicationsClock, nvml.nvmlDeviceGetDefaultApplicationsClock)
    set_mhz, default_mhz = (_clock_mhz(call, handle, nvml.NVML_CLOCK_GRAPHICS) for call in asked)
    max_mhz = _clock_mhz(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_GRAPHICS)
    return ClockSetting(index, set_mhz, default_mhz, max_mhz)
