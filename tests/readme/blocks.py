"""The parts of README and docs that the program prints.

A block begins with `<!-- make readme: NAME -->` and ends at the next blank line. One that begins with
`<!-- make readme to the end: NAME -->` ends with its page.
"""

import gzip
import io
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from string import ascii_lowercase

from cpugpu_tui.cli.claims import as_data
from cpugpu_tui.cli.output.tables import print_state, summary
from cpugpu_tui.compare.claims import JudgedClaim, judge_all, numbers_of, points_of
from cpugpu_tui.config.settings import KEYS
from cpugpu_tui.demo.recording import Recording, shipped
from cpugpu_tui.export.json_document import read_runs
from cpugpu_tui.render.columns import COLUMNS
from cpugpu_tui.render.receipts import run_receipt
from cpugpu_tui.render.verdicts import MARK_WORDS
from cpugpu_tui.session.repeat import repeat_commands
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.keys import DEFAULT_KEYMAP, by_group, keys_text

from .commands import reference
from .figures import PARTS, block, in_short
from .published import HEADER, compared, recordings

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
TIMED = Path(__file__).with_name("time.ndjson.gz")

FLAGS = {"database": "db"}
"""Settings whose flag has another name."""

ANNOTATED_SIZES = ("16", "200", "247", "500", "2,048")
"""Rows of the annotated table: the CPU wins, unclear twice, the GPU wins within a wide interval, the last one."""

_NUMBERS = (100, 1_000_000, 100_000_000)
SHOWN_SIZES = {
    "matmul-sweep": (1, 101, 301, 3001, 9951), "vector-dot": _NUMBERS, "jacobian": (100, 1000), "elementwise": _NUMBERS,
    "mnist-mlp": (32,),
}  # fmt: skip
"""Runs of the demo of which docs show a table, with its sizes."""

QUOTED_CLAIMS = ("p1-gpu-millisecond", "p5-wide")

_BLOCK = re.compile(r"(<!-- make readme: ([a-z-]+) -->\n)(?:.+\n)*")
_LAST_BLOCK = re.compile(r"(<!-- make readme to the end: ([a-z-]+) -->\n)[\s\S]*")


def renewed(text: str) -> str:
    """Return a page with each of its blocks as the program would print it now."""
    for blocks, gap in ((_BLOCK, ""), (_LAST_BLOCK, "\n")):
        text = blocks.sub(lambda block, gap=gap: f"{block[1]}{gap}{BLOCKS[block[2]]().strip()}\n", text)  # type: ignore[misc]
    return text


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


@cache
def timed() -> RunState:
    """Return the run of a typed expression on an H200 (2026-11-28, version 0.3.0)."""
    (run,) = read_runs(gzip.decompress(TIMED.read_bytes()), TIMED.name)
    return folded(run.events)


def run_output(state: RunState) -> str:
    """Return what a command printed of a run: command and table, then the sentences as a quotation."""
    (command,) = repeat_commands(state.run)
    sentences = printed(lambda: print(*summary(state, None), sep="\n"))
    lines = printed(lambda: print_state(state))
    table = [line for line in lines if line not in sentences and command not in line]
    return fenced(f"$ {command}", *table) + "\n" + "\\\n".join(f"> {line}" for line in sentences)


def annotated() -> str:
    """Return the demo's first run with a number over each column and before each sentence of the answer."""
    state = recording().runs[0].state
    sentences = printed(lambda: print(*summary(state, None, in_full=True), sep="\n"))
    lines = printed(lambda: print_state(state, in_full=True))
    machine, header, rule, *rows = [line for line in lines if line not in sentences]
    numbers, end = "", 0
    for number, heading in enumerate(re.split(r"\s{2,}", header.strip()), 1):
        end = header.index(f" {heading}", end) + 1 + len(heading)
        numbers = numbers.ljust(end - len(heading)) + f"({number})"
    shown = [row for row in rows if row.split()[0] in ANNOTATED_SIZES]
    said = [f"({letter}) {sentence}" for letter, sentence in zip(ascii_lowercase, sentences, strict=False)]
    return fenced(f" {machine.strip()}", numbers, header, rule, *shown, *said)


@cache
def judged() -> tuple[JudgedClaim, ...]:
    """Return every claim, judged by all runs of the demo."""
    runs = recording().runs
    points = [point for number, run in enumerate(runs, 1) for point in points_of(run.state, f"run {number}")]
    return judge_all(numbers_of((), points[::-1], recording().ceilings, simulated=False))


def demo_tables() -> str:
    """Return rows of the demo's runs of publications, each with its command, version and day."""
    parts = []
    for run in recording().runs:
        if run.name in SHOWN_SIZES:
            sizes = SHOWN_SIZES[run.name]
            state = replace(run.state, rows={key: row for key, row in run.state.rows.items() if row.case.size in sizes})
            sentences = printed(lambda state=state: print(*summary(state, None), sep="\n"))  # type: ignore[misc]
            (command,) = repeat_commands(run.started)
            lines = [line for line in printed(lambda state=state: print_state(state))  # type: ignore[misc]
                     if line not in sentences and command not in line]  # fmt: skip
            day = f"{datetime.fromtimestamp(run.started.wall_ns / 1e9, timezone.utc):%Y-%m-%d}"
            rows = lines[: next((n for n, line in enumerate(lines) if line.startswith("workload ")), None)]
            parts.append(fenced(f"$ {command}", f"version {run.started.environment['version']}, {day}", *rows))
    return "\n".join(parts)


def claims(*ids: str) -> str:
    """Return what `claims` says of these claims, or of all."""
    data = [as_data(each) for each in judged() if not ids or each.claim.id in ids]
    return table("by", "publication says", "measured here", "outcome", rows=(
        (each["publication"], each["sentence"], str(each["here"]), each["outcome"]) for each in data
    ))  # fmt: skip


def table(*headers: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def marks() -> str:
    """Return the marks and what they mean."""
    return table("mark", "meaning", rows=((f"`{mark}`", words) for mark, words in MARK_WORDS.items()))


def other_columns() -> str:
    """Return the columns that the annotated table lacks, with the app's help on them."""
    shown = annotated()
    others = [each for each in COLUMNS.values() if each.meaning and each.heading not in shown]
    return table(
        "column", "meaning", rows=((f"`{each.heading}`", DEFAULT_KEYMAP.with_keys(each.meaning)) for each in others)
    )


def keys() -> str:
    """Return the table of keys in docs/keys.md."""
    return table("to", "key", "does", rows=(
        (group if place == 0 else "", f"`{keys_text(command.keys)}`", command.help)
        for group, commands in by_group().items() for place, command in enumerate(commands)
    ))  # fmt: skip


def settings() -> str:
    """Return the settings of the config file, with their flags and environment variables."""
    return table("key", "flag", "variable", "sets", "default", rows=(
        (f"`{key.name}`", f"`--{FLAGS.get(key.name, key.name.replace('_', '-'))}`", f"`{key.variable}`",
         key.summary, key.default) for key in KEYS
    ))  # fmt: skip


BLOCKS: dict[str, Callable[[], str]] = {
    "time": lambda: run_output(timed()),
    "receipt": lambda: fenced(*run_receipt(timed())),
    "claims": lambda: claims(*QUOTED_CLAIMS),
    "all-claims": claims,
    "demo-tables": demo_tables,
    "figures": in_short,
    **{name: lambda name=name: block(name) for name in PARTS},  # type: ignore[misc]
    "keys": keys,
    "marks": marks,
    "annotated": annotated,
    "other-columns": other_columns,
    "settings": settings,
    "commands": reference,
    "recordings": recordings,
    "crossovers": lambda: table(*HEADER, rows=compared()),
}
