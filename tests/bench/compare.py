"""Verdicts of `compare`, `gate` and duets: simulated with planted changes, then measured.

Measured are series with +1 % of work planted in one and equal ones, then 20 pairs of equal series of three sizes.
Each series has five runs in fresh processes, three if the time is short. They alternate in flipped order, so that slow
changes of a shared machine do not count. The planted and the equal series share their base. Promised: at most 1 % of
simulated comparisons, and at most one of 20 pairs, have the verdict FASTER or SLOWER. BENCH_SECONDS limits what is
measured. PART=real leaves out what is simulated, PART=simulated what is measured.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from tests.bench.duet import SIZES, WORK, has_gpu
from tests.helpers.bench import planted_step
from tests.helpers.bench.figures import record
from tests.helpers.bench.plant import plant_elsewhere, require_plant
from tests.helpers.bench.planted import (
    CASES,
    EQUAL,
    MODES,
    NOISE,
    UNEQUAL,
    duet_words,
    exact_bounds,
    false_duets,
    false_words,
    found_among_many,
    gate_outcomes,
    kernel_words,
    words_of_equal,
)
from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.analysis.compare import BANDS, FASTER, MIN_RUNS, SAME, SLOWER, UNDECIDED
from cpugpu_tui.compare.comparison import Series, compare_series
from cpugpu_tui.compare.gate import gate_series
from cpugpu_tui.model import DEVICE, LATENCY
from cpugpu_tui.render.comparison import percent_text
from cpugpu_tui.state.folding import MeasuredRun, measured
from cpugpu_tui.timing.timers import Stopwatch
from cpugpu_tui.transport.agent_output import decode

PAIRS, RUNS = 20, 5
USUAL_S = 1500.0
"""Time of all that is measured, seconds."""
MOST_ALARMS = 1
LIMIT = 0.05
TRIALS = 800
COMMAND = [sys.executable, "-m", "cpugpu_tui", "run", "matmul", "--size", "64,256,1024", "--scale", "small",
           "--json", "--no-save"]  # fmt: skip
PLANT_PERCENT = 1.0
PLANTED = [sys.executable, "-m", "cpugpu_tui", "run", "planted-step", "--workloads", planted_step.__file__,
           "--starts", "1", "--no-ceilings", "--json", "--no-save"]  # fmt: skip


def main() -> None:
    """Print what is found of planted changes, and the number of real pairs with each verdict."""
    if os.environ.get("PART") != "simulated":
        watch = Stopwatch()
        real_plant(watch)
        real_pairs(watch)
    if os.environ.get("PART") != "real":
        simulated_tables()


def simulated_tables() -> None:
    """Print how often simulated changes, planted and none, are called different."""
    table(
        f"simulated, {TRIALS} comparisons, {3 * len(NOISE)} verdicts each, with the noise of a GPU server",
        ("planted", "runs", "found", "promised", "holds"),
        [
            simulated("no change: any word", RUNS, false_words(TRIALS), "at most", 0.01),
            *(simulated(f"+1 % of kernel time, n = {size}", runs, found_kernels(size, runs), "at least", 0.95)
              for size, runs in ((2048, RUNS), (1024, 8))),
            simulated(f"+4 %, gate of {LIMIT:.0%}: fails", RUNS, gate_failures(1.04), "at most", 0.01),
            simulated(f"+7 %, gate of {LIMIT:.0%}: fails", RUNS, gate_failures(1.07), "at least", 0.95),
        ],
    )  # fmt: skip
    table(
        f"simulated, {TRIALS} duets of at most 10 pairs of agents, with the noise of a GPU server",
        ("planted", "found", "95 % bounds", "pairs, mean", "promised", "holds"),
        [
            duet_line("no change, 9 verdicts: any word", false_duets(TRIALS), "–", "at most", 0.01),
            *(planted_duets(*planted) for planted in DUETS),
        ],
    )
    table(
        f"simulated, {TRIALS} comparisons of {CASES} cases, of which none or one is changed",
        ("planted", "runs", "found", "promised", "holds"),
        [
            *(simulated(f"no change, noise {noise:.1%}, {kind}: any word", runs,
                        words_of_equal(TRIALS, runs, noise, kind), "at most", most)
              for noise, kind, runs, most in EQUALS),
            *(simulated(f"{100 * (factor - 1):+g} % at noise {noise:.1%}", runs,
                        found_among_many(TRIALS, runs, noise, factor, metric), "at least", least)
              for noise, factor, metric, runs, least in CHANGED),
        ],
    )  # fmt: skip


EQUALS = ((0.02, EQUAL, RUNS, 0.005), (0.02, UNEQUAL, RUNS, 0.01), (0.02, MODES, RUNS, None), (0.02, MODES, 8, 0.01))
"""Noise, how it differs, runs, and the share of comparisons that may have a word."""

CHANGED = (
    (0.02, 1.10, LATENCY, RUNS, 0.97), (0.01, 1.05, LATENCY, RUNS, 0.97), (0.003, 1.01, DEVICE, RUNS, 0.65),
    (0.003, 1.01, DEVICE, 8, 0.95),
)  # fmt: skip
"""Noise, factor of one case, its time, runs, and the share of comparisons that must find it."""


DUETS = (
    (LATENCY, 1.01, 2048, None), (LATENCY, 1.02, 2048, 0.9), (LATENCY, 1.02, 1024, None), (LATENCY, 1.05, 1024, None),
    (DEVICE, 1.005, 2048, None), (DEVICE, 1.01, 2048, 0.95), (DEVICE, 1.01, 1024, 0.95),
)  # fmt: skip
"""Time of a GPU, factor, size, and the share of duets that must find it."""


def planted_duets(metric: str, factor: float, size: int, share: float | None) -> tuple[str, ...]:
    """Return the line of a change that is planted in duets of one case."""
    words = duet_words(TRIALS, metric, factor, size)
    pairs = sum(each.change.base_runs for each in words if each.change is not None) / TRIALS
    name = "kernel time" if metric == DEVICE else "latency"
    found = sum(each.verdict == SLOWER for each in words)
    return duet_line(f"{100 * (factor - 1):+g} % of {name}, n = {size}", found, f"{pairs:.1f}", "at least", share)


def duet_line(planted: str, found: int, pairs: str, bound: str, share: float | None) -> tuple[str, ...]:
    """Return a line of the table of simulated duets."""
    low, high = exact_bounds(found, TRIALS)
    bounds = f"{100 * low:.1f} to {100 * high:.1f} %"
    if share is None:
        return planted, f"{found} of {TRIALS}", bounds, pairs, "–", "–"
    is_kept = found <= share * TRIALS if bound == "at most" else found >= share * TRIALS
    return planted, f"{found} of {TRIALS}", bounds, pairs, f"{bound} {100 * share:g} %", "yes" if is_kept else "no"


def simulated(planted: str, runs: int, found: int, bound: str, share: float | None) -> tuple[str, ...]:
    """Return a line of the table of simulated comparisons."""
    if share is None:
        return planted, f"{runs} vs {runs}", f"{found} of {TRIALS}", "–", "–"
    is_kept = found <= share * TRIALS if bound == "at most" else found >= share * TRIALS
    words = f"{bound} {100 * share:g} %", "yes" if is_kept else "no"
    return planted, f"{runs} vs {runs}", f"{found} of {TRIALS}", *words


def found_kernels(size: int, runs: int) -> int:
    """Return how often +1 % of kernel time is called SLOWER."""
    return sum(each.verdict == SLOWER for each in kernel_words(TRIALS, 1.01, size, runs))


def gate_failures(factor: float) -> int:
    """Return how often the gate fails GPU times that take `factor` times as long."""
    return gate_outcomes(TRIALS, factor, LIMIT, RUNS).count(SLOWER)


def real_plant(watch: Stopwatch) -> None:
    """Print the verdicts on series with +1 % of work in one, once a plain clock has measured it, and on equal ones."""
    device = "cuda" if has_gpu() else "cpu"
    plant = plant_elsewhere(SIZES[device], PLANT_PERCENT, device)
    require_plant(plant, PLANT_PERCENT)
    command = [*PLANTED, "--size", str(SIZES[device]), *WORK[device], "--device", device]
    base, *others = series(command, (0.0, PLANT_PERCENT, 0.0), lambda: watch.elapsed_s() / cap_seconds(USUAL_S))
    lines = []
    for percent, new in zip((PLANT_PERCENT, 0.0), others, strict=True):
        for each in compare_series(base, new).judged:
            change = each.change
            if change is None:
                continue
            text = f"{percent_text(change.ratio)} ({percent_text(change.low)} to {percent_text(change.high)})"
            lines.append((f"+{percent:g} %", each.metric, text, each.verdict))
    runs = len(base.runs)
    table(
        f"`planted-step --size {SIZES[device]}` on {device}, {runs} runs against {runs}, each in a process of its own",
        ("planted", "time", "change", "verdict"), lines,
    )  # fmt: skip


def real_pairs(watch: Stopwatch) -> None:
    """Print the number of real pairs with each verdict, of those that begin in time."""
    begun_s, cap_s = watch.elapsed_s(), cap_seconds(USUAL_S)
    words: Counter[str] = Counter()
    gates: Counter[str] = Counter()
    pairs = alarms = 0
    while pairs < PAIRS and (watch.elapsed_s() - begun_s) / max(pairs, 1) < cap_s - watch.elapsed_s():
        base, new = series(COMMAND, (0.0, 0.0))
        found = compare_series(base, new)
        verdicts = [each.verdict for each in found.judged]
        words.update(verdicts)
        alarms += bool({FASTER, SLOWER} & set(verdicts))
        gates[gate_series(base, new, dict.fromkeys(BANDS, LIMIT)).verdict] += 1
        pairs += 1
        print(f"Pair {pairs}: {', '.join(verdicts)}", flush=True)
    table(
        f"`cpugpu-tui {' '.join(COMMAND[3:])}`, {RUNS} runs against {RUNS}",
        ("pairs", "called different", "verdicts same", "undecided", "gate of 5 %", "promised", "holds"),
        [(
            str(pairs), str(alarms), str(words[SAME]), str(words[UNDECIDED]),
            ", ".join(f"{count} {word}" for word, count in gates.items()), f"≤ {MOST_ALARMS} of {PAIRS}",
            ("yes" if pairs == PAIRS else f"so far, {pairs} pairs") if alarms <= MOST_ALARMS else "no",
        )],
    )  # fmt: skip
    record("Comparisons of equal series of five runs with a word FASTER or SLOWER", f"{alarms} of {pairs}")


def series(command: Sequence[str], percents: Sequence[float], share: Callable[[], float] = lambda: 0.0) -> list[Series]:
    """Run a series of the same command for each percentage of more work, in turn, with the order flipped each time.

    `share` returns how much of the time is over: a run that would not end in it does not begin after the third.
    """
    runs: list[list[MeasuredRun]] = [[] for _ in percents]
    for number in range(RUNS):
        if number >= MIN_RUNS and share() * (number + 1) / number > 1:
            break
        for side in range(len(percents)) if number % 2 == 0 else reversed(range(len(percents))):
            runs[side].append(run_once(command, percents[side]))
    return [Series(f"series {index}", tuple(each)) for index, each in enumerate(runs)]


def run_once(command: Sequence[str], percent: float) -> MeasuredRun:
    """Run the command in a process of its own."""
    environment = {**os.environ, "BENCH_PLANT_PERCENT": f"{percent:g}"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    events = (decode(line) for line in done.stdout.splitlines())
    return measured(event for event in events if event is not None)
