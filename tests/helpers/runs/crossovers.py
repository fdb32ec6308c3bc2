"""The crossover of a sweep by one word, for tests of what `decide` judges. The report has its own classes."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cpugpu_tui.decide.comparison import GPU_WINS, TIE, TOO_FEW, SweepPoint
from cpugpu_tui.decide.crossover import changes_of, judged

NOTHING, TOO_FEW_ROUNDS, TIES, NO_WINNER, ALWAYS, NEVER, RISES, FALLS, SEVERAL = (
    "nothing timed", "too few rounds", "ties", "undecided", "always", "never", "crossover", "falls behind", "several"
)  # fmt: skip
"""Results of a sweep, in this order: no size timed on both devices; no interval anywhere; only ties; no winner;
the GPU wins at every decided size; the CPU wins at every one; the CPU wins up to the bracket and the GPU above; the
reverse; the winner changes more than once."""


class Crossover(NamedTuple):
    """Where the winner changes for the last time, and how often it changes."""

    kind: str
    """One of the kinds above."""
    low: int | None = None
    """Lower end of the bracket of the last change; None without a change."""
    high: int | None = None
    """Upper end of the bracket."""
    point: float | None = None
    """Size within the bracket at which the speedup is 1."""
    first_win: int | None = None
    """Smallest size at which the GPU wins; it can lie below `high` if the winner changes several times."""
    changes: int = 0
    """How often the winner differs between neighbouring decided sizes."""
    rises: bool = False
    """Whether the GPU is the winner above the bracket."""
    points: tuple[SweepPoint, ...] = ()
    """Its points in order of size, each size once."""

    @property
    def ratio(self) -> float | None:
        """Upper end / lower end; None without a bracket."""
        return self.high / self.low if self.low and self.high else None


def crossover(points: Iterable[SweepPoint]) -> Crossover:
    """Return the crossover of a sweep; points in any order."""
    usable = judged(points)
    decided = [point for point in usable if point.comparison.winner is not None]
    if not decided:
        return Crossover(_without_winner(usable), points=usable)
    wins = [point.size for point in decided if point.comparison.winner == GPU_WINS]
    changes = changes_of(usable)
    first_win = min(wins, default=None)
    if not changes:
        return Crossover(ALWAYS if wins else NEVER, first_win=first_win, rises=bool(wins), points=usable)
    last = changes[-1]
    kind = SEVERAL if len(changes) > 1 else RISES if last.rises else FALLS
    return Crossover(kind, last.low, last.high, last.point, first_win, len(changes), last.rises, usable)


def _without_winner(points: Sequence[SweepPoint]) -> str:
    verdicts = {point.comparison.verdict for point in points}
    if not verdicts:
        return NOTHING
    return {frozenset({TOO_FEW}): TOO_FEW_ROUNDS, frozenset({TIE}): TIES}.get(frozenset(verdicts), NO_WINNER)
