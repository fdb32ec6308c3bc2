"""GPUs of a whole fleet beside each other: which of a model are slow, whatever host they are in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cpugpu_tui.analysis.alike import Standing, overall, standings
from cpugpu_tui.model.quantities import percent
from cpugpu_tui.render.fleet_rows import FleetRow
from cpugpu_tui.render.gpus import group_sentences, own_or_waited


@dataclass(frozen=True)
class FleetStanding:
    """Where each GPU stands among all of its model."""

    models: Mapping[str, str]
    """GPU, as `named` → its model."""
    cases: Mapping[str, Mapping[str, Standing]] = field(default_factory=dict)
    """Case → GPU → where it stands there."""
    found: Mapping[str, Standing] = field(default_factory=dict)
    """GPU → where it stands over all cases."""

    def mark(self, row: FleetRow) -> str:
        """Return how slow a GPU is in a row, in a few words; empty where it is not."""
        name = named(row)
        standing = self.cases.get(row.row.case.key, {}).get(name) if name is not None else None
        return f"slow: +{percent(standing.ratio - 1)}%" if standing is not None and standing.is_slow else ""

    def slow_of(self, host: str) -> tuple[str, ...]:
        """Return which GPUs of a host are slow, a sentence each."""
        return tuple(
            f"{name} is slow: {percent(each.ratio - 1)}% over the median of the {each.alike} {self.models[name]}."
            for name, each in self.found.items()
            if each.is_slow and name.startswith(f"{host} ")
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """Who is slow, or how alike they are: of each model that more than one GPU is of."""
        said: list[str] = []
        for model in dict.fromkeys(self.models.values()):
            found = {name: each for name, each in self.found.items() if self.models[name] == model}
            if found:
                said += group_sentences(model, found, list(self.cases.values()))
        return tuple(said)


def standing_of(rows: Iterable[FleetRow]) -> FleetStanding:
    """Return where the GPUs of these rows stand; cases are judged by what is timed of them so far."""
    by_case: dict[str, list[FleetRow]] = {}
    models: dict[str, str] = {}
    for row in rows:
        name = named(row)
        if name is not None and row.gpu is not None:
            models[name] = row.gpu.label
            by_case.setdefault(row.row.case.key, []).append(row)
    times = {case: _times_ns(each, models) for case, each in by_case.items()}
    cases = {case: standings(each, models) for case, each in times.items()}
    return FleetStanding(models, cases, overall(list(times.values()), models))


def named(row: FleetRow) -> str | None:
    """Return what a GPU is called in a fleet: its host and its name there; None without one."""
    return f"{row.host} {row.gpu.name}" if row.gpu is not None else None


def _times_ns(rows: Sequence[FleetRow], models: Mapping[str, str]) -> dict[str, float]:
    times = {name: row.times for row in rows if (name := named(row)) is not None and row.row.status in ("active", "ok")}
    return own_or_waited({name: each for name, each in times.items() if each is not None}, models)
