"""The figures of README and docs, made from `docs/figures.ndjson`, which benches and people add lines to.

Each line says what was measured, on which machine, with which torch, when, and by which command. A line with `files`
and `code_sha256` also says whether the code that it speaks of is still the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.helpers.bench.figures import hash_of

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures.ndjson"

HEADER = ("what", "figure", "machine", "torch", "date, commit", "command", "code since")


def figures(path: Path = FIGURES) -> list[dict[str, Any]]:
    """Return the latest line of each figure, in order of its first one."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text("utf-8").splitlines():
        figure = json.loads(line)
        found[figure["figure"]] = {**found.get(figure["figure"], {}), **figure}
    return list(found.values())


def in_short() -> str:
    """Return the list of the figures that README quotes."""
    return "\n".join(
        f"- {each['promise']}: {each['value']}{'' if 'simulated' in each['machine'] else f' ({machine_of(each)})'}."
        for each in figures() if each.get("in_readme")
    )  # fmt: skip


def all_figures() -> str:
    """Return a table of every figure with what repeats it."""
    return markdown(HEADER, [row(each) for each in figures() if "rows" not in each])


def tables() -> str:
    """Return the latest tables of benches, each with what repeats it."""
    parts = []
    for each in figures():
        if "rows" in each:
            _, _, machine, torch, when, command, code = row(each)
            about = f"{machine}, torch {torch}, {when}, {command}. Code since: {code}."
            parts.append(f"### {each['value']}\n\n{about}\n\n{markdown(each['header'], each['rows'])}")
    return "\n\n".join(parts) or "None is recorded yet."


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return "\n".join((lines[0], "|" + "---|" * len(header), *lines[1:]))


def row(each: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a figure."""
    command = each["command"]
    return (
        each.get("promise") or f"`{each['figure']}`", with_interval(each), machine_of(each),
        each.get("torch") or "not recorded", f"{each['date']}, {each['commit']}",
        command if command.startswith("not repeatable") else f"`{command}`", code_since(each),
    )  # fmt: skip


def with_interval(each: dict[str, Any]) -> str:
    """Return the figure with its interval, if it has one that the text does not hold."""
    low, high = each.get("low_pct"), each.get("high_pct")
    if low is None or high is None:
        return str(each["value"])
    return f"{each['value']} ({low:+.2f} to {high:+.2f} %)"


def machine_of(each: dict[str, Any]) -> str:
    """Return the machine in words."""
    if machine := each.get("machine"):
        return str(machine)
    return f"{each['gpu'] or 'no GPU'}, {each['cpu']}, {each['cores']} cores"


def code_since(each: dict[str, Any], root: Path = FIGURES.parents[1]) -> str:
    """Return whether the files that a figure speaks of are still those that it was measured with."""
    if not each.get("files"):
        return "not recorded"
    return "the same" if hash_of(each["files"], root) == each["code_sha256"] else "**changed: measure again**"
