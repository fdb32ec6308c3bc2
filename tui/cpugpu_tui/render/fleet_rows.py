"""The one table of a fleet: host by GPU by case, and each host in a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cpugpu_tui.decide.verdict import Comparison, compare
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import DEVICE, Device, SweepKey
from cpugpu_tui.model.quantities import counted
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.session.fleet.state import FleetState, HostState
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row

LONGEST_WHY = 300
"""Characters of a message that a row shows; a host may send thousands."""


@dataclass(frozen=True)
class FleetRow:
    """One case on one GPU of one host, beside that host's CPU."""

    host: str
    gpu: Device | None
    """None on a host that has none."""
    row: Row

    why: str = ""
    """Why the case has no result, in a few words; empty where it has one, or may still get one."""

    @property
    def times(self) -> DeviceTimes | None:
        """Times on the GPU."""
        return None if self.gpu is None or self._is_void else self.row.times.get(self.gpu.name)

    @property
    def cpu_ns(self) -> float | None:
        """Latency on the host's CPU."""
        cpu = self.row.cpu
        return None if cpu is None or self._is_void else cpu.latency_ns

    @property
    def _is_void(self) -> bool:
        """Whether its times are none to be shown: those of a skipped case are of the rounds before the end."""
        return self.row.status in ("mismatch", "skipped")

    @property
    def gpu_ns(self) -> float | None:
        """Latency on the GPU."""
        return None if self.times is None else self.times.latency_ns

    @property
    def device_ns(self) -> float | None:
        """What the GPU itself needs, caches cold."""
        return None if self.times is None else self.times.median_ns(DEVICE)

    @property
    def is_starved(self) -> bool:
        """Whether threads lacked a core on one of the two: then there is no winner."""
        return any(times is not None and times.is_starved for times in (self.row.cpu, self.times))

    @cached_property
    def comparison(self) -> Comparison | None:
        """CPU against this GPU, round by round."""
        if self.row.cpu is None or self.times is None or self.is_starved:
            return None
        return compare(self.row.cpu.round_ns, self.times.round_ns)


def fleet_rows(state: FleetState) -> list[FleetRow]:
    """Return the table, same cases together: sweep by sweep, sizes rising, hosts in the order of the inventory."""
    places = {name: place for place, name in enumerate(state.hosts)}
    sweeps: dict[SweepKey, int] = {}
    found = []
    for each in state.hosts.values():
        for row in host_rows(each):
            sweeps.setdefault(row.row.case.sweep, len(sweeps))
            found.append(row)
    return sorted(found, key=lambda row: (sweeps[row.row.case.sweep], row.row.case.size, places[row.host]))


def host_rows(each: HostState) -> Iterator[FleetRow]:
    """Yield a host's cases on each of its GPUs; on its CPU alone where it has none."""
    for row in each.run.rows.values():
        for gpu in each.gpus or (None,):
            yield FleetRow(each.host.host, gpu, row, _why(each, row))


def _why(each: HostState, row: Row) -> str:
    """Return why a case has no result; what is why for the whole run is said once, of its host."""
    failure = row.failure
    if failure is None:
        return ""
    is_of_run = each.run.finished is not None and failure.message == each.run.finished.message
    if failure.kind == "skipped" and is_of_run:
        return failure.kind
    return f"{failure.kind}: {printable(failure.message, LONGEST_WHY)}"


def machine_text(each: HostState) -> str:
    """Return what a host's GPUs are, `4 × NVIDIA H200`; its processor where it has none, empty until that is known."""
    labels = [device.label for device in each.gpus]
    if labels:
        return ", ".join(counted(labels))
    cpu = next((device.label for device in each.run.devices if device.is_cpu), "")
    return f"no GPU: {cpu}" if cpu else ""


def cases_text(each: HostState) -> str:
    """Return how far a host's run is: `11 of 14, 1 failed, 2 skipped`; these add up once it is over."""
    if not each.run.rows:
        return ""
    counts = each.run.done, each.run.failed, each.run.skipped
    others = [f", {count} {word}" for count, word in zip(counts[1:], ("failed", "skipped"), strict=True) if count]
    before = f", {each.failed_before} failed before" if each.failed_before else ""
    return f"{counts[0]} of {len(each.run.rows)}{''.join(others)}{before}"


def doing_text(each: HostState) -> str:
    """Return what a host does now, in a few words; empty where its state says all."""
    current = each.run.current
    if each.is_over or current is None:
        return ""
    row = each.run.rows.get(current.case)
    where = f"{row.case.workload} {row.case.size:,}, " if row is not None else ""
    return f"{where}{current.phase}{f' on {current.device}' if current.device else ''}"


def says(each: HostState) -> str:
    """Return a host's answer, its first sentence; empty without one."""
    return next(iter(answer_lines(each.run)), "")


def numbers_of(each: HostState) -> list[int]:
    """Return the numbers of a host's runs in the history."""
    numbers = [run.number for run in each.runs]
    if each.run.run is not None and each.run.finished is None:
        numbers.append(each.run.run.number)
    return [number for number in numbers if number is not None]


def host_data(each: HostState) -> dict[str, Any]:
    """Return a host as JSON values."""
    return {
        "host": each.host.host, "launcher": each.host.launcher, "tags": list(each.host.tags), "state": each.state,
        "message": each.message or None, "remedy": each.remedy or None,
        "gpus": [{"device": gpu.name, "label": gpu.label, "uuid": gpu.uuid} for gpu in each.gpus],
        "cases": len(each.run.rows), "settled": each.run.settled, "failed": each.failed,
        "skipped": each.run.skipped,
        "runs": numbers_of(each), "run_ids": [run.run_id for run in each.runs],
    }  # fmt: skip
