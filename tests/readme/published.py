"""What others published, and which figure of our recordings stands beside it: the table of docs/crossovers.md.

Links with a name, such as `[mlx]`, are defined at the end of that page.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import tomllib

from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.session.repeat import repeat_commands

from .found import DEMO, SURVEY, Crossover, Gain, GpuTime, Pinned, Place, Query, Speedup, runs

HEADER = ("workload", "published", "hardware and software", "source", "found here", "agree?")


class Row(NamedTuple):
    """A published result, and what it is set beside."""

    workload: str
    published: str
    hardware: str
    source: str
    queries: tuple[Query, ...] = ()
    """How to find each of its figures here; empty if nothing here is like it."""
    variant: str = ""
    unlike: str = ""
    """Why its figures are not compared: another type, work or kind of GPU."""
    remark: str = ""
    """What else differs in the work; its figures are compared."""
    of: str = SURVEY

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells after the workload."""
        place = Place(self.of, self.workload, self.variant)
        found = [query.finding(place) for query in self.queries]
        text = "; ".join(filter(None, [*dict.fromkeys(each.text for each in found), self.remark]))
        here = "".join([f"`{self.variant}`, " if self.variant else "", text, " (demo)" if self.of == DEMO else ""])
        # A figure that disagrees decides, then one that agrees.
        agrees = min((each.agrees for each in found), key=lambda word: "ny–".index(word[0]), default="–")
        return self.published, self.hardware, self.source, here or "–", f"– ({self.unlike})" if self.unlike else agrees


def compared() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table; a workload is named in its first one."""
    for workload, rows in groupby(ROWS, key=lambda row: row.workload):
        for number, row in enumerate(rows):
            yield ("" if number else f"`{workload}`", *row.cells)


def recordings() -> str:
    """Return what each recording is: machine, dates, versions and commands."""
    lines = []
    for name, title in ((SURVEY, "The survey"), (DEMO, "The demo's recording, marked (demo)")):
        found = runs(name)
        facts, gpu = found[0].started.environment, found[0].state.gpu
        machine = f"{gpu.label}, {facts['cpu']}, {facts['threads']} threads, torch {facts['torch']}"
        lines.append(f"- {title}: {machine}.")
        for (day, version), some in groupby(sorted(found, key=lambda run: run.started.wall_ns), key=_made):
            # Version 0.2 saved no command with a search.
            named = [repeat_commands(run.started) or (f"cpugpu-tui run {run.started.plan.name}",) for run in some]
            commands = "; ".join(f"`{command}`" for each in named for command in each)
            lines.append(f"  - {day}, version {version}: {commands}")
    return "\n".join(lines)


def _made(run: ExportedRun) -> tuple[str, str]:
    day = datetime.fromtimestamp(run.started.wall_ns / 1e9, tz=timezone.utc)
    return f"{day:%Y-%m-%d}", str(run.started.environment["version"])


def _row(fields: dict[str, Any]) -> Row:
    queries = tuple(KINDS[each.pop("kind")](**each) for each in fields.pop("queries", ()))
    return Row(**{**fields, "of": DEMO if fields.get("of") == "demo" else SURVEY}, queries=queries)


KINDS: dict[str, Callable[..., Query]] = {each.__name__: each for each in (Crossover, Gain, GpuTime, Pinned, Speedup)}
ROWS = tuple(map(_row, tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["row"]))
