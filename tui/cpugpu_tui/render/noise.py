"""The noise floor of a machine in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cpugpu_tui.analysis.compare import MIN_RUNS
from cpugpu_tui.compare.comparison import differences
from cpugpu_tui.compare.series import Floor, Series, floors, grown
from cpugpu_tui.model.quantities import count_of, factor, joined, plus_minus, time_text


def columns(runs: Iterable[int]) -> list[str | tuple[str, bool]]:
    """Return the headings, False beside those of numbers."""
    return ["case", "time", ("median", False), ("spread", False), *((count_of(each, "run"), False) for each in runs)]


def cells(found: Floor, runs: Iterable[int]) -> list[str]:
    """Return a floor as the cells of a row."""
    workload, _, size, *_ = found.case.split("/")
    name = f"{workload} {int(size):,}"
    return [name, found.label, time_text(found.median_ns), _percent(found.spread),
            *(_percent(found.change(each)) for each in runs)]  # fmt: skip


def _percent(share: float) -> str:
    return plus_minus(share).removeprefix("± ")


def lines(now: Series, found: Sequence[Floor], before: Series | None) -> list[str]:
    """Return what the columns mean, and what grew since the last time."""
    said = [
        f"spread: standard deviation between {count_of(len(now.runs), 'fresh process', 'fresh processes')}.",
        "1 run: by chance alone, two single runs differ by more in 5 % of pairs. "
        f"{MIN_RUNS} runs or more on each side: the smallest change that `compare` finds in 90 % of its comparisons.",
    ]  # fmt: skip
    if before is None:
        return said
    when = before.text
    noisier = [f"{label} {factor(by)}" for label, by in grown(floors(before.runs), found).items()]
    if not noisier:
        return [*said, f"No noisier than {when}."]
    changed = [f"{each.what}: {each.base} before, {each.new} now" for each in differences(before.runs, now.runs)]
    starved = now.starved_cases[0]
    changed += [f"{count_of(starved, 'case')} had no free CPU core"] if starved else []
    why = f" What differs: {joined(changed)}." if changed else " No difference in machine or settings is known."
    return [*said, f"Noisier than {when}: {joined(noisier)}.{why}"]
