"""A survey on a GPU of a recorded model, and what its CPU alone beside that reference would have answered.

`python -m tests.helpers.bench.beside_reference DATABASE h200` takes the newest run of a database. Both use the same CPU
times, so only the GPU, its host and its start differ. Asked: brackets overlap for 16 of 20 workloads, and the speedup
and its interval beside the reference meet those that were measured in 90 % of the rows.
"""

import math
import sys
from dataclasses import replace
from typing import NamedTuple

from tests.helpers.bench.two_surveys import INPUTS, survey_of

from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, Comparison
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import DEVICE, work_name
from cpugpu_tui.report.report import report
from cpugpu_tui.report.segments import Size
from cpugpu_tui.state.recorded_gpu import with_recorded
from cpugpu_tui.state.reference import Reference, find
from cpugpu_tui.state.state import RunState


class Bracket(NamedTuple):
    """The largest size that the CPU wins before the GPU does, and that size; 0 and infinite where there is none."""

    low: float
    high: float

    def __str__(self) -> str:
        """Return it as text."""
        return f"{self.low:,}-{self.high:,}"

    def meets(self, other: "Bracket") -> bool:
        """Whether some crossover lies in both."""
        return max(self.low, other.low) <= min(self.high, other.high)


def bracket_of(sizes: tuple[Size, ...]) -> Bracket | None:
    """Return the bracket of the first change to the GPU; None if no size has a winner."""
    cpu = [each.size for each in sizes if each.winner == CPU_WINS]
    high = min((each.size for each in sizes if each.winner == GPU_WINS), default=math.inf)
    return Bracket(max((size for size in cpu if size < high), default=0), high) if cpu or high < math.inf else None


def meet(one: Comparison, other: Comparison) -> bool | None:
    """Return whether two intervals have a value in common; None if one is open."""
    if None in (one.low, one.high, other.low, other.high):
        return None
    return max(one.low, other.low) <= min(one.high, other.high)


def without_gpu(run: RunState, sha256: str) -> RunState:
    """Return a run's CPU beside a reference."""
    rows = {key: replace(row, times={name: each for name, each in row.times.items() if name == "cpu"})
            for key, row in run.rows.items()}  # fmt: skip
    begun = replace(run.run, plan=replace(run.run.plan, beside=sha256))
    devices = tuple(each for each in run.devices if each.is_cpu)
    return with_recorded(replace(run, run=begun, devices=devices, rows=rows))


def kernel_differences(run: RunState, reference: Reference) -> list[float]:
    """Return |ln(kernel time / recorded one)| of the sizes that both timed, in rising order."""
    recorded = {(*each.sweep, each.size): each for each in reference.cases}
    found = []
    for row in run.rows.values():
        case = row.case
        known = recorded.get((case.workload, case.variant, case.dtype, case.size))
        mine = row.gpu.other_round_ns.get(DEVICE) if row.gpu is not None else None
        starts = [math.log(median(each[DEVICE])) for each in known.starts if each.get(DEVICE)] if known else []
        if mine and starts:
            found.append(abs(math.log(median(list(mine.values()))) - sum(starts) / len(starts)))
    return sorted(found)


def main() -> None:
    """Print the brackets that do not meet, and how many do; then rows and kernel times."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, reference = survey_of(sys.argv[1]), find(sys.argv[2])
    beside = {each.sweep: each for each in report(without_gpu(run, reference.sha256)).sweeps}
    for key, inputs in INPUTS.items():
        brackets = rows = apart = misses = 0
        for sweep in (each for each in report(run).sweeps if each.sweep in beside):
            here, there = sweep.under(key).timed, beside[sweep.sweep].under(key).timed
            if (one := bracket_of(here)) and (other := bracket_of(there)):
                brackets += 1
                if not one.meets(other):
                    apart += 1
                    print(f"{work_name(sweep.sweep)} {inputs}: {one}, beside the reference {other}")
            known = {each.size: each.comparison for each in there}
            pairs = [
                meet(each.comparison, known[each.size]) for each in here if each.comparison and known.get(each.size)
            ]
            rows += sum(each is not None for each in pairs)
            misses += sum(each is False for each in pairs)
        print(f"{inputs}: {brackets - apart} of {brackets} brackets meet, intervals in {rows - misses} of {rows} rows.")
    found = kernel_differences(run, reference.reference)
    print(f"Kernel times at {len(found)} sizes: median difference {median(found):.1%}, "
          f"90 % within {found[int(0.9 * len(found))]:.1%}.")  # fmt: skip


if __name__ == "__main__":
    main()
