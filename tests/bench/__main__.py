"""`make bench`: measure all noisy figures, as ratios of alternated pairs. `make bench ONLY=agreement` runs one part.

BENCH_SECONDS limits the time of each part, BENCH_TRIALS the trials of `aa` and the runs of `starved`, and BENCH_KILLS
the kills of `kills`.
"""

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from tests.helpers.bench.figures import PART
from tests.helpers.bench.surroundings import surroundings


def parts() -> dict[str, str]:
    """Return the parts (modules here and in `faults` with a `main`) and the first line of their docstrings."""
    found = {}
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.glob("faults/*.py")], key=lambda path: path.stem):
        module = ast.parse(path.read_text())
        names = {each.name for each in module.body if isinstance(each, ast.FunctionDef)}
        if "main" in names and path.stem != "__main__":
            found[path.stem] = (ast.get_docstring(module) or "").partition("\n")[0]
    return found


def main() -> None:
    """Run the named parts, or all."""
    known = parts()
    wanted = sys.argv[1:] or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"Unknown part {unknown[0]!r}. Choose from: {', '.join(known)}.")
    if len(wanted) > 1:
        # Separate processes, because the profiler of one part would slow launches of the next by 30 %.
        sys.exit(max(subprocess.call([sys.executable, "-m", "tests.bench", name]) for name in wanted))
    (name,) = wanted
    os.environ[PART] = name
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # NVBench runs each case on every GPU that it sees
    print(f"\n## {name}: {known[name]}\n\nOn {surroundings()}", flush=True)
    folder = "faults." if (Path(__file__).parent / "faults" / f"{name}.py").exists() else ""
    import_module(f"tests.bench.{folder}{name}").main()


if __name__ == "__main__":
    main()
