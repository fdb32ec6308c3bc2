"""Why a GPU's clock is held down, how much of the time, and whether a person who benchmarks should mind."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cpugpu_tui.model import GpuTelemetry
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.telemetry.quantities import known

QUIET = {"idle", "app-clocks", "display"}
"""Throttle reasons that say nothing about a measurement."""
SHARES = {
    "power-brake": "throttled_power_brake_pct",
    "hw-thermal": "throttled_hw_thermal_pct",
    "thermal": "throttled_thermal_pct",
    "power-capped": "throttled_power_cap_pct",
    "sync-boost": "throttled_sync_boost_pct",
}
"""Word → key of its share of time; worst first."""
ROLES = {"power-brake": "bad", "hw-thermal": "bad", "hw-slowdown": "bad", "thermal": "warn"}
"""What a reason is; all others belong to full load: said, but no warning (method.md, step 9)."""
ORDER = ("power-brake", "hw-thermal", "hw-slowdown", "thermal", "power-capped", "sync-boost")
BRIEF = {"power-capped": "capped", "sync-boost": "sync"}
MEANINGS = {
    "power-brake": "the server's power supply holds the board back. Numbers taken now say nothing about the GPU: ask"
    " whoever looks after the machine.",
    "hw-thermal": "too hot: the hardware cuts its clock to half or less. Check fans and air flow before you measure.",
    "hw-slowdown": "the hardware cuts its clock: heat, power brake, or a failing supply.",
    "thermal": "too hot: the driver lowers the clock. Numbers depend on what ran before; check fans and air flow.",
    "power-capped": "at the power limit, which is normal under full load: the clock is what the limit allows.",
    "sync-boost": "clocks are tied to those of other GPUs.",
    "idle": "nothing ran at the moment of asking; kernel-active looks back over up to a second.",
    "app-clocks": "the clock is held at a value that was set.",
    "display": "the clock is set by a display.",
}
"""Word → what it means for a measurement."""
NAMELESS = "a reason that came after this version. See nvidia-smi -q -d PERFORMANCE for what the driver calls it."
"""The same for `unknown 0x400`, and for words of a later version in a trace."""
_NAMELESS_BITS = re.compile(r"unknown 0x[0-9a-f]{1,16}")


@dataclass(frozen=True)
class Throttle:
    """One reason, in force now or at some time since the last sweep."""

    word: str
    share_pct: float | None
    """Share of the time since the last sweep, None where the driver does not count it."""
    is_now: bool

    @property
    def role(self) -> str:
        """How it looks; its sign says the same without colour."""
        return ROLES.get(self.word, "text")

    @property
    def share_text(self) -> str:
        """`43%`; nothing where it is not counted."""
        return f"{self.share_pct:.0f}%" if self.share_pct is not None and self.share_pct >= 0.5 else ""

    def text(self, brief: bool = False) -> str:
        """Return `power-capped 43%`."""
        return f"{BRIEF.get(self.word, self.word) if brief else self.word} {self.share_text}".strip()


def throttles(gpu: GpuTelemetry) -> tuple[Throttle, ...]:
    """Return what holds this GPU's clock down, worst first; what says nothing about a measurement is left out.

    A reason that was in force between two sweeps and is over at the second is known by its counter alone.
    """
    found = []
    for word in (*ORDER, *sorted(filter(_is_word, set(gpu.throttle) - QUIET - set(ORDER)))):
        share = known(gpu.readings, SHARES[word]) if word in SHARES else None
        if word in gpu.throttle or (share is not None and share >= 0.5):
            found.append(Throttle(word, share, word in gpu.throttle))
    return tuple(found)


def _is_word(text: str) -> bool:
    """Say whether this is a reason that a later version may name, and not something out of a foreign file."""
    is_name = text.isascii() and text.replace("-", "").isalpha() and len(text) <= 20
    return is_name or _NAMELESS_BITS.fullmatch(text) is not None


def quiet_words(gpu: GpuTelemetry) -> tuple[str, ...]:
    """Return the reasons in force that say nothing about a measurement, by the names that they have everywhere."""
    return tuple(word for word in gpu.throttle if word in QUIET)


def sign_of(found: tuple[Throttle, ...], glyphs: Glyphs) -> str:
    """Return the sign of the worst: `!!` spoils a measurement, `!` may, an arrow down belongs to full load."""
    if not found:
        return ""
    return {"bad": "!!", "warn": "!"}.get(found[0].role, glyphs.down)
