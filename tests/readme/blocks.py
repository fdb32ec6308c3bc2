"""The parts of README and docs that the program prints: from `<!-- make readme: NAME -->` to the next blank line."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

from cpugpu_tui.cli.claims import as_data
from cpugpu_tui.cli.output.tables import print_state, summary
from cpugpu_tui.compare.claims import JudgedClaim, judge_all, numbers_of, points_of
from cpugpu_tui.demo.recording import Recording, shipped
from cpugpu_tui.model.quantities import micro
from cpugpu_tui.render.marks import MARK_WORDS
from cpugpu_tui.session.repeat_command import repeat_commands
from cpugpu_tui.ui.keys import markdown

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FIGURES = ROOT / "docs" / "figures.md"

QUOTED_CLAIMS = ("p1-gpu-millisecond", "p5-copies")

_BLOCK = re.compile(r"(<!-- make readme: ([a-z-]+) -->\n)(?:.+\n)*")
_SOURCE = re.compile(r"<!-- quoted in README: ([a-z-]+) -->\n((?:.+\n)*)")


def renewed(text: str) -> str:
    """Return a page with each of its blocks as the program would print it now."""
    return _BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]().strip()}\n", text)


def printed(show: Callable[[], None]) -> list[str]:
    """Return the lines that `show` prints into a pipe, without empty ones."""
    pipe = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(pipe):
        show()
    pipe.seek(0)
    return [line.rstrip() for line in pipe.read().splitlines() if line.strip()]


def fenced(*lines: str) -> str:
    return "\n".join(["```", *lines, "```"])


@cache
def recording() -> Recording:
    return shipped()


def run_output(name: str) -> str:
    """Return what `run` printed of a run of the demo: command and table, then the sentences as a quotation."""
    state = next(run.state for run in recording().runs if run.name == name)
    assert state.run is not None
    (command,) = repeat_commands(state.run)
    sentences = printed(lambda: print(*summary(state, None), sep="\n"))
    lines = printed(lambda: print_state(state))
    table = [line for line in lines if line not in sentences and command not in line]
    return fenced(f"$ {command}", *table) + "\n" + "\\\n".join(f"> {line}" for line in sentences)


@cache
def judged() -> tuple[JudgedClaim, ...]:
    """Return every claim, judged by all runs of the demo."""
    runs = recording().runs
    points = [point for number, run in enumerate(runs, 1) for point in points_of(run.state, f"run {number}")]
    return judge_all(numbers_of((), points[::-1], recording().ceilings, simulated=False))


def claims(*ids: str) -> str:
    """Return what `claims` says of these claims, or of all."""
    data = [as_data(each) for each in judged() if not ids or each.claim.id in ids]
    return table("by", "publication says", "measured here", "outcome", rows=(
        (each["publication"], each["sentence"], micro(str(each["here"])), each["outcome"]) for each in data
    ))  # fmt: skip


def table(*headers: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def marks() -> str:
    """Return the marks and what they mean."""
    return table("mark", "meaning", rows=((f"`{mark}`", words) for mark, words in MARK_WORDS.items()))


def quoted(name: str) -> str:
    """Return the part of the page of figures that README quotes under this name."""
    return dict(_SOURCE.findall(FIGURES.read_text()))[name]


BLOCKS: dict[str, Callable[[], str]] = {
    "quick": lambda: run_output("quick"),
    "batch": lambda: run_output("mnist-batch"),
    "claims": lambda: claims(*QUOTED_CLAIMS),
    "all-claims": claims,
    "figures": lambda: quoted("figures"),
    "cost": lambda: quoted("cost"),
    "keys": markdown,
    "marks": marks,
}
