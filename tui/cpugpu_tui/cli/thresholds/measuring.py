"""What the commands of `thresholds` share: what is timed, one run of it, a file that is read, and its table."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from cpugpu_tui.analysis.regret import LEAST_ANSWERED, NARROW, answered
from cpugpu_tui.cli.output.printing import plain, tell
from cpugpu_tui.cli.output.table_style import console, table_of
from cpugpu_tui.cli.running.one_run import controller_facts, say_why, watched
from cpugpu_tui.cli.running.options import RunOptions, with_own
from cpugpu_tui.cli.running.saving import as_saved, save_rest, saving
from cpugpu_tui.cli.time import typed_codes
from cpugpu_tui.config.sizes import parse_sizes, search_ends
from cpugpu_tui.decide.comparison import MOST_COST
from cpugpu_tui.decide.next_size import unsure_sizes
from cpugpu_tui.errors import CpuGpuError, UsageError, print_notice
from cpugpu_tui.export.threshold_ranges import points_of
from cpugpu_tui.export.thresholds import named, operation_of, operations, require_machine
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Case, Found, OwnCode, Plan, Simulation, SweepKey, typed_name, work_name
from cpugpu_tui.model.quantities import joined, share_text, size_text
from cpugpu_tui.render.crossover_words import span_text
from cpugpu_tui.render.gpus import SIMULATED
from cpugpu_tui.session.endings import error_of
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan, request_words
from cpugpu_tui.session.repeat import code_words, option_words, simulation_text
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.state import RunState
from cpugpu_tui.thresholds import CPU, FACTS, GPU, Part, Threshold, Thresholds, this_machine
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.workloads import presets

DEVICES = ("cpu", "cuda:0")
"""A threshold needs both: without a GPU the run ends at once."""

LIMIT_S, SWEEP_S = 460.0, 60.0
"""Time limit for all workloads, below 8 minutes with the start of the agent, and for each sweep of a few."""

BUDGET_S = 2.4
"""Time for a size of them on one device: twice that of a survey, because each size without a winner is an open one."""

MOST_FAILURES = 5
"""Failed sizes, and thresholds with much left open, that are named."""

_WORKLOAD = re.compile(r"[\w.-]+")
"""Other words are code."""


def subjects(
    names: Sequence[str], setup: Sequence[str], let: Sequence[str], *, in_place: bool
) -> tuple[list[str], list[OwnCode]]:
    """Return the names of workloads and presets, and the code, of what a person named.

    Raises:
        UsageError: code is no Python or has no usable name, or options for code are given without any.
    """
    statements = [name for name in names if not _WORKLOAD.fullmatch(name)]
    for option, value in {"--setup": setup, "--let": let, "--in-place": in_place}.items():
        if value and not statements:
            raise UsageError(f"{option} works only with code.", "Name an expression such as 'x @ x', or FILE:FUNCTION.")
    codes = [code for statement in statements
             for code in typed_codes(statement, "\n".join(setup), let, None, in_place=in_place)]  # fmt: skip
    words = [name for name in names if name not in statements]
    operations(codes, words)  # a wrong name must not cost minutes of measuring
    return words, codes


def measured(
    request: PlanRequest, options: RunOptions, names: Sequence[str], kept: Thresholds | None = None
) -> tuple[RunState, int]:
    """Search the crossovers of these presets and workloads, and of the request's code; see `run_plan`.

    Sizes in a list or in steps are timed as they are. A search goes on from the sizes of the file that is `kept`.

    Raises:
        CpuGpuError: the request cannot be run.
    """
    words = request_words(request)
    request = with_own(request._replace(names=tuple(names)), options.workloads, options.python)
    own, codes = request.own, tuple(code.name for code in request.own.codes)
    if not names and not codes:
        names = (presets.SURVEY,)
    ends = search_ends(request.sizes) if request.sizes is not None else None
    is_list = request.sizes is not None and ends is None and len(parse_sizes(request.sizes)) > 1
    # `16:4096` is a search by itself. With `find_crossover` it would be every size of the range.
    request = request._replace(
        names=(*names, *codes), own=own, devices=DEVICES, full=not is_list,
        find_crossover=not is_list and ends is None,
    )  # fmt: skip
    plan = replace(build_plan(request), words=words)
    if plan.search is not None:
        sweeps = {case.sweep for case in plan.cases}
        limit_s = request.max_seconds or min(LIMIT_S, SWEEP_S * len(sweeps))
        plan = replace(plan, budget_s=BUDGET_S, search=replace(plan.search, limit_s=limit_s))
        plan = _going_on(plan, kept) if kept is not None else plan
    return run_plan(plan, own, options)


def _going_on(plan: Plan, file: Thresholds) -> Plan:
    """Return a search that knows the sizes of a file. Those that leave a gap open are timed again."""
    assert plan.search is not None
    names = {operation_of(code): code.name for code in plan.codes}
    ends: dict[SweepKey, list[int]] = defaultdict(list)
    for case in plan.cases:
        ends[case.sweep].append(case.size)
    known, again = [], set()
    for each in file.entries:
        workload, (variant, dtype, threads) = names.get(each.operation, each.operation), each[1:4]
        sizes = ends.get((workload, variant, dtype, threads), [0])
        points = [point for point in points_of(each) if min(sizes) <= point.size <= max(sizes)]
        timed = {size: Case(workload, size, dtype, threads, variant) for size, _ in points}
        again |= {timed[size] for size in unsure_sizes(points)}
        known += [Found(timed[size], *own[:4], verdict=own.verdict, moved=not each.resident) for size, own in points]
    found = tuple(each for each in known if each.case not in again)
    settled = {each.case for each in found}
    most = plan.search.most_cases + max(Counter(case.sweep for case in settled).values(), default=0)
    cases = (*(case for case in plan.cases if case not in settled), *(again - {*plan.cases}))
    search = replace(plan.search, most_cases=most, most_steps=most, found=found)
    return replace(plan, cases=cases, window=max(plan.window, most), search=search)


def run_plan(plan: Plan, own: OwnWorkloads, options: RunOptions) -> tuple[RunState, int]:
    """Run a plan with a line of progress, and save it; return its state and the exit code of the command.

    Raises:
        UsageError, UnfitError: it cannot run, or not here.
    """
    agents = Agents(options.python, options.worker, simulated=plan.simulation is not None, own=own.words())
    with saving(options) as outbox:
        try:
            session = Session(plan, agents, outbox, new_id(), None, controller_facts(), ceilings=options.ceilings,
                              began_s=options.began_s)  # fmt: skip
            state, finished = watched(session, agents, plan, lambda *_: None)
        finally:
            agents.close()
        state, _, _ = as_saved(state, session.saver.unsaved, None)
        code = save_rest(outbox, session.signal_exit or finished.exit_code)
        is_empty = finished.status == "failed" and not any(row.status == "ok" for row in state.rows.values())
        if is_empty and outbox is not None and outbox.store is not None and outbox.number(session.run_id) is not None:
            with suppress(CpuGpuError):  # the error below says what is wrong; nothing was measured
                outbox.store.delete(session.run_id)
    if finished.status == "failed":
        raise error_of(finished)
    say_why(finished)
    failed = {row.case: row.failure for row in state.rows.values() if row.failure and row.failure.kind != "skipped"}
    for case, failure in list(failed.items())[:MOST_FAILURES]:
        name = f"{typed_name(case.workload, plan.codes)} {size_text(case.size)}"
        print_notice(f"{name} failed: {failure.message} {failure.remedy}".strip())
    if len(failed) > MOST_FAILURES:
        print_notice(f"{len(failed) - MOST_FAILURES} more sizes failed.")
    return state, code


def check_here(thresholds: Thresholds, options: RunOptions, *, is_simulated: bool) -> None:
    """Check before a run that a file is of this machine.

    Raises:
        UnfitError: it is of another machine.
    """
    here = {**this_machine(), "simulated": is_simulated}
    if options.python is not None:
        del here["torch"]  # that of this process does not count
    require_machine(thresholds, here)


def print_table(thresholds: Thresholds) -> None:
    """Print a line for each threshold."""
    several = {each.operation for each in thresholds.entries if not each.best}
    rows = [
        (
            work_name(each[:4]) + (", best" if each.best and each.operation in several else ""),
            each.dtype,
            str(each.threads or "all"), "resident" if each.resident else "with copies",
            _parts_text(each.answered), printable(each.axis),
        )
        for each in thresholds.entries
    ]  # fmt: skip
    headings = ("operation", "dtype", "threads", "inputs", "device", "size is")
    console().print(table_of([(heading, heading != "threads") for heading in headings], rows))
    console().print(plain(RULE), soft_wrap=True)
    if several:
        console().print(plain(BEST), soft_wrap=True)


RULE = (
    f"The device that is named costs at most {share_text(MOST_COST)} more than the other, by the end of its 95 % "
    "interval. If that names none, the mean of the sizes around decides. either: both devices do, so a program gets"
    " none. Sizes that are not listed have no answer. A size that a run or a survey calls unclear may have a device"
    " here, because they ask for a clear winner. resident: inputs on the GPU already."
)

BEST = "best: the fastest variant, which answers unless a program names another."

WORDS = {CPU: "CPU", GPU: "GPU", "": "either"}
"""Device of a part → its name."""


def _parts_text(parts: Sequence[Part]) -> str:
    """Return `CPU 16–500, GPU 1,000 and 2,048–4,096`."""
    groups = groupby(parts, lambda part: part[0])
    return ", ".join(f"{WORDS[device]} {joined([span_text(*part[1:]) for part in own])}" for device, own in groups)


def coverage(thresholds: Thresholds) -> str:
    """Return which thresholds leave a part of their range open, as a sentence."""
    low = _little_answered(thresholds.entries)
    most = share_text(LEAST_ANSWERED)
    if not low:
        return f"Every threshold answers at least {most} of its range. Gaps up to {NARROW}× do not count."
    names = [f"{named(each)} {share_text(answered(each))}" for each in low[:MOST_FAILURES]]
    names += [f"{len(low) - MOST_FAILURES} more"] if len(low) > MOST_FAILURES else []
    return (
        f"{len(low)} of {len(thresholds.entries)} thresholds answer less than {most} of their range: {joined(names)}."
    )


def _little_answered(entries: Iterable[Threshold]) -> list[Threshold]:
    """Return the thresholds that answer too little, the one with the least first."""
    return sorted((each for each in entries if answered(each) < LEAST_ANSWERED), key=answered)


def closing(entries: Iterable[Threshold], again: Callable[[Threshold], str]) -> str:
    """Return the commands that close the gaps of thresholds that answer too little, as a sentence; empty without any.

    `again` returns the command that adds sizes to a threshold.
    """
    low = (each for each in _little_answered(entries) if each.timed[0] < each.timed[-1])
    commands = list(dict.fromkeys(map(again, low)))[:MOST_FAILURES]  # one is for both thresholds of an operation
    return f"To time sizes in the gaps: {joined(commands)}." if commands else ""


def adding(
    each: Threshold,
    code: OwnCode | None,
    out: Path,
    workloads: Sequence[Path] = (),
    simulation: Simulation | None = None,
) -> str:
    """Return the command that adds sizes to a threshold of a file."""
    options = {
        "--n": f"{each.timed[0]}:{each.timed[-1]}", "--variant": each.variant.removeprefix("default"),
        "--dtype": each.dtype.removeprefix("float32"), "--threads": each.threads,
        "--workloads": list(map(str, workloads)), "--simulate": simulation and simulation_text(simulation),
        "--out": out, "--add": True,
    }  # fmt: skip
    words = ("make", *(code_words([code]) if code else [each.operation]), *option_words(options))
    return f"`cpugpu-tui thresholds {shlex.join(words)}`"


def print_machine(thresholds: Thresholds) -> None:
    """Print when and where a file was made."""
    machine = thresholds.machine
    facts = ", ".join(f"{name} {machine[fact]}" for fact, name in FACTS.items() if machine.get(fact) is not None)
    text = SIMULATED if machine.get("simulated") else f"Measured on {printable(facts)}."
    console().print(plain(f"{thresholds.made[:10]}. {text}"), soft_wrap=True)


def print_mark(thresholds: Thresholds) -> None:
    """Print that the numbers of a file are simulated, if they are."""
    if thresholds.machine.get("simulated"):
        tell(SIMULATED)
