"""Reports of one sweep whose comparisons are planted, for each condition."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cpugpu_tui.analysis.costs import END_TO_END, ONE_THREAD, RESIDENT, Decomposition
from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, TIE, TOO_FEW, UNDECIDED, Comparison, SweepPoint
from cpugpu_tui.model import DEVICE, DEVICE_WARM, PAGEABLE, PINNED, Case
from cpugpu_tui.report.report import Printed, SweepReport
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.row import Row

AXIS = "n of two n×n matrices"

LETTERS = {
    "C": Comparison(0.5, 0.495, 0.505, 8, CPU_WINS), "G": Comparison(2.0, 1.98, 2.02, 8, GPU_WINS),
    "=": Comparison(1.0, 0.99, 1.01, 8, TIE), "?": Comparison(1.0, 0.95, 1.05, 8, UNDECIDED),
    "~": Comparison(1.3, 0.7, 2.4, 8, UNDECIDED), "-": Comparison(1.0, None, None, 3, TOO_FEW),
}  # fmt: skip
"""C or G wins, = is a tie, ? is close, ~ noisy, - has too few rounds."""


def sweep(letters: str) -> list[SweepPoint]:
    """Return sizes 10, 20, 40, … with a letter each; `.` was not timed."""
    return [SweepPoint(10 * 2**place, LETTERS[letter]) for place, letter in enumerate(letters) if letter in LETTERS]


@dataclass(frozen=True, eq=False)
class PlantedReport(SweepReport):
    """A report with planted causes and times by the paper's clock."""

    calls: tuple[Decomposition | None, Decomposition | None] = (None, None)
    clock: tuple[Printed, ...] = ()

    def cause(self, *, moved: bool) -> Decomposition | None:
        return self.calls[moved]

    @property
    def printed(self) -> tuple[Printed, ...]:
        return self.clock


def planted(
    resident: str | Iterable[SweepPoint], worlds: Mapping[str, str | Iterable[SweepPoint]] | None = None,
    threads: int = 4, axis: str = AXIS, calls: tuple[Decomposition | None, Decomposition | None] = (None, None),
    clock: tuple[Printed, ...] = (),
) -> SweepReport:  # fmt: skip
    """Return a report of these comparisons with the inputs on the GPU, and of those of other `worlds` by key."""
    found = {key: sweep(points) if isinstance(points, str) else list(points)
             for key, points in {RESIDENT: resident, **(worlds or {})}.items()}  # fmt: skip
    own: dict[int, dict[str, Comparison]] = {}
    for key, points in found.items():
        for size, comparison in points if key != ONE_THREAD else ():
            own.setdefault(size, {})[key] = comparison
    rows = tuple(_row(size, own[size]) for size in sorted(own))
    one_thread = tuple(_row(size, {ONE_THREAD: each}) for size, each in sorted(dict(found.get(ONE_THREAD, ())).items()))
    case = rows[0].case if rows else Case("matmul", 1)
    return PlantedReport(case.sweep, None, axis, threads, rows, one_thread, calls=calls, clock=clock)


def with_copies(letters: str, moved: str) -> SweepReport:
    """Return a report of a sweep with and without copies."""
    return planted(letters, {END_TO_END: moved} if moved else {})


def _gpu_rounds(size: int, planted: Comparison) -> dict[int, float]:
    """Return times of a GPU that go up and down if no winner is planted, so that no few of them show one."""
    wander = 3.0 if planted.winner is None and planted.low is not None else 1.0
    return {index: _SIZE_NS * size * wander ** (-1) ** index for index in range(max(planted.rounds, 1))}


_SIZE_NS = 1e5
"""Time of the GPU for each unit of a size."""


def _row(size: int, comparisons: Mapping[str, Comparison]) -> Row:
    """Return a row of which the comparisons are planted, with rounds that have their speedups."""
    first = comparisons.get(RESIDENT) or next(iter(comparisons.values()))
    rounds = range(max(first.rounds, 1))
    gpu_ns = _SIZE_NS * size
    others = {metric: dict.fromkeys(rounds, gpu_ns) for metric in (PAGEABLE, PINNED, DEVICE, DEVICE_WARM)}
    others[PAGEABLE] = _gpu_rounds(size, comparisons.get(END_TO_END, first))
    times = {
        "cpu": DeviceTimes("cpu", round_ns={index: gpu_ns * first.speedup for index in rounds}),
        "cuda:0": DeviceTimes("cuda:0", round_ns=_gpu_rounds(size, first), other_round_ns=others),
    }
    row = Row(Case("matmul", size), status="ok", times=times)
    object.__setattr__(row, "_kept_own_comparison", first)
    object.__setattr__(row, "_kept_in_worlds", dict(comparisons))
    return row
