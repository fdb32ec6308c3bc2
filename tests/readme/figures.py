"""The figures of README and docs, made from `docs/figures.ndjson`, which benches and people add lines to.

Each line says what was measured, on which machine, with which torch, when, and by which command. `files` and
`code_sha256` tell whether the code that it speaks of is still the same.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.helpers.bench.figures import hash_of

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures.ndjson"

HEADER = ("what", "figure", "measured on", "command")

IN_README = (
    "GPU time against NVBench in the same process, kernels of 50 µs and more",
    "CPU latency against `torch.utils.benchmark`: matmul of n = 64 to 1,024, all threads",
    "Brackets of five starts that hold the crossover, where starts differ by 14 and 10 %",
    "Intervals there that hold the next run's speedup, of five starts",
    "Duets that call a side with more work SLOWER",
)

PARTS = {
    "against-other-tools": ("agreement", "catalogue", "small_kernels"),
    "right-answers": ("trust", "aa", "compare", "duet"),
    "own-cost": (),
}
"""Block of the page → the benches whose figures it has; the last has all others."""


def figures(path: Path = FIGURES) -> list[dict[str, Any]]:
    """Return the latest line of each figure, in order of its first one."""
    return list({each["figure"]: each for each in map(json.loads, path.read_text("utf-8").splitlines())}.values())


def in_short() -> str:
    """Return the list of the figures that README quotes."""
    found = {each["figure"]: each for each in figures()}
    quoted = [found[name] for name in IN_README]
    shown = [{**each, "cpu": ""} if each.get("gpu") else each for each in quoted]
    return "\n".join(f"- {each['figure']}: {each['value']} ({machine_of(each)}, {each['date']})." for each in shown)


def block(name: str) -> str:
    """Return a table of the figures of a block of the page, with what repeats them."""
    others = {part for parts in PARTS.values() for part in parts}
    chosen = [each for each in figures() if (part_of(each) in (PARTS[name] or others)) == bool(PARTS[name])]
    return markdown(HEADER, [row(each) for each in chosen])


def part_of(each: dict[str, Any]) -> str:
    """Return the part of `make bench` that prints a figure; empty if another command does."""
    return str(each["command"]).partition("make bench ONLY=")[2]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return "\n".join((lines[0], "|" + "---|" * len(header), *lines[1:]))


def row(each: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a figure."""
    told = f"{machine_of(each)}, torch {each['torch']}, {each['date']}, {each['commit']}{code_since(each)}"
    return each["figure"], each["value"], told, f"`{each['command']}`"


def machine_of(each: dict[str, Any]) -> str:
    """Return the machine in words."""
    if machine := each.get("machine"):
        return str(machine)
    gpus = Counter(each["gpu"].split(", "))
    names = (f"host of {count} {name}" if count > 1 else name for name, count in gpus.items())
    return ", ".join(filter(None, (*names, each["cpu"].removesuffix(" Processor"), f"{each['cores']} cores")))


def code_since(each: dict[str, Any], root: Path = FIGURES.parents[1]) -> str:
    """Return a remark if a figure is older than the files that it speaks of."""
    return "" if hash_of(each["files"], root) == each["code_sha256"] else "; **older than its code**"
