"""What rows are called in the table: whole where there is room, else without what all of them share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from cpugpu_tui.model import Case, SweepKey
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.state.state import RunState, once
from cpugpu_tui.state.thread_columns import is_column
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import spelled

NOT_SAVED = "*"
"""Mark before the name of a case that is over and not in the history."""


@dataclass(frozen=True)
class Names:
    """How the rows of a run are named in the cells there are."""

    is_short: bool = False
    """Whether names are without what all of them share: some would not fit."""
    shared: str = ""
    """What the names of all workloads begin with."""


NAMES_IN_FULL = Names()


def names_of(run: RunState, width: int, glyphs: Glyphs) -> Names:
    """Return how the rows are named in `width` cells; 0 for as many as it takes."""
    return Names(0 < width < name_widths(run, glyphs)[0], shared_start(run))


@once
def varying_of(run: RunState) -> frozenset[str]:
    """Return the fields that differ between the cases of a run."""
    cases = run.run.plan.cases if run.run is not None else ()
    fields = ("workload", "size", "variant", "dtype")
    names = {name for name in fields if len({getattr(case, name) for case in cases}) > 1}
    # Sweeps that differ in threads alone are columns of one row, which need not be told.
    if len({sweep[-1] for sweep in run.sweeps if not is_column(run, sweep)}) > 1:
        names.add("threads")
    return frozenset(names)


def telling(run: RunState, case: Case) -> frozenset[str]:
    """Return the fields that a row's name tells; threads too where it is the row of fewer threads alone."""
    return varying_of(run) | ({"threads"} if is_column(run, case.sweep) else frozenset())


def shared_start(run: RunState) -> str:
    """Return the words that the names of all workloads begin with: `mnist-mlp` of itself and `mnist-mlp-wide`."""
    names = {sweep[0] for sweep in run.sweeps}
    words = takewhile(lambda same: len(set(same)) == 1, zip(*(name.split("-") for name in names), strict=False))
    return "-".join(word for word, *_ in words) if len(names) > 1 else ""


def name_widths(run: RunState, glyphs: Glyphs) -> tuple[int, int]:
    """Return the cells of the longest name of a row, and of the longest without what all of them share."""
    if "name widths" not in run.derived:  # it is asked for with every key
        shared = shared_start(run)
        longest: dict[SweepKey, Case] = {}
        for row in run.rows.values():
            known = longest.get(row.case.sweep)
            if known is None or len(size_text(row.case.size)) > len(size_text(known.size)):
                longest[row.case.sweep] = row.case
        told = [(case, telling(run, case)) for case in longest.values()]
        full = max((len(case_text(case, names)) for case, names in told), default=0)
        short = max((len(short_text(case, names, shared, glyphs)) for case, names in told), default=0)
        mark = 0 if all(row.saved for row in run.rows.values()) else len(NOT_SAVED)
        run.derived["name widths"] = (full + mark, short + mark)
    found: tuple[int, int] = run.derived["name widths"]
    return found


def case_text(case: Case, varying: frozenset[str]) -> str:
    """Return what tells a case from its neighbours: `matmul 512`, `vector-dot 1M dot`."""
    return " ".join([case.workload, *_beside_name(case, varying)])


def short_text(case: Case, varying: frozenset[str], shared: str, glyphs: Glyphs) -> str:
    """Return the same without what all rows share: `512`, `1000 add-out`, `…-wide cuda-graph`."""
    size, *others = _beside_name(case, varying)
    name = case.workload.removeprefix(shared) if "workload" in varying else ""
    start = [spelled("…", glyphs) + name] if shared and name else [name] if name else []
    is_needed = "size" in varying or not others
    return " ".join([*start, *([size] if is_needed else []), *others])


def _beside_name(case: Case, varying: frozenset[str]) -> list[str]:
    """Return the size, and what else differs between the cases."""
    parts = [size_text(case.size)]
    if "variant" in varying and case.variant != "default":
        parts.append(case.variant)
    if "dtype" in varying:
        parts.append(case.dtype)
    if "threads" in varying:
        parts.append(f"{case.threads or 'all'} thread{'' if case.threads == 1 else 's'}")
    return parts


def fitted_case(case: Case, names: Names, varying: frozenset[str], width: int, glyphs: Glyphs) -> str:
    """Return the name of a row; one that is too long even without the shared part is cut in its middle.

    Sizes stay whole, and so does the end of a variant: `1000 add` and `10000 add-out` look different at every width.
    """
    if not names.is_short:
        return case_text(case, varying)
    text, sign = short_text(case, varying, names.shared, glyphs), glyphs.ellipsis
    if len(text) <= width:
        return text
    is_size_first = "size" in varying and "workload" not in varying
    size, _, rest = text.partition(" ") if is_size_first else ("", "", text)
    head = f"{size} " if size else ""
    return head + sign + rest[len(rest) - max(width - len(head) - len(sign), 0) :]
