"""A fleet in words: rows of host, GPU and case, a line for each host, and slow GPUs of a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cpugpu_tui.analysis.slow_gpus import Standing, overall, standings
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Device
from cpugpu_tui.model.quantities import counted, percent, size_text
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.render.columns import COLUMNS, NONE, Key
from cpugpu_tui.render.crossover_words import speedup_text
from cpugpu_tui.render.gpus import group_sentences, own_or_waited
from cpugpu_tui.render.verdicts import remark
from cpugpu_tui.report.report import judged
from cpugpu_tui.session.fleet_state import FleetState, HostState
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

LONGEST_WHY = 300
"""Most characters of a message that a row shows; a host may send thousands."""


@dataclass(frozen=True)
class FleetRow:
    """One case on one GPU of one host, beside that host's CPU."""

    host: str
    run: RunState
    gpu: Device | None
    """None on a host without one."""
    whole: Row
    """The row with the times of all GPUs of its host."""
    why: str = ""
    """Why the case has no result, in a few words; empty if it has or may still get one."""

    @cached_property
    def row(self) -> Row:
        """The row with the times of this GPU only."""
        return self.whole if self.gpu is None else self.whole.on(self.gpu.name)

    def text(self, key: str) -> str:
        """Return the text of a column; the speedup with its interval."""
        if self.row.status in ("mismatch", "skipped"):  # its times must not be shown
            return NONE
        found = judged(self.run, self.row).comparison if key == Key.SPEEDUP else None
        if found is not None:
            return speedup_text(found)
        return COLUMNS[key].text(self.run, self.row)

    def remarks(self, common: Collection[str] = ()) -> str:
        """Return why it has no result, or its marks except the `common` ones."""
        return self.why or ("" if self.row.failure is not None else remark(self.run, self.row, common))


def fleet_rows(state: FleetState) -> list[FleetRow]:
    """Return the rows ordered by sweep, size and host (inventory order)."""
    places = {name: place for place, name in enumerate(state.hosts)}
    sweeps: dict[tuple[str, str, str, int], int] = {}
    found = []
    for each in state.hosts.values():
        for row in host_rows(each):
            sweeps.setdefault(row.whole.case.sweep, len(sweeps))
            found.append(row)
    return sorted(found, key=lambda row: (sweeps[row.whole.case.sweep], row.whole.case.size, places[row.host]))


def host_rows(each: HostState) -> Iterator[FleetRow]:
    """Yield a host's cases on each of its GPUs, or on its CPU if it has no GPU."""
    for row in each.run.rows.values():
        for gpu in each.run.gpus or (None,):
            yield FleetRow(each.host.host, each.run, gpu, row, _why(each, row))


def _why(each: HostState, row: Row) -> str:
    """Return why a case has no result; a reason for the whole run is shown once, with its host."""
    failure = row.failure
    if failure is None:
        return ""
    is_of_run = each.run.finished is not None and failure.message == each.run.finished.message
    if failure.kind == "skipped" and is_of_run:
        return failure.kind
    return f"{failure.kind}: {printable(failure.message, LONGEST_WHY)}"


def machine_text(each: HostState) -> str:
    """Return a host's GPUs, `4 × NVIDIA H200`, or its processor without a GPU; empty until known."""
    labels = [device.label for device in each.run.gpus]
    if labels:
        return ", ".join(counted(labels))
    cpu = next((device.label for device in each.run.devices if device.is_cpu), "")
    return f"no GPU: {cpu}" if cpu else ""


def cases_text(each: HostState) -> str:
    """Return the progress of a host's run: `11 of 14, 1 failed, 2 skipped`; these add up at the end."""
    if not each.run.rows:
        return ""
    counts = {"failed": each.run.failed, "skipped": each.run.skipped}
    others = [f", {count} {word}" for word, count in counts.items() if count]
    before = f", {each.failed_before} failed before" if each.failed_before else ""
    return f"{each.run.done} of {len(each.run.rows)}{''.join(others)}{before}"


def doing_text(each: HostState) -> str:
    """Return the host's current step, in a few words; empty without one."""
    current = each.run.current
    if each.is_over or current is None:
        return ""
    row = each.run.rows.get(current.case)
    where = f"{row.case.workload} {size_text(row.case.size)}, " if row is not None else ""
    return f"{where}{current.phase}{f' on {current.device}' if current.device else ''}"


def says(each: HostState) -> str:
    """Return the first sentence of a host's answer; empty without one."""
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
        "gpus": [{"device": gpu.name, "label": gpu.label, "uuid": gpu.uuid} for gpu in each.run.gpus],
        "cases": len(each.run.rows), "settled": each.run.settled, "failed": each.failed,
        "skipped": each.run.skipped,
        "runs": numbers_of(each), "run_ids": [run.run_id for run in each.runs],
    }  # fmt: skip


# ------------------------------------------------------------------ GPUs of all hosts beside each other


@dataclass(frozen=True)
class FleetStanding:
    """The standing of each GPU among all of its model."""

    models: Mapping[str, str]
    """GPU, as `named` → its model."""
    cases: Mapping[str, Mapping[str, Standing]] = field(default_factory=dict)
    """Case → GPU → its standing there."""
    found: Mapping[str, Standing] = field(default_factory=dict)
    """GPU → its standing over all cases."""

    def mark(self, row: FleetRow) -> str:
        """Return how slow a GPU is in a row, in a few words; empty if it is not slow."""
        name = named(row)
        standing = self.cases.get(row.whole.case.key, {}).get(name) if name is not None else None
        return f"slow: +{percent(standing.ratio - 1)} %" if standing is not None and standing.is_slow else ""

    def slow_of(self, host: str) -> tuple[str, ...]:
        """Return a sentence for each slow GPU of a host."""
        return tuple(
            f"{name} is slow: {percent(each.ratio - 1)} % slower than the median of the {each.alike} "
            f"{self.models[name]}."
            for name, each in self.found.items()
            if each.is_slow and name.startswith(f"{host} ")
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """For each model with several GPUs: which GPUs are slow, or how alike they are."""
        lines: list[str] = []
        for model in dict.fromkeys(self.models.values()):
            found = {name: each for name, each in self.found.items() if self.models[name] == model}
            if found:
                lines += group_sentences(model, found, list(self.cases.values()))
        return tuple(lines)


def standing_of(rows: Iterable[FleetRow]) -> FleetStanding:
    """Return the standing of the GPUs of these rows, by the times so far."""
    by_case: dict[str, list[FleetRow]] = {}
    models: dict[str, str] = {}
    for row in rows:
        name = named(row)
        if name is not None and row.gpu is not None:
            models[name] = row.gpu.label
            by_case.setdefault(row.whole.case.key, []).append(row)
    times = {case: _times_ns(each, models) for case, each in by_case.items()}
    cases = {case: standings(each, models) for case, each in times.items()}
    return FleetStanding(models, cases, overall(list(times.values()), models))


def named(row: FleetRow) -> str | None:
    """Return a GPU's name in a fleet: its host and its name there; None without a GPU."""
    return f"{row.host} {row.gpu.name}" if row.gpu is not None else None


def _times_ns(rows: Sequence[FleetRow], models: Mapping[str, str]) -> dict[str, float]:
    timed = [row for row in rows if row.gpu is not None and row.whole.status in ("active", "ok")]
    found = {f"{row.host} {gpu}": times for row in timed for gpu, times in row.row.times.items() if gpu != "cpu"}
    return own_or_waited(found, models)
