"""Sizes that two surveys in fresh starts of the process decide differently.

`python -m tests.helpers.bench.two_surveys 12 13` takes two runs of the history, and `a.db b.db:3` the newest run of one
database and run 3 of another. Beside each such size stands the spread between starts, as far as two tell: the robust
standard deviation of ln(speedup) over all sizes of its workload that both timed.
"""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.cli.past_runs import reading
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import work_name
from cpugpu_tui.report.report import report
from cpugpu_tui.report.segments import Size
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState

INPUTS = {RESIDENT: "resident", END_TO_END: "with copies"}


class Both(NamedTuple):
    """A size that both surveys timed."""

    name: str
    one: Size
    other: Size
    spread: float
    """Standard deviation of ln(speedup) between starts."""

    @property
    def is_decided(self) -> bool:
        """Whether both name a winner."""
        return None not in (self.one.winner, self.other.winner)

    @property
    def differs(self) -> bool:
        """Whether they name different ones."""
        return self.is_decided and self.one.winner != self.other.winner


def shared(one: RunState, other: RunState) -> Iterator[Both]:
    """Yield the sizes that both surveys timed, with resident inputs and with copies."""
    others = {each.sweep: each for each in report(other).sweeps}
    for sweep in (each for each in report(one).sweeps if each.sweep in others):
        for key, inputs in INPUTS.items():
            again = {size.size: size for size in others[sweep.sweep].under(key).timed}
            pairs = [(size, again[size.size]) for size in sweep.under(key).timed if size.size in again]
            moved = [abs(math.log(_speedup(new) / _speedup(old))) for old, new in pairs]
            spread = 1.4826 * median(moved) / math.sqrt(2) if moved else 0.0
            yield from (Both(f"{work_name(sweep.sweep)} {inputs}", old, new, spread) for old, new in pairs)


def _speedup(size: Size) -> float:
    return size.comparison.speedup if size.comparison is not None else 1.0


def _text(size: Size) -> str:
    found = size.comparison
    ends = f" ({found.low:.2f}-{found.high:.2f})" if found and found.low and found.high else ""
    return f"{size.winner} {_speedup(size):.2f}x{ends}"


def survey_of(name: str) -> RunState:
    """Return a run: RUN of the history, DATABASE for its newest one, or DATABASE:RUN."""
    database, _, run = name.partition(":")
    is_file = Path(database).is_file()
    with reading(Path(database) if is_file else None, must_exist=True) as store:
        return folded(store.load(store.find((run or "latest") if is_file else name)))


def main() -> None:
    """Print the sizes that two runs decide differently, and their share of those that both decide."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    one, other = map(survey_of, sys.argv[1:])
    found = list(shared(one, other))
    decided = sum(each.is_decided for each in found)
    for each in filter(lambda each: each.differs, found):
        print(f"{each.name} {each.one.size:,}: {_text(each.one)}, then {_text(each.other)}; starts ± {each.spread:.0%}")
    count = sum(each.differs for each in found)
    print(f"{count} of {decided} sizes that both decide differ ({count / max(1, decided):.1%}, at most 5 % asked); "
          f"{len(found)} were timed in both.")  # fmt: skip


if __name__ == "__main__":
    main()
