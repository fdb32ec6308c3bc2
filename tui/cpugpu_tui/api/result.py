"""What `crossover` and `time_on` return: the answer, its rows and its receipt, in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

from cpugpu_tui.api.subject import in_python
from cpugpu_tui.cli.output.tables import state_text
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.export.report import draw_latency, latency_lines
from cpugpu_tui.model import PAGEABLE
from cpugpu_tui.model.quantities import micro
from cpugpu_tui.render.answers import answer_lines, answers
from cpugpu_tui.render.columns import COLUMNS, NONE, Key, is_words
from cpugpu_tui.render.receipts import caller_lines, code_lines, run_receipt
from cpugpu_tui.render.rows import run_table
from cpugpu_tui.render.sentences import cut_short, heading, notes
from cpugpu_tui.render.verdicts import end_to_end, mark_lines, remark, row_marks
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.workloads.own_code import SIZE

OWN_PROCESS = "Ran in a process of its own."


@dataclass(frozen=True)
class TimedRow:
    """The times of one size. With several GPUs, the first one's."""

    size: int
    cpu_ns: float | None
    """Median latency of a call on the CPU, nanoseconds; None without a valid time."""
    gpu_ns: float | None
    speedup: float | None
    """CPU latency / GPU latency; above 1 the GPU is faster."""
    low: float | None
    """Lower end of the speedup's 95 % interval; None with too few rounds."""
    high: float | None
    faster: str
    """`GPU`, `CPU`, `tie`, `unclear` or `too few`; empty if only one device was timed."""
    with_copies: float | None
    """Speedup if data starts and ends in ordinary host memory."""
    limited_by: str
    """What the row needs more of, such as `memory 95 %`; empty if unknown."""
    marks: tuple[str, ...]
    """Words for what disturbed the times."""
    failure: str
    """Why there is no time, with the remedy; empty if there is one."""


@dataclass(frozen=True)
class Result:
    """The answer to "is it faster on the GPU?" with the numbers behind it. `print` shows the table."""

    answer: str
    """The sentences of the command line, such as `The GPU wins from n ≈ 205 (192–213).`"""
    point: float | None
    """Size at which both devices are equally fast; None if the winner does not change between the sizes."""
    bracket: tuple[int, int] | None
    """Largest size at which the CPU clearly wins, and smallest at which the GPU does."""
    where: str
    """The process that ran the code, as a sentence."""
    receipt: tuple[str, ...] = field(repr=False)
    """Where and what it executed, a sentence each."""
    rows: tuple[TimedRow, ...] = field(repr=False)
    """One for each size, in order."""
    run: RunState = field(repr=False, compare=False)
    """Everything that is known of the run, not part of the stable interface."""

    @classmethod
    def of(cls, run: RunState) -> Result:
        """Return the result of a finished run."""
        measured = next((answer.evidence.measured for answer in answers(run)), None)
        low, high = (measured.low, measured.high) if measured is not None else (None, None)
        where = next(iter(caller_lines(run)), OWN_PROCESS)
        return cls(
            answer=micro(" ".join(answer_lines(run))),
            point=measured.point if measured is not None else None,
            bracket=(low, high) if low is not None and high is not None else None,
            where=where,
            receipt=tuple(map(micro, dict.fromkeys((where, *run_receipt(run))))),
            rows=tuple(_row(run, row) for row in sorted(run.rows.values(), key=lambda row: row.case.size)),
            run=run,
        )

    def table(self) -> str:
        """Return what `cpugpu-tui time` prints."""
        return state_text(self.run)

    def __str__(self) -> str:
        return self.table()

    def plot(self, axes: Any = None) -> Any:
        """Draw the latency of each device over the sizes, and the bracket. Return matplotlib's axes.

        Raises:
            UnfitError: matplotlib is not installed.
        """
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise UnfitError(
                "The plot needs the package matplotlib, which is not installed.",
                "Install it with pip install 'cpugpu-tui[plot]'.",
            ) from error
        axes = axes if axes is not None else pyplot.subplots(layout="constrained")[1]
        if self.bracket is not None:
            axes.axvspan(*self.bracket, color="#888888", alpha=0.25, label="bracket")
        draw_latency(axes, latency_lines(tuple(self.run.rows.values())), SIZE)
        axes.set_title(self.answer.partition(". ")[0].rstrip("."), parse_math=False, wrap=True, fontsize="medium")
        return axes

    def _repr_html_(self) -> str:
        """Return the table and its sentences for a notebook."""
        return "\n".join(_html(self.run, self.receipt))


def _row(run: RunState, row: Row) -> TimedRow:
    found, copied = row.comparison, end_to_end(row, PAGEABLE)
    failure = remark(run, row) if row.failure is not None else ""
    return TimedRow(
        size=row.case.size,
        cpu_ns=_latency_ns(row, row.cpu),
        gpu_ns=_latency_ns(row, row.gpu),
        speedup=found.speedup if found is not None else None,
        low=found.low if found is not None else None,
        high=found.high if found is not None else None,
        faster=_text(run, row, Key.VERDICT),
        with_copies=copied.speedup if copied is not None else None,
        limited_by=_text(run, row, Key.LIMIT),
        marks=tuple(row_marks(row)),
        failure=f"{failure} {in_python(row.failure.remedy)}".strip() if row.failure is not None else "",
    )


def _latency_ns(row: Row, times: DeviceTimes | None) -> float | None:
    return None if times is None or row.status == "mismatch" else times.latency_ns


def _text(run: RunState, row: Row, key: str) -> str:
    text = COLUMNS[key].text(run, row)
    return "" if text == NONE else text


def _html(run: RunState, receipt: tuple[str, ...]) -> Iterator[str]:
    """Yield heading, code, table, answer and receipt as HTML."""
    table = run_table(run)
    keys = [key for key in table.headings if any(line.get(key) not in (None, "", NONE) for line in table.lines)]
    yield f"<p>{_spelled(heading(run))}</p>"
    yield from (f"<pre>{_spelled(line)}</pre>" for line in code_lines(run))
    yield "<table><thead><tr>"
    yield from (f"<th{_aligned(key)}>{_spelled(table.headings[key])}</th>" for key in keys)
    yield "</tr></thead><tbody>"
    for line in table.lines:
        yield f"<tr>{''.join(f'<td{_aligned(key)}>{_spelled(line[key])}</td>' for key in keys)}</tr>"
    yield "</tbody></table>"
    sentences = (*answer_lines(run), *receipt, cut_short(run), *mark_lines(run), *notes(run))
    yield from (f"<p>{_spelled(sentence)}</p>" for sentence in sentences if sentence)


def _spelled(text: str) -> str:
    return escape(micro(text))


def _aligned(key: str) -> str:
    return f' style="text-align:{"left" if is_words(key) else "right"}"'
