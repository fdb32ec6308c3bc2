"""A GPU beside a recorded one: peak rates, overheads and copies, and what was read that explains a difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cpugpu_tui.model import Ceilings, Event, TelemetryRead
from cpugpu_tui.model.quantities import gib, joined, percent, rate_text, share_text, time_text
from cpugpu_tui.state.reference import Reference

USUAL, MOST = 0.08, 0.22
"""How much slower a card of one model is than another: on average, and at most. Known from studies of clusters."""

MOST_OF_HOST = 0.5
"""The same for launches and copies from pageable memory, which another host's CPU may halve."""

COPIES = {
    "h2d_pageable": "pageable copies to the GPU", "h2d_pinned": "pinned copies to the GPU",
    "d2h_pageable": "pageable copies to the host", "d2h_pinned": "pinned copies to the host",
}  # fmt: skip
OVERHEADS = {"launch_ns": "one launch", "synchronize_ns": "one synchronisation", "round_trip_ns": "one round trip"}


@dataclass(frozen=True)
class Quantity:
    """A rate or an overhead, here and recorded."""

    key: str
    name: str
    here: float
    recorded: float
    unit: str
    """`FLOP/s`, `B/s` or `ns`."""

    @property
    def speed(self) -> float:
        """Return the speed here as a share of the recorded one."""
        return self.recorded / self.here if self.unit == "ns" else self.here / self.recorded

    @property
    def is_slow(self) -> bool:
        """Whether cards of one model do not differ so much."""
        is_of_host = self.unit == "ns" or self.key.endswith("pageable")
        return self.speed < 1 - (MOST_OF_HOST if is_of_host else MOST)

    @property
    def texts(self) -> tuple[str, str]:
        """Return both values with their units."""
        text = time_text if self.unit == "ns" else partial(rate_text, unit=self.unit)
        return text(self.here), text(self.recorded)

    @property
    def difference(self) -> str:
        """Return `31 % slower` or `2.1 % faster`; of a time its change, `243 % longer`."""
        change = self.here / self.recorded - 1
        less, more = ("shorter", "longer") if self.unit == "ns" else ("slower", "faster")
        return "the same" if abs(change) < 0.0005 else f"{percent(abs(change))} % {less if change < 0 else more}"


@dataclass(frozen=True)
class Limit:
    """A limit that the driver reads, here and recorded."""

    name: str
    here: str
    recorded: str
    is_lower: bool
    explains: tuple[str, ...]
    """Beginnings of the keys of quantities that it may slow down."""

    @property
    def text(self) -> str:
        """Return `power limit 350 W instead of 700 W`."""
        return f"{self.name} {self.here} instead of {self.recorded}"


@dataclass(frozen=True)
class BesideCard:
    """A GPU of this machine or of a host beside the GPU of a reference."""

    device: str
    label: str
    recorded: str
    """The recorded server, in brief."""
    is_same_model: bool
    quantities: tuple[Quantity, ...]
    limits: tuple[Limit, ...]

    @property
    def slow(self) -> tuple[Quantity, ...]:
        """Return the quantities that are slower than those of any card of its model are known to be; slowest first."""
        found = [each for each in self.quantities if each.is_slow] if self.is_same_model else []
        return tuple(sorted(found, key=lambda each: each.speed))

    @property
    def problem(self) -> str:
        """Return what is slow, with the cause if it was read: one clause, empty if nothing is."""
        by_cause: dict[str, list[str]] = {}
        for each in self.slow:
            by_cause.setdefault(self._cause(each), []).append(f"{each.name} {each.difference}")
        return "; ".join(f"{joined(names)}{f' ({why})' if why else ''}" for why, names in by_cause.items())

    def _cause(self, slow: Quantity) -> str:
        return joined([each.text for each in self.limits if each.is_lower and slow.key.startswith(each.explains)])

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return what was set beside what, and what is slow."""
        first = f"Your {self.label} ({self.device}) against a recorded server ({self.recorded})."
        if not self.is_same_model:
            return first, "They are different models, so no difference is judged."
        spread = f"Cards of one model differ by {share_text(USUAL)} on average and by up to {share_text(MOST)}."
        lower = [each.text for each in self.limits if each.is_lower and each.text not in self.problem]
        others = (f"Also lower: {joined(lower)}.",) if lower else ()
        if self.slow:
            return first, f"Slower than cards of one model differ: {self.problem}.", spread, *others
        return first, f"Nothing is slower than cards of one model differ. {spread}", *others

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON values. Recorded values are never without their name."""
        return {
            "device": self.device, "gpu": self.label, "recorded_on": self.recorded, "same_model": self.is_same_model,
            "quantities": {
                each.key: {"here": each.here, "recorded": each.recorded, "unit": each.unit, "speed": each.speed,
                           "is_slow": self.is_same_model and each.is_slow}
                for each in self.quantities
            },
            "limits": {each.name: {"here": each.here, "recorded": each.recorded} for each in self.limits},
            "problem": self.problem or None, "says": list(self.sentences),
        }  # fmt: skip


@dataclass
class DriverReadings:
    """What the driver read of each GPU in a run. Of several readings the highest counts: idle links are slower."""

    known: dict[str, dict[str, float]] = field(default_factory=dict)
    """UUID → name → value."""

    def see(self, event: Event) -> None:
        """Note the readings of an event."""
        if not isinstance(event, TelemetryRead):
            return
        for gpu in event.gpus:
            own = self.known.setdefault(gpu.uuid or "", {})
            for name, reading in gpu.readings.items():
                if reading.value is not None:
                    own[name] = max(own.get(name, reading.value), reading.value)

    def of(self, uuid: str | None) -> dict[str, float]:
        """Return the readings of a GPU; empty if the driver did not answer."""
        return self.known.get(uuid or "", {})


def beside_card(found: Ceilings, readings: dict[str, float], reference: Reference) -> BesideCard:
    """Return a GPU beside that of a reference. Without recorded peak rates there are no quantities."""
    return BesideCard(
        found.device, found.label, reference.text, found.label == reference.gpu,
        tuple(_quantities(found, reference.ceilings)), tuple(_limits(readings, reference.readings)),
    )  # fmt: skip


def _quantities(here: Ceilings, recorded: Ceilings | None) -> Iterator[Quantity]:
    if recorded is None:
        return
    for dtype, rate in recorded.flops.items():
        if dtype in here.flops:
            yield Quantity(f"flops_{dtype}", f"{dtype} compute", here.flops[dtype], rate, "FLOP/s")
    yield Quantity("memory", "memory bandwidth", here.copy_bytes_per_s, recorded.copy_bytes_per_s, "B/s")
    for key, name in OVERHEADS.items():
        own, other = getattr(here, key), getattr(recorded, key)
        if own and other:
            yield Quantity(key.removesuffix("_ns"), name, own, other, "ns")
    for key, name in COPIES.items():
        if key in here.transfers and key in recorded.transfers:
            pair = here.transfers[key].bytes_per_s, recorded.transfers[key].bytes_per_s
            yield Quantity(f"copy_{key}", name, *pair, "B/s")


def _limits(here: dict[str, float], recorded: dict[str, float]) -> Iterator[Limit]:
    """Yield the limits that both drivers read, in the order in which they explain a difference."""
    kinds: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] = (
        ("PCIe", ("pcie_generation", "pcie_width"), ("copy_",)),
        ("power limit", ("power_limit_mw",), ("flops_", "memory")),
        ("highest SM clock", ("sm_clock_max_mhz",), ("flops_",)),
        ("highest memory clock", ("memory_clock_max_mhz",), ("memory",)),
        ("memory", ("memory_total_bytes",), ()),
    )
    for name, keys, explains in kinds:
        if all(key in here and key in recorded for key in keys):
            own, other = (tuple(each[key] for key in keys) for each in (here, recorded))
            is_lower = any(mine < 0.99 * its for mine, its in zip(own, other, strict=True))
            yield Limit(name, _limit_text(name, own), _limit_text(name, other), is_lower, explains)


def _limit_text(name: str, values: tuple[float, ...]) -> str:
    if name == "PCIe":
        return "gen {:.0f} × {:.0f}".format(*values)
    if name == "memory":
        return f"{gib(values[0])} GiB"
    return f"{values[0] / 1e3:.0f} W" if name == "power limit" else f"{values[0]:,.0f} MHz"
