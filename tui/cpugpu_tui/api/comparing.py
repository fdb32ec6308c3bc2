"""`compare`: two codes on each device from Python, as `cpugpu-tui time NEW --against OLD` compares them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from statistics import geometric_mean
from typing import Any

from cpugpu_tui.analysis.compare import Judged
from cpugpu_tui.api.arguments import Arguments, Rows, axes_for, checked
from cpugpu_tui.api.subject import said_in_python
from cpugpu_tui.api.timing import Sizes, What
from cpugpu_tui.cli.output.tables import comparison_text
from cpugpu_tui.cli.running.modes import Printed
from cpugpu_tui.cli.running.options import RunOptions
from cpugpu_tui.cli.running.saving import save_rest, saving
from cpugpu_tui.compare.comparison import SeriesComparison
from cpugpu_tui.compare.in_turn import Played, code_sides, duet_plan, play
from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.model import OwnCode
from cpugpu_tui.render.comparison import code_answer, percent_text, placebo_lines, summary
from cpugpu_tui.render.gpus import simulated_words
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.repeat import pair_words
from cpugpu_tui.session.typed_code import with_names_of_both
from cpugpu_tui.store import with_saved_peaks


@said_in_python()
def compare(
    new: What,
    old: What,
    sizes: Sizes = 512,
    *,
    setup: str = "",
    old_setup: str | None = None,
    let: Mapping[str, object] | None = None,
    dtype: object = None,
    threads: int | str | None = None,
    device: str | Sequence[str] | None = None,
    in_place: bool = False,
    max_seconds: float | None = None,
    simulate: str | None = None,
    save: bool = False,
) -> Comparison:
    """Compare two codes on each device, in fresh processes that are timed in turn, with a placebo.

    Args:
        new: an expression, `file.py:function`, or a function that another process can import.
        old: what it is compared with.
        sizes: `512`, `[16, 64]`, or `"16:4096"` to narrow the size at which the verdict changes.
        setup: lines of Python that make the inputs of an expression.
        old_setup: those of `old`, if they differ.
        let, dtype, threads, device, in_place, max_seconds, simulate, save: as in `crossover`.

    Raises:
        UsageError: an argument or the code is wrong, or the code exists only in this process.
        UnfitError: nothing could be compared.
    """
    began_s, older = time.monotonic(), (setup, "setup") if old_setup is None else (old_setup, "old_setup")
    asked, other = (checked(
        what, sizes, setup=lines, let=let, inputs=None, dtype=dtype, threads=threads, device=device, in_place=in_place,
        rounds=None, starts=None, max_seconds=max_seconds, simulate=simulate, save=save,
        called=(side, "sizes", of_side),
    ) for what, side, (lines, of_side) in ((new, "new", (setup, "setup")), (old, "old", older)))  # fmt: skip
    typed = replace(_typed(other), setup_option="--setup" if old_setup is None else "--old-setup")
    codes, olds = with_names_of_both([_typed(asked)], [typed])
    request = asked.request._replace(
        names=(codes[0].name,), own=OwnWorkloads(codes=codes), starts=1, pair=pair_words(codes, olds)
    )
    sides = code_sides(codes, olds, None)
    plan = with_saved_peaks(duet_plan(request, sides, "process"), None, save=asked.save)
    options = RunOptions(save=asked.save)
    with saving(options) as outbox:
        played = play(request, plan, sides, outbox, Printed(options, is_quiet=True), began_s)
        save_rest(outbox, 0)
    if not all(series.runs for series in played.series):
        raise UnfitError(_why(played) or "No size was timed. Allow more time with max_seconds.")
    try:
        (found,) = played.found()
    except (UsageError, UnfitError) as error:
        raise (UnfitError(_why(played)) if played.notices else error) from None
    return Comparison.of(found, played)


def _why(played: Played) -> str:
    """Return what was noted while a duet ran."""
    return " ".join(dict.fromkeys(each.removeprefix("cpugpu-tui: ") for each in played.notices))


def _typed(asked: Arguments) -> OwnCode:
    """Return the code of a side, which fresh processes must be able to load.

    Raises:
        UsageError: it exists only in this process.
    """
    code = asked.subject.code
    if asked.subject.own is not None:
        raise UsageError(
            f"{code.statement} runs in this process alone ({code.target[1]}), and a comparison needs fresh processes.",
            "Put it into a file, and write values in let as text.",
        )
    return code


@dataclass(frozen=True)
class ComparedRow:
    """One time of a size on one device, in both codes."""

    size: int
    device: str
    """`CPU`, `GPU`, or `GPU kernels` for the kernel time."""
    new_ns: float | None
    """Geometric mean over the pairs of processes, nanoseconds; None if it cannot be compared."""
    old_ns: float | None
    ratio: float | None
    """Time of the new code / time of the old one: above 1 the new one is slower."""
    low: float | None
    """Lower end of the interval that decided the verdict."""
    high: float | None
    verdict: str
    """`FASTER`, `SLOWER`, `SAME`, `UNDECIDED`, `TOO FEW RUNS` or `NOT COMPARABLE`."""
    why: str
    """Why it cannot be compared; empty if it can."""


@dataclass(frozen=True)
class Comparison(Rows):
    """Where and by how much a code is faster than another. `print` shows the table."""

    answer: str
    """The sentences below the table: at which sizes the new code is faster or slower, or what would have been found."""
    placebo_moved: bool
    """Whether a code differed from itself: then nothing is said."""
    notices: tuple[str, ...] = field(repr=False)
    """What failed, a sentence each, such as results that differ."""
    rows: tuple[ComparedRow, ...] = field(repr=False)
    found: SeriesComparison = field(repr=False, compare=False)
    """Everything that is known, not part of the stable interface."""

    @classmethod
    def of(cls, found: SeriesComparison, played: Played) -> Comparison:
        """Return the comparison that a duet gave."""
        moved = bool(found.placebo_moved)
        mark = simulated_words(found.base.runs[0])
        answer = mark + " ".join(placebo_lines(found) if moved else code_answer(found) or summary(found))
        return cls(answer, moved, tuple(played.notices), tuple(row for each in found.judged for row in _rows(each)),
                   found)  # fmt: skip

    def table(self) -> str:
        """Return what `cpugpu-tui time NEW --against OLD` prints."""
        return comparison_text(self.found)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return f"<pre>{escape(self.table())}</pre>"

    def plot(self, axes: Any = None) -> Any:
        """Draw the change over the sizes with its intervals, a line for each device. Return matplotlib's axes.

        Raises:
            UsageError: `axes` are not axes of matplotlib.
            UnfitError: matplotlib is not installed.
        """
        axes = axes_for(axes)
        for device in dict.fromkeys(row.device for row in self.rows):
            shown = [row for row in self.rows if row.device == device and row.ratio and row.low and row.high]
            errors = [[row.ratio - row.low for row in shown], [row.high - row.ratio for row in shown]]  # type: ignore[operator]
            axes.errorbar([row.size for row in shown], [row.ratio for row in shown], yerr=errors, marker="o",
                          capsize=3, label=device)  # fmt: skip
        axes.axhline(1.0, linewidth=0.8, color="grey")
        axes.set_xscale("log")
        axes.set_xlabel("n")
        axes.set_ylabel("time of NEW / time of OLD")
        axes.yaxis.set_major_formatter(lambda ratio, _place: percent_text(ratio))
        axes.legend()
        return axes


def _rows(each: Judged) -> list[ComparedRow]:
    change = each.change
    low, high = (None, None) if change is None else (change.low, change.high)
    return [ComparedRow(
        size=pair.size, device=each.label,
        new_ns=geometric_mean(pair.new_ns.values()) if change is not None and pair.new_ns else None,
        old_ns=geometric_mean(pair.base_ns.values()) if change is not None and pair.base_ns else None,
        ratio=None if change is None else change.ratio, low=low, high=high, verdict=each.verdict, why=each.trouble,
    ) for pair in each.pairs]  # fmt: skip
