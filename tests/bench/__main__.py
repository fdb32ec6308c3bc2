"""`make bench`: every noisy figure, as ratios alternated in one run. `make bench ONLY=agreement` runs one part."""

from __future__ import annotations

import sys
from importlib import import_module

PARTS = {
    "agreement": "our times against torch.utils.benchmark, do_bench, NVBench",
    "disturbance": "what a user interface does to the times: in a process, in a gated thread, in a thread",
    "startup": "first frame and --help against bare Textual and typer apps",
    "interface": "the app during a run: CPU share, key to paint, bytes a second",
}


def main() -> None:
    """Run the parts that are named, or all."""
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"There is no part {unknown[0]!r}. There are: {', '.join(PARTS)}.")
    for name in wanted:
        print(f"\n## {name}: {PARTS[name]}")
        import_module(f"tests.bench.{name}").main()


if __name__ == "__main__":
    main()
