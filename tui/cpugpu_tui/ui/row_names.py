"""Names of rows in the table: full if there is room, else without the parts that all rows share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from cpugpu_tui.model import Case, SweepKey
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render.rows import is_column
from cpugpu_tui.state.state import RunState, once
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import spelled

NOT_SAVED = "*"
"""Mark before the name of a finished case that is not in the history."""


@dataclass(frozen=True)
class Names:
    """How the rows of a run are named at the current width."""

    is_short: bool = False
    """Whether the shared parts are left out, because some names would not fit."""
    shared: str = ""
    """Common beginning of the names of all workloads."""


NAMES_IN_FULL = Names()


def names_of(run: RunState, width: int, glyphs: Glyphs) -> Names:
    """Return how to name the rows in `width` cells; 0 for unlimited."""
    return Names(0 < width < name_widths(run, glyphs)[0], shared_start(run))


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
    if "name widths" not in run.derived:  # needed at every key press
        shared = shared_start(run)
        longest: dict[SweepKey, Case] = {}
        for row in run.rows.values():
            known = longest.get(row.case.sweep)
            if known is None or len(size_text(row.case.size)) > len(size_text(known.size)):
                longest[row.case.sweep] = row.case
        named = [(case, telling(run, case)) for case in longest.values()]
        full = max((len(case_text(case, names)) for case, names in named), default=0)
        short = max((len(short_text(case, names, shared, glyphs)) for case, names in named), default=0)
        mark = 0 if all(row.saved for row in run.rows.values()) else len(NOT_SAVED)
        run.derived["name widths"] = (full + mark, short + mark)
    found: tuple[int, int] = run.derived["name widths"]
    return found


def case_text(case: Case, varying: frozenset[str]) -> str:
    """Return the full name of a case: `matmul 512`, `vector-dot 1M dot`."""
    return " ".join([case.workload, *_beside_name(case, varying)])


def short_text(case: Case, varying: frozenset[str], shared: str, glyphs: Glyphs) -> str:
    """Return the name without the parts that all rows share: `512`, `1000 add-out`, `…-wide cuda-graph`."""
    size, *others = _beside_name(case, varying)
    name = case.workload.removeprefix(shared) if "workload" in varying else ""
    start = [spelled("…", glyphs) + name] if shared and name else [name] if name else []
    is_needed = "size" in varying or not others
    return " ".join([*start, *([size] if is_needed else []), *others])


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
    """Return the name of a row. If even the short name is too long, its middle is cut.

    The size and the end of the variant stay whole, so that `1000 add` and `10000 add-out` differ at every width.
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
