"""Reasons for throttling, their share of the time, and what they mean for a benchmark."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cpugpu_tui.model import GpuTelemetry
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.telemetry.quantities import known

QUIET = {"idle", "app-clocks", "display"}
"""Throttle reasons that do not affect a measurement."""
SHARES = {
    "power-brake": "throttled_power_brake_pct",
    "hw-thermal": "throttled_hw_thermal_pct",
    "thermal": "throttled_thermal_pct",
    "power-capped": "throttled_power_cap_pct",
    "sync-boost": "throttled_sync_boost_pct",
}
"""Word → key of its share of time, worst first."""
ROLES = {"power-brake": "bad", "hw-thermal": "bad", "hw-slowdown": "bad", "thermal": "warn"}
"""Role of a reason. The others are normal under full load: shown, but no warning (method.md, step 9)."""
ORDER = ("power-brake", "hw-thermal", "hw-slowdown", "thermal", "power-capped", "sync-boost")
BRIEF = {"power-capped": "capped", "sync-boost": "sync"}
MEANINGS = {
    "power-brake": "the server's power supply limits this GPU. Do not trust measurements now; ask the administrator of"
    " the machine.",
    "hw-thermal": "too hot: the hardware cuts the clock to half or less. Check fans and air flow before you measure.",
    "hw-slowdown": "the hardware lowers the clock because of heat, a power brake or a failing power supply.",
    "thermal": "too hot: the driver lowers the clock. Times depend on earlier load. Check fans and air flow.",
    "power-capped": "at the power limit. This is normal under full load.",
    "sync-boost": "the clock follows those of other GPUs.",
    "idle": "nothing runs at this moment. Kernel-active covers up to the last second.",
    "app-clocks": "the clock is fixed by a setting (application clocks).",
    "display": "the clock is set by a display.",
}
"""Word → meaning for a measurement."""
NAMELESS = "unknown to this version. Run `nvidia-smi -q -d PERFORMANCE` to see the driver's name for it."
"""Meaning of `unknown 0x400`, and of a later version's words in a recording."""
_NAMELESS_BITS = re.compile(r"unknown 0x[0-9a-f]{1,16}")


@dataclass(frozen=True)
class Throttle:
    """One reason, active now or at some time since the last reading."""

    word: str
    share_pct: float | None
    """Share of the time since the last reading; None if the driver does not count it."""
    is_now: bool

    @property
    def role(self) -> str:
        """Role of its text; `sign_of` says the same without colour."""
        return ROLES.get(self.word, "text")

    @property
    def share_text(self) -> str:
        """`43%`; empty if it is not counted."""
        return f"{self.share_pct:.0f}%" if self.share_pct is not None and self.share_pct >= 0.5 else ""

    def text(self, brief: bool = False) -> str:
        """Return `power-capped 43%`."""
        return f"{BRIEF.get(self.word, self.word) if brief else self.word} {self.share_text}".strip()


def throttles(gpu: GpuTelemetry) -> tuple[Throttle, ...]:
    """Return the reasons that throttle this GPU, worst first, without those of `QUIET`.

    A reason that was active only between two readings is known from its counter.
    """
    found = []
    for word in (*ORDER, *sorted(filter(_is_word, set(gpu.throttle) - QUIET - set(ORDER)))):
        share = known(gpu.readings, SHARES[word]) if word in SHARES else None
        if word in gpu.throttle or (share is not None and share >= 0.5):
            found.append(Throttle(word, share, word in gpu.throttle))
    return tuple(found)


def _is_word(text: str) -> bool:
    """Whether a text looks like a reason of a later version, and not like arbitrary text from a file."""
    is_name = text.isascii() and text.replace("-", "").isalpha() and len(text) <= 20
    return is_name or _NAMELESS_BITS.fullmatch(text) is not None


def quiet_words(gpu: GpuTelemetry) -> tuple[str, ...]:
    """Return the active reasons that do not affect a measurement."""
    return tuple(word for word in gpu.throttle if word in QUIET)


def sign_of(found: tuple[Throttle, ...], glyphs: Glyphs) -> str:
    """Return the sign of the worst reason: `!!` spoils a measurement, `!` may, an arrow down is normal at full load."""
    if not found:
        return ""
    return {"bad": "!!", "warn": "!"}.get(found[0].role, glyphs.down)
