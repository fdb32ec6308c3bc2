"""`make bench`: every noisy figure, as ratios alternated in one run. `make bench ONLY=agreement` runs one part.

BENCH_SECONDS caps the duration of each part, BENCH_TRIALS the trials of `aa`.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

from tests.bench.surroundings import surroundings

PARTS = {
    "agreement": "our times against torch.utils.benchmark, do_bench, NVBench, the profiler",
    "cost": "what the tool itself costs: a call that does nothing, its own CPU time, its bytes",
    "aa": "equal lanes must not be called different, 5 % must be found",
    "compare": "equal series of real runs must not be called different: 20 pairs of five runs each",
    "search": "300 searches of a planted crossover for each memory of the drift: bracket, point, cases",
    "repeat": "medians of fresh agents and how far they lie apart",
    "disturbance": "what a user interface does to the times: in a process, in a gated thread, in a thread",
    "startup": "first frame and --help against bare Textual and typer apps",
    "store": "a history of 10,000 runs: listing, opening, saving, and a reader beside a live run",
    "analysis": "how long the answer of 20,000 samples takes",
    "fuzz": "10,000 random keys and 500 sizes: no crash, no lost run, quit always works",
    "large": "the app after 10,000 finished cases: memory, key to paint",
    "interface": "the budgets of the app: bytes, CPU share, key to paint, start, a second r; each kept or missed",
    "monitors": "the idle app beside nvitop, htop and btop: bytes a second and CPU share",
}


def main() -> None:
    """Run the parts that are named, or all."""
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"There is no part {unknown[0]!r}. There are: {', '.join(PARTS)}.")
    if len(wanted) > 1:
        # A process for each: the profiler of one part would slow every launch of the next by 30 %.
        sys.exit(max(subprocess.call([sys.executable, "-m", "tests.bench", name]) for name in wanted))
    (name,) = wanted
    print(f"\n## {name}: {PARTS[name]}\n\nOn {surroundings()}", flush=True)
    import_module(f"tests.bench.{name}").main()


if __name__ == "__main__":
    main()
