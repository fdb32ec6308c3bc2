"""Metrics in the text format of OpenMetrics, which Prometheus and its node exporter read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cpugpu_tui.machine.text import printable

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\""})


@dataclass(frozen=True)
class Gauge:
    """A metric with a value for each combination of labels."""

    name: str
    """Ends with its unit, if it has one."""
    meaning: str
    unit: str
    """In words of the format, such as `seconds`; empty for none."""
    values: tuple[tuple[Mapping[str, str], float], ...]


def text_of(gauges: Iterable[Gauge]) -> str:
    """Return the gauges that have values."""
    lines: list[str] = []
    for each in gauges:
        if not each.values:
            continue
        lines += [f"# HELP {each.name} {each.meaning}", f"# TYPE {each.name} gauge"]
        lines += [f"# UNIT {each.name} {each.unit}"] if each.unit else []
        for labels, value in each.values:
            pairs = ",".join(f'{name}="{printable(label).translate(_ESCAPES)}"' for name, label in labels.items())
            lines.append(f"{each.name}{{{pairs}}} {value!r}")
    return "\n".join([*lines, "# EOF", ""])
