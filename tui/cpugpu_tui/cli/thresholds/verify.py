"""`cpugpu-tui thresholds verify`: time other sizes, and compare each choice with the faster device."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json
from cpugpu_tui.cli.thresholds.make import FileGiven
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, CpuGpuError, UsageError, print_notice
from cpugpu_tui.model import END_TO_END, LATENCY, Case, Plan
from cpugpu_tui.model.quantities import factor, share_text, size_text

if TYPE_CHECKING:
    from cpugpu_tui.analysis.regret import Regret
    from cpugpu_tui.report.segments import Size
    from cpugpu_tui.session.request import PlanRequest
    from cpugpu_tui.state.row import Row
    from cpugpu_tui.thresholds import Threshold, Thresholds

LIMIT_S = 300.0
"""Time for all sizes, about. With `BUDGET_S` for each, those of 20 workloads took over 410 s on an H100."""

BUDGET_S, LEAST_BUDGET_S = 1.0, 0.1
"""Most and least time for a size on one device. A regret of some per cent needs no narrow interval."""

BESIDE_S = 0.25
"""Time for a size on one device beside its budget: set-up and pauses, in a survey on an H100."""

commands = typer.Typer()


class VerifyGiven(FileGiven):
    """The options of `thresholds verify`."""

    names: Annotated[list[str] | None, opt.argument(
        opt.SUBJECT, "What to verify, as for `thresholds make`.", "all workloads in the file"
    )] = None  # fmt: skip


@opt.takes(
    commands.command(), VerifyGiven, "file names setup let in_place json max_seconds worker python simulate workloads"
)
def verify(given: VerifyGiven) -> None:
    """Time new sizes and print the regret of a file's choices.

    These sizes are the middles between those in the file, wherever the file has an answer. They are then added to the
    file, which is judged again from all of them, so the next verification times others.

    The regret is the time of the chosen device, divided by the time of the faster one, minus 1. The file does not
    contain your code: give it again, after the name of the file.

    A threshold fails if the lower bound of its mean regret is above 5 %. The mean is over its range, by logarithm.

    Exit code: 0 passed (no threshold failed, mean regret at most 2 %, and 95 % of the range answered, not counting
    brackets within a factor of 1.1), 3 not passed or a case failed, 4 no GPU or another machine.
    """
    from cpugpu_tui.analysis.regret import LEAST_ANSWERED, MOST_MEAN, Regret
    from cpugpu_tui.cli.running.options import with_own
    from cpugpu_tui.cli.thresholds import measuring
    from cpugpu_tui.export import thresholds as files
    from cpugpu_tui.session.own_workloads import OwnWorkloads

    thresholds = files.read(given.file)
    words, codes = measuring.subjects(given.names or (), given.setup or (), given.let or (), in_place=given.in_place)
    request = given.request(names=tuple(words), own=OwnWorkloads(codes=tuple(codes)))
    options = given.run_options(save=False, ceilings=False)
    measuring.check_here(thresholds, options, is_simulated=request.simulation is not None)
    request = with_own(request, options.workloads, options.python)
    own = {operation: name for name, operation in files.operations(codes, words).items()}
    wanted = _wanted(thresholds, (*words, *own))
    plan, cases = _plan(request, wanted, {name: name for name in request.own.infos()} | own, given.file)
    state, code = measuring.run_plan(plan, request.own, options)
    is_stopped = code > 128  # by a key or a signal
    if is_stopped:
        timed = sum(row.status == "ok" for row in state.rows.values())
        print_notice(f"Stopped: {timed:,} of {len(plan.cases):,} sizes were timed.")
        if not timed:
            raise typer.Exit(code)
    files.require_machine(thresholds, files.machine_of(state))
    found = {threshold: _regret(threshold, [state.rows[key] for key in keys]) for threshold, keys in cases.items()}
    whole = Regret(
        tuple(choice for each in found.values() for choice in each.choices),
        sum(each.answered for each in found.values()) / len(found),
    )
    failed = {threshold: each for threshold, each in found.items() if each.is_failed}
    is_met = bool(whole.choices) and whole.mean <= MOST_MEAN and whole.answered >= LEAST_ANSWERED and not failed
    is_kept = is_met and not is_stopped
    sizes = {each[:5]: _telling(each, [state.rows[key] for key in keys]) for each, keys in cases.items()}
    try:  # before it is printed: after a signal there is little time
        thresholds = files.add_sizes(given.file, sizes)
        gap = "Where one contradicts an answer, or is too unsure for it, the file has none now."
        added = f"Added the timed sizes to {given.file}. {gap} {measuring.coverage(thresholds)}"
    except CpuGpuError as error:  # read-only; what was found is printed
        added = f"The sizes were not added. {error}"
    if not given.json:
        measuring.print_mark(thresholds)
    _print(found, whole, is_kept=is_kept, as_json=given.json)
    by_operation = {files.operation_of(code): code for code in codes}

    def again(threshold: Threshold) -> str:
        """Return the command that adds sizes to a threshold."""
        code = by_operation.get(threshold.operation)
        return measuring.adding(threshold, code, given.file, given.workloads or (), request.simulation)

    for threshold, each in failed.items():
        print_notice(f"{_failure(threshold, each)} Measure more sizes of it on an idle machine: {again(threshold)}.")
    print_notice(added)
    verified = {each[:5] for each in found} - {each[:5] for each in failed}
    if commands := measuring.closing((each for each in thresholds.entries if each[:5] in verified), again):
        print_notice(commands)
    raise typer.Exit(code or (EXIT_OK if is_kept else EXIT_CASES_FAILED))


def _failure(threshold: Threshold, found: Regret) -> str:
    """Return where a threshold failed."""
    from cpugpu_tui.export.thresholds import named

    worst = found.worst
    assert worst is not None
    mean = f"{share_text(found.mean, 1)}, certainly more than {share_text(found.least, 1)}"
    where = {"": "the slower device", "cpu": "the CPU"}.get(worst.device, "the GPU")
    longer = f"{factor(1 + worst.regret)} as long (certainly more than {factor(1 + worst.least)})"
    at = f"At size {size_text(worst.size)} {where} takes {longer}."
    return f"{named(threshold)} failed: its mean regret is {mean}. {at}"


def _wanted(thresholds: Thresholds, operations: Sequence[str]) -> list[Threshold]:
    """Return the thresholds of these operations, or all.

    Raises:
        UsageError: the file has none for one of them.
    """
    known = {each.operation for each in thresholds.entries}
    for name in operations:
        if name not in known:
            raise UsageError(f"The file has no threshold for {name!r}.", f"It has: {', '.join(sorted(known))}.")
    return [each for each in thresholds.entries if not operations or each.operation in operations]


def _plan(
    request: PlanRequest, wanted: Sequence[Threshold], workloads: dict[str, str], file: Path
) -> tuple[Plan, dict[Threshold, list[str]]]:
    """Return a plan of other sizes than those in the file, and the keys of the cases of each threshold.

    If time is short, these are the middles of the widest gaps.

    Raises:
        UsageError: nothing can be verified, or the file names what this version does not know.
    """
    from cpugpu_tui.analysis.regret import held_out
    from cpugpu_tui.cli.thresholds.measuring import DEVICES
    from cpugpu_tui.session.planning import build_plan
    from cpugpu_tui.session.repeat import simulation_text

    limit_s = request.max_seconds or LIMIT_S
    most = max(1, int(limit_s / (len(DEVICES) * (LEAST_BUDGET_S + BESIDE_S))))
    gaps = [(width, each[0], size) for each in wanted for size, width in held_out(each).items()]
    widest = {key[1:] for key in sorted({*gaps}, key=lambda gap: (-gap[0], *gap[1:]))[:most]}
    plans: list[Plan] = []
    cases: dict[Threshold, list[str]] = {}
    unknown: dict[str, None] = {}
    for each in wanted:
        sizes = [size for size in held_out(each) if (each.operation, size) in widest]
        if each.operation not in workloads:
            unknown[each.operation] = None
        elif sizes:
            name = workloads[each.operation]
            asked = request._replace(
                names=(name,), sizes=",".join(map(str, sizes)), dtype=each.dtype,
                threads=str(each.threads or "all"), variant=each.variant, devices=DEVICES,
            )  # fmt: skip
            plans.append(build_plan(asked))
            cases[each] = [Case(name, size, each.dtype, each.threads, each.variant).key for size in sizes]
    message = f"Not verified: {', '.join(unknown)}."
    if unknown:
        name = next(iter(unknown)).partition(",")[0]
        code = f"{name} = CODE" if name.isidentifier() else "CODE"  # without a name of its own
        simulated = () if request.simulation is None else ("--simulate", simulation_text(request.simulation))
        form = shlex.join([str(file), code, "--setup", "CODE", *simulated])
        message += f" Give the code again, as in `cpugpu-tui thresholds verify {form}`."
    remedy = "For a workload of your own, add --workloads FILE."
    if not cases and unknown:
        raise UsageError(message, remedy)
    if not cases:
        raise UsageError("The file has no size to verify.", "Make it with more sizes.")
    if unknown:
        print_notice(f"{message} {remedy}")
    keys = {key for each in cases.values() for key in each}
    budget_s = limit_s / (len(DEVICES) * len(keys)) - BESIDE_S
    every = dict.fromkeys(case for plan in plans for case in plan.cases if case.key in keys)
    return replace(
        plans[0],
        name="thresholds verify",
        words=(),
        cases=tuple(every),
        metrics=(LATENCY, END_TO_END),
        budget_s=min(BUDGET_S, max(LEAST_BUDGET_S, budget_s)),
    ), cases


def _regret(each: Threshold, rows: Sequence[Row]) -> Regret:
    """Return what the choices of a threshold cost at the sizes that were timed on both devices."""
    from cpugpu_tui.analysis.regret import Choice, Regret, answered, chosen, held_out

    choices, widths = [], held_out(each)
    for size in _timed(each, rows):
        device, found = chosen(each, size.size), size.comparison
        if device is not None and found is not None:
            low, high = (found.low, found.high) if found.low and found.high else (1.0, 1.0)  # without an interval
            choices.append(Choice(size.size, device, found.speedup, low, high, widths[size.size]))
    return Regret(tuple(choices), answered(each))


def _timed(each: Threshold, rows: Sequence[Row]) -> tuple[Size, ...]:
    """Return the sizes of a threshold that were timed on both devices."""
    from cpugpu_tui.export.thresholds import RESIDENCE
    from cpugpu_tui.report.conditions import condition_of

    return condition_of(RESIDENCE[each.resident], rows).timed


def _telling(each: Threshold, rows: Sequence[Row]) -> list[Size]:
    """Return the timed sizes that tell something: one device at least costs little, or the named one too much.

    The few rounds of a verification leave many others undecided. Where they were added to simulated files, these
    answered 94 instead of 98 % of their ranges.
    """
    from cpugpu_tui.analysis.regret import Choice, chosen
    from cpugpu_tui.decide.comparison import MOST_COST

    return [
        size for size in _timed(each, rows)
        if (found := size.comparison) is not None
        and (found.cheap or Choice(size.size, chosen(each, size.size) or "", *found[:1], 1, 1, 0).regret > MOST_COST)
    ]  # fmt: skip


def _print(found: dict[Threshold, Regret], whole: Regret, *, is_kept: bool, as_json: bool) -> None:
    """Print the regret of each threshold and of all."""
    from cpugpu_tui.analysis.regret import LEAST_ANSWERED, MOST_MEAN, MOST_OF_ONE, NARROW
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.export.thresholds import named

    if as_json:
        for threshold, each in found.items():
            data = [{**choice._asdict(), "regret": choice.regret, "least": choice.least} for choice in each.choices]
            failed = {"answered": each.answered, "mean": each.mean, "failed": each.is_failed}
            print_json({**threshold._asdict(), **failed, "choices": data})
        print_json({"mean": whole.mean, "answered": whole.answered, "kept": is_kept})
        return
    rows = []
    for threshold, each in found.items():
        worst = each.worst if each.worst is not None and each.worst.regret > 0 else None
        rows.append((
            named(threshold), str(len(each.choices)), share_text(each.answered), share_text(each.mean, 1),
            share_text(worst.regret if worst else 0.0, 1), size_text(worst.size) if worst else "",
            "FAILED" if each.is_failed else "passed" if each.answered >= LEAST_ANSWERED else "incomplete",
        ))  # fmt: skip
    headings = ("threshold", "sizes", "answered", "mean regret", "worst", "at size", "outcome")
    console().print(table_of([(heading, heading in ("threshold", "outcome")) for heading in headings], rows))
    meaning = (
        "Regret is how much longer the named device takes than the faster one, or the slower one where either will do. "
        f"Its mean is over the range, by logarithm. A threshold fails if its mean is certainly above "
        f"{share_text(MOST_OF_ONE)}; a single size may be above. It is incomplete if less than "
        f"{share_text(LEAST_ANSWERED)} of its range is answered. Gaps up to {NARROW}× between answers do not count."
    )
    console().print(plain(meaning), soft_wrap=True)
    count = f"{sum(each.is_failed for each in found.values())} of {len(found)} thresholds failed (asked: none)"
    answered = f"{share_text(whole.answered, 1)} of the range answered (asked: {share_text(LEAST_ANSWERED)})"
    text = (
        f"Mean regret {share_text(whole.mean, 1)} (asked: at most {share_text(MOST_MEAN)}) at {len(whole.choices):,} "
        f"sizes, {count}; {answered}: {'passed' if is_kept else 'not passed'}."
    )
    console().print(plain(text), soft_wrap=True)
