"""The names of rows in the timing table: in full, or without what all rows share. Pure functions."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from cpugpu_tui.model import Case
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.report.report import is_column
from cpugpu_tui.state.state import RunState, once
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import spelled

NOT_SAVED = "*"
"""Mark before the name of a finished case that is not in the history."""


class Names(NamedTuple):
    """How the rows of a run are named at the current width."""

    is_short: bool = False
    """Whether the shared parts are left out, because some names would not fit."""
    shared: str = ""
    """Common beginning of the names of all workloads."""


NAMES_IN_FULL = Names()

LEAST_VARIANT = 3
"""Fewest cells of a variant behind workload and size; a shorter one is left out."""


def names_of(run: RunState, width: int, glyphs: Glyphs) -> Names:
    """Return how to name the rows in `width` cells; 0 for unlimited."""
    return Names(0 < width < name_widths(run, glyphs)[0] or is_typed(run), shared_start(run))


def is_typed(run: RunState) -> bool:
    """Whether all rows are of one typed code, whose internal name says nothing."""
    return run.run is not None and bool(run.run.plan.codes) and "workload" not in varying_of(run)


@once
def varying_of(run: RunState) -> frozenset[str]:
    """Return the fields that differ between the cases of a run."""
    cases = run.run.plan.cases if run.run is not None else ()
    fields = ("workload", "size", "variant", "dtype")
    names = {name for name in fields if len({getattr(case, name) for case in cases}) > 1}
    # Sweeps that differ only in threads are columns of one row, so their rows need no name for it.
    if len({sweep[-1] for sweep in run.sweeps if not is_column(run, sweep)}) > 1:
        names.add("threads")
    return frozenset(names)


def telling(run: RunState, case: Case) -> frozenset[str]:
    """Return the fields in a row's name; also the threads if the row exists only with fewer threads."""
    return varying_of(run) | ({"threads"} if is_column(run, case.sweep) else frozenset())


def shared_start(run: RunState) -> str:
    """Return the common first words of all workload names: `mnist-mlp` for itself and `mnist-mlp-wide`."""
    names = {sweep[0] for sweep in run.sweeps}
    words = takewhile(lambda same: len(set(same)) == 1, zip(*(name.split("-") for name in names), strict=False))
    return "-".join(word for word, *_ in words) if len(names) > 1 else ""


def name_widths(run: RunState, glyphs: Glyphs) -> tuple[int, int]:
    """Return the cells of the longest full name and of the longest short name."""
    shared, named = shared_start(run), _longest_named(run)
    short = max((len(_joined(*_short_parts(case, names, shared, glyphs))) for case, names in named), default=0)
    full = short if is_typed(run) else max((len(case_text(case, names)) for case, names in named), default=0)
    mark = 0 if all(row.saved for row in run.rows.values()) else len(NOT_SAVED)
    return full + mark, short + mark


@once
def _longest_named(run: RunState) -> list[tuple[Case, frozenset[str]]]:
    """Return the case with the longest size in each sweep, and the fields in its name."""
    cases = ([row.case for row in rows] for rows in run.sweeps.values())
    longest = [max(each, key=lambda case: len(size_text(case.size))) for each in cases]
    return [(case, telling(run, case)) for case in longest]


def case_text(case: Case, varying: frozenset[str]) -> str:
    """Return the full name of a case: `matmul 512`, `vector-dot 1M dot`."""
    return " ".join([case.workload, *_beside_name(case, varying)])


def _short_parts(case: Case, varying: frozenset[str], shared: str, glyphs: Glyphs) -> tuple[str, str, str]:
    """Return workload, size and the rest of a short name (`1000 add-out`, `…-wide cuda-graph`); empty if shared."""
    size, *others = _beside_name(case, varying)
    name = case.workload.removeprefix(shared) if "workload" in varying else ""
    is_needed = "size" in varying or not others
    return spelled("…", glyphs) + name if shared and name else name, size if is_needed else "", " ".join(others)


def _beside_name(case: Case, varying: frozenset[str]) -> list[str]:
    """Return the size and the other fields that differ between the cases."""
    parts = [size_text(case.size)]
    if "variant" in varying and case.variant != "default":
        parts.append(case.variant)
    if "dtype" in varying:
        parts.append(case.dtype)
    if "threads" in varying:
        parts.append(f"{case.threads or 'all'} thread{'' if case.threads == 1 else 's'}")
    return parts


def fitted_case(case: Case, names: Names, varying: frozenset[str], width: int, glyphs: Glyphs) -> str:
    """Return the name of a row. If even the short name is too long, workload and variant are cut, never the size.

    `vector-dot 44740 dot` was once cut to `…4740 dot`. The end of the variant stays as long as possible, so that
    `1000 add` and `10000 add-out` differ at every width.
    """
    if not names.is_short:
        return case_text(case, varying)
    name, size, rest = _short_parts(case, varying, names.shared, glyphs)
    if not size:
        return _ending(_joined(name, rest), width, glyphs)
    if rest:
        room = width - len(size) - 1 - (min(len(name), len(glyphs.ellipsis)) + 1 if name else 0)
        rest = _ending(rest, room, glyphs) if room >= min(len(rest), LEAST_VARIANT) or not name else ""
    end = _joined(size, rest)
    return f"{_ending(name, width - len(end) - 1, glyphs)} {end}" if name else end


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _ending(text: str, width: int, glyphs: Glyphs) -> str:
    """Return the end of a text that is longer than `width` cells."""
    return text if len(text) <= width else glyphs.ellipsis + text[len(text) - max(width - len(glyphs.ellipsis), 0) :]
