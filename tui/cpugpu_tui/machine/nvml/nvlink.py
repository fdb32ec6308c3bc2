"""NVLink: how many links a GPU has, and the bytes that went over all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cpugpu_tui.machine.limits import MOST_LINKS
from cpugpu_tui.machine.nvml.counters import Stamped
from cpugpu_tui.machine.nvml.fields import Field, read_fields

LINKS = Field("nvlink_links", 91)
"""How many links the GPU has, connected or not."""
KEYS = ("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s")
"""Their counters are of data in KiB, without the protocol's share, 64 bits wide."""
_NUMBERS = (138, 139)
_ALL_LINKS = 0xFFFF_FFFF
_FINAL = ("not-supported", "function-missing")


def summed_bytes(links: Sequence[Stamped]) -> Stamped:
    """Return the sum over links that answered, in bytes; the first reason when none did."""
    known = [link for link in links if link.value is not None]
    if not known:
        return links[0]
    total = 1024 * sum(link.value for link in known if link.value is not None)
    return Stamped(total, None, max(link.at_us for link in known), all(link.is_stamped for link in known))


class NvLink:
    """The byte counters of one GPU's links, asked the way its driver answers."""

    def __init__(self) -> None:
        self._way: Sequence[int] = (_ALL_LINKS,)
        self._refused = ""

    def read(self, nvml: Any, handle: Any, links: Stamped, now_us: int) -> dict[str, Stamped]:
        """Return bytes sent and received so far; `links` is what `LINKS` gave. Raise NVMLError when the GPU is lost."""
        if links.value is None or self._refused:
            return dict.fromkeys(KEYS, Stamped(None, self._refused or links.reason))
        if not 0 < links.value <= MOST_LINKS:
            return dict.fromkeys(KEYS, Stamped(None, "not-supported"))
        found = self._ask(nvml, handle, now_us)
        if self._way == (_ALL_LINKS,) and all(value.reason in _FINAL for value in found.values()):
            self._way = tuple(range(int(links.value)))  # drivers that know the sum of all links are the newer ones
            found = self._ask(nvml, handle, now_us)
            if all(value.reason in _FINAL for value in found.values()):
                self._refused = found[KEYS[0]].reason or ""
        return found

    def _ask(self, nvml: Any, handle: Any, now_us: int) -> dict[str, Stamped]:
        fields = [
            Field(f"{key} {link}", number, link)
            for key, number in zip(KEYS, _NUMBERS, strict=True)
            for link in self._way
        ]
        values = list(read_fields(nvml, handle, fields, now_us).values())
        half = len(self._way)
        return {KEYS[0]: summed_bytes(values[:half]), KEYS[1]: summed_bytes(values[half:])}
