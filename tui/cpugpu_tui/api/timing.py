"""`crossover` and `time_on`: time code from Python scripts and notebooks, and return what the command line prints."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from html import escape
from typing import Any

from cpugpu_tui.agent.main import THREAD_NAME
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.api.arguments import Arguments, Rows, axes_for, checked, database_path, run_name
from cpugpu_tui.api.subject import in_python, said_in_python
from cpugpu_tui.cli.output.tables import state_text
from cpugpu_tui.cli.past_runs import reading
from cpugpu_tui.cli.running.one_run import Progress, controller_facts, telemetry
from cpugpu_tui.cli.running.options import RunOptions
from cpugpu_tui.cli.running.saving import as_saved, save_rest, saving
from cpugpu_tui.config.sizes import parse_sizes, search_ends
from cpugpu_tui.errors import EXIT_INTERRUPTED, UnfitError, UsageError
from cpugpu_tui.export.chart import draw
from cpugpu_tui.machine.processes import adopt_orphans
from cpugpu_tui.model import Event, Plan, typed_name
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.render.columns import COLUMNS, NONE, Key, is_words
from cpugpu_tui.render.curves import charts
from cpugpu_tui.render.gpus import simulated_words
from cpugpu_tui.render.receipts import caller_lines, code_lines, run_receipt
from cpugpu_tui.render.rows import run_table
from cpugpu_tui.render.sentences import cut_short, heading, notes
from cpugpu_tui.render.verdicts import mark_lines, remark, row_marks
from cpugpu_tui.report.report import covers_starts, judged, report
from cpugpu_tui.session.endings import error_of
from cpugpu_tui.session.planning import build_plan
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.recorded_gpu import with_recorded
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import with_saved_peaks
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.workloads.code_target import held

Sizes = int | str | Iterable[int]
What = str | Callable[..., Any]

_in_this_process = threading.Lock()
"""Held by the call whose code runs in this process."""

OTHERS_PATIENCE_S = 600.0
"""How long a call waits for another one."""

THREAD_PATIENCE_S = 1.0
"""How long ctrl+c waits for code in the caller's process: it stops after the block in flight."""


@said_in_python()
def crossover(
    what: What,
    n: Sizes = "16:4096",
    *,
    setup: str = "",
    let: Mapping[str, object] | None = None,
    inputs: Callable[[int], Any] | None = None,
    dtype: object = None,
    threads: int | str | None = None,
    device: str | Sequence[str] | None = None,
    in_place: bool = False,
    rounds: int | None = None,
    starts: int | None = None,
    max_seconds: float | None = None,
    simulate: str | None = None,
    save: bool = False,
) -> Result:
    """Search for the size from which the GPU is faster, between the smallest and the largest of `n`.

    Args:
        what: an expression, `file.py:function`, or a callable.
        n: both ends, as `"16:4096"` or `(16, 4096)`.
        setup: lines of Python that make the inputs of an expression, run on the host for each size.
        let: further names. Text is Python, as in `--let`; a function is called with the size; the rest is a value.
        inputs: called with the size, returns the arguments of a function: a tuple, a dictionary, or one value.
        dtype: floating-point type of what the code makes, such as `"float64"` or `torch.float64`.
        threads: CPU threads; a number or `"all"`.
        device: `"auto"`, `"cpu"`, `"cuda"` or `"cuda:0"`, or several of them.
        in_place: allow the code to change its inputs, which are restored before each call.
        rounds: exact number of rounds, instead of as many as the interval needs.
        starts: processes that time the code (default: 5, as `time`). A callable runs in this process: one start.
        max_seconds: end the search after this time.
        simulate: use a simulated machine, such as `"default"`.
        save: save the run to the history.

    Raises:
        UsageError: an argument or the code is wrong. A failure of a single size is in its row instead.
        UnfitError: the machine cannot run it.
    """
    asked = checked(**locals())  # all arguments
    ends = search_ends(asked.sizes)
    if ends is None and len(parse_sizes(asked.sizes)) < 2:
        raise UsageError(f"Cannot search at one size, {asked.sizes}.",
                         "Give both ends, as in n='16:4096', or use time_on().")  # fmt: skip
    return _run(asked, find_crossover=ends is None)


@said_in_python()
def time_on(
    what: What,
    n: Sizes = 512,
    *,
    setup: str = "",
    let: Mapping[str, object] | None = None,
    inputs: Callable[[int], Any] | None = None,
    dtype: object = None,
    threads: int | str | None = None,
    device: str | Sequence[str] | None = None,
    in_place: bool = False,
    rounds: int | None = None,
    starts: int | None = None,
    max_seconds: float | None = None,
    simulate: str | None = None,
    save: bool = False,
) -> Result:
    """Time code on both devices at the sizes `n`: `512`, `[16, 64, 256]` or `"16:4096:16"`.

    The other arguments are those of `crossover`.

    Raises:
        UsageError: an argument or the code is wrong. A failure of a single size is in its row instead.
        UnfitError: the machine cannot run it.
    """
    asked = checked(**locals())
    if search_ends(asked.sizes) is not None:
        raise UsageError(f"The range {asked.sizes!r} has no step.",
                         "Add one, as in 16:4096:16, or search with crossover().")  # fmt: skip
    return _run(asked, find_crossover=False)


@said_in_python()
def load(name: str | int = "latest", database: str | os.PathLike[str] | None = None) -> Result:
    """Return a saved run: its number, the start of its id, or `"latest"`.

    Raises:
        UsageError: there is no such run, or an argument has a wrong type.
        CpuGpuError: the history cannot be read.
    """
    called = run_name(name)
    with reading(database_path(database), must_exist=True) as store:
        return Result.of(folded(store.load(store.find(called))))


def _run(asked: Arguments, *, find_crossover: bool) -> Result:
    """Run a plan to its end. ctrl+c raises KeyboardInterrupt after the agent's process has ended.

    Code that runs in this process is timed alone: two calls from two threads would disturb each other's times, and
    code that is being timed cannot time.
    """
    if threading.current_thread().name == THREAD_NAME:
        raise UsageError("This call is inside code that is being timed.", "Time one of the two, not both.")
    return _run_plan(build_plan(asked.request._replace(find_crossover=find_crossover)), asked)


def _run_plan(plan: Plan, asked: Arguments) -> Result:
    own, is_simulated = asked.subject.own, plan.simulation is not None
    state, progress = RunState(), Progress()

    def see(event: Event) -> None:
        nonlocal state
        state = state.apply(event)
        progress.show(state, event)

    with ExitStack() as stack:
        if own is not None:
            if not _in_this_process.acquire(timeout=OTHERS_PATIENCE_S):
                raise UnfitError("Another thread has been timing code for 10 minutes.", "Wait for it, then call again.")
            stack.callback(_in_this_process.release)
            if not is_simulated:
                adopt_orphans()
                stack.callback(adopt_orphans, False)
            stack.enter_context(held(asked.subject.code, own, is_simulated=is_simulated))
        began_s = time.monotonic()
        plan = with_saved_peaks(plan, None, save=asked.save)
        outbox = stack.enter_context(saving(RunOptions(save=asked.save)))
        worker = "process" if own is None else "thread"
        agents = Agents(None, worker, simulated=is_simulated, own=asked.request.own.words())
        stack.callback(_close, agents)
        session = Session(plan, agents, outbox, facts=controller_facts(), ceilings=True, began_s=began_s)
        if asked.save:  # without a history nothing shows the readings
            stack.enter_context(telemetry((session,), plan, agents.pids))
        stack.callback(progress.clear)
        finished = session.run(see)
        if finished.status == "failed":
            raise session.error or error_of(finished)
        save_rest(outbox, 0)
        state, _, _ = as_saved(state, session.saver.unsaved, None)
    return Result.of(state)


_abandoned: list[Agents] = []
"""Agents whose thread did not stop in time."""


def _close(agents: Agents) -> None:
    agents.close(THREAD_PATIENCE_S)
    if agents.has_live_thread:
        _abandoned.append(agents)


@atexit.register
def _leave() -> None:
    """End the process at once if a thread is still in a call of torch: Python would abort with a core dump."""
    if any(agents.has_live_thread for agents in _abandoned):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED)


# ------------------------------------------------------------------ result


OWN_PROCESS = "Ran in a process of its own."
NOWHERE = "Simulated: your code was not timed."


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
    covers_starts: bool
    """Whether the interval is about other starts of the process too. Otherwise it holds within the one that ran."""
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
    name: str = ""
    """The code, or the workload of a saved run."""


@dataclass(frozen=True)
class Result(Rows):
    """The answer to "is it faster on the GPU?" with the numbers behind it. `print` shows the table."""

    answer: str
    """The sentences of the command line, such as `The GPU wins from n ≈ 205 (192–213).` Simulated ones are marked."""
    point: float | None
    """Size at which both devices are equally fast; None if the winner does not change between the sizes, or if sizes
    inside the bracket contradict every point."""
    bracket: tuple[int, int] | None
    """Largest size at which the CPU clearly wins, and smallest at which the GPU does."""
    where: str
    """The process that ran the code, as a sentence; of a simulated run, that none did."""
    receipt: tuple[str, ...] = field(repr=False)
    """Where and what it executed, a sentence each."""
    rows: tuple[TimedRow, ...] = field(repr=False)
    """One for each size, in order."""
    run: RunState = field(repr=False, compare=False)
    """Everything that is known of the run, not part of the stable interface."""

    @classmethod
    def of(cls, run: RunState) -> Result:
        """Return the result of a finished run, beside its recorded GPU if it has one."""
        run = with_recorded(run)
        change = next((each.resident.crossover for each in report(run).answered), None)
        where = NOWHERE if run.simulated else next(iter(caller_lines(run)), OWN_PROCESS)
        mark = simulated_words(run).rstrip()
        ended = (run.finished.message, run.finished.remedy) if run.finished is not None else ()
        return cls(
            answer=" ".join(filter(None, (mark, *answer_lines(run), *map(in_python, ended)))),
            point=change.known_point if change is not None else None,
            bracket=(change.low, change.high) if change is not None else None, where=where,
            receipt=(where,) if run.simulated else tuple(dict.fromkeys((where, *run_receipt(run)))),
            rows=tuple(_row(run, row) for row in sorted(run.rows.values(), key=lambda row: row.case.size)), run=run,
        )  # fmt: skip

    def table(self) -> str:
        """Return what `cpugpu-tui time` prints."""
        return state_text(self.run)

    def __str__(self) -> str:
        return self.table()

    def plot(self, axes: Any = None) -> Any:
        """Draw the times of each device over the sizes, and the crossover. Return matplotlib's axes.

        Raises:
            UsageError: `axes` are not axes of matplotlib.
            UnfitError: matplotlib is not installed.
        """
        axes = axes_for(axes)
        for _, chart in charts(self.run)[:1]:
            draw(axes, chart)
        answer = self.answer.removeprefix(simulated_words(self.run)).partition(". ")[0].rstrip(".")
        answer = f"SIMULATED: {answer}" if self.run.simulated else answer
        axes.set_title(answer, parse_math=False, wrap=True, fontsize="medium", loc="left", pad=36)
        return axes

    def _repr_html_(self) -> str:
        """Return the table and its sentences for a notebook."""
        return "\n".join(_html(self.run, self.receipt))


def _row(run: RunState, row: Row) -> TimedRow:
    found, copied = judged(run, row).comparison, judged(run, row, END_TO_END).comparison
    failure = remark(run, row) if row.failure is not None else ""
    return TimedRow(
        size=row.case.size, cpu_ns=_latency_ns(row, row.cpu), gpu_ns=_latency_ns(row, row.gpu),
        speedup=found.speedup if found is not None else None, low=found.low if found is not None else None,
        high=found.high if found is not None else None, covers_starts=covers_starts(row),
        faster=_text(run, row, Key.VERDICT),
        with_copies=copied.speedup if copied is not None else None, limited_by=_text(run, row, Key.LIMIT),
        marks=tuple(row_marks(run, row)),
        failure=f"{failure} {in_python(row.failure.remedy)}".strip() if row.failure is not None else "",
        name=typed_name(row.case.workload, run.plan.codes),
    )  # fmt: skip


def _latency_ns(row: Row, times: DeviceTimes | None) -> float | None:
    return None if times is None or row.status == "mismatch" else times.latency_ns


def _text(run: RunState, row: Row, key: str) -> str:
    text = COLUMNS[key].text(run, row)
    return "" if text == NONE else text


def _html(run: RunState, receipt: tuple[str, ...]) -> Iterator[str]:
    """Yield heading, code, table, answer and receipt as HTML."""
    table = run_table(run)
    keys = [key for key in table.headings if any(line.get(key) not in (None, "", NONE) for line in table.lines)]
    yield f"<p>{escape(heading(run))}</p>"
    yield from (f"<pre>{escape(line)}</pre>" for line in code_lines(run))
    yield "<table><thead><tr>"
    yield from (f"<th{_aligned(key)}>{escape(table.headings[key])}</th>" for key in keys)
    yield "</tr></thead><tbody>"
    for line in table.lines:
        yield f"<tr>{''.join(f'<td{_aligned(key)}>{escape(line[key])}</td>' for key in keys)}</tr>"
    yield "</tbody></table>"
    sentences = (*answer_lines(run), *receipt, cut_short(run), *mark_lines(run), *notes(run))
    yield from (f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)


def _aligned(key: str) -> str:
    return f' style="text-align:{"left" if is_words(key) else "right"}"'
