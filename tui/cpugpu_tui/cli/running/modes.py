"""The ways in which `run` runs: a series of runs, a duet of interpreters, or the rest of an interrupted run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from cpugpu_tui.analysis.compare import DUET_BANDS, Judged
from cpugpu_tui.cli.options import refuse_beside
from cpugpu_tui.cli.output.json_lines import failure_as_event, print_json
from cpugpu_tui.cli.running.duet import Played, duet_plan, play
from cpugpu_tui.cli.running.one_run import facts, run_once, seen_by
from cpugpu_tui.cli.running.options import RunOptions, check_unchanged, found_python, with_own, words_for
from cpugpu_tui.cli.running.saving import Outputs, remark_of, save_rest, saving, say_remark, way_into
from cpugpu_tui.compare.comparison import SeriesComparison, compare_series
from cpugpu_tui.compare.series import Series
from cpugpu_tui.config.parsing import parse_bands
from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT, EXIT_USAGE, StoreError, UnfitError, UsageError, print_notice
from cpugpu_tui.machine.text import printable
from cpugpu_tui.render.comparison import comparison_data
from cpugpu_tui.session.devices import with_gpu_names
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.session.planning import PlanRequest, build_plan, check_positive, nth_plan
from cpugpu_tui.session.resume import Unfinished, unfinished
from cpugpu_tui.session.session import Session
from cpugpu_tui.store import Store, open_store
from cpugpu_tui.transport.agent_pool import Agents

if TYPE_CHECKING:
    import typer


def run_headless(request: PlanRequest, options: RunOptions, *, as_json: bool, outputs: Outputs | None = None) -> int:
    """Run a request to its end and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all. With `--json` it is also printed as a `RunFinished` line.
    """
    outputs = outputs or Outputs()
    with failure_as_event(as_json=as_json):
        request = with_own(request, options.workloads, options.python)
        plan = build_plan(request)
        outputs.check()
    agents = Agents(options.python, options.worker, simulated=plan.simulation is not None, own=request.own.words())
    series_id, code = new_id(), EXIT_OK
    with saving(options) as outbox:
        with closing(agents):
            with failure_as_event(as_json=as_json):
                plan = with_gpu_names(plan, agents)
            for number in range(1, request.repeat + 1):
                each = nth_plan(plan, number)
                session = Session(
                    each, agents, outbox, series_id, request.case_timeout_s, facts(), ceilings=options.ceilings
                )  # fmt: skip
                remark = remark_of(outbox) if number == 1 else None
                code = max(code, run_once(session, agents, each, remark, as_json=as_json, outputs=outputs))
                if session.stopping or code in (EXIT_USAGE, EXIT_UNFIT):
                    break  # the next run would fail in the same way
        return save_rest(outbox, code or outputs.exit_code)


def run_in_turn(
    request: PlanRequest, options: RunOptions, pythons: tuple[str, ...], outputs: Outputs, *, as_json: bool,
    band: str | None = None,
) -> int:  # fmt: skip
    """Run a plan in a duet of several interpreters, compare each with the first, and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all.
    """
    bands = parse_bands(band, DUET_BANDS) if band is not None else DUET_BANDS
    request = with_own(request, options.workloads, pythons[0])
    plan = duet_plan(request, pythons, options.worker)
    outputs.check()

    def compared(series: Sequence[Series]) -> list[SeriesComparison]:
        base, *others = series
        return [compare_series(base, new, bands, sharers=len(others)) for new in others if base.runs and new.runs]

    def judge(series: Sequence[Series]) -> list[Judged]:
        return [each for found in compared(series) for each in found.judged]

    with saving(options) as outbox:
        played = play(request, plan, pythons, outbox, judge, seen_by(outputs, as_json=as_json))
        say_remark(outbox)
        for line in outputs.write():
            print_notice(line)
        code = played.exit_code or outputs.exit_code
        try:
            show_duet(compared(played.series), played, as_json=as_json)
        except (UsageError, UnfitError) as error:  # no case was timed on both sides; the runs are saved anyway
            if not played.is_over:  # that reason is known already
                print_notice(f"No comparison: {error}")
            code = code or EXIT_UNFIT
        return save_rest(outbox, code)


def show_duet(found: Sequence[SeriesComparison], played: Played, *, as_json: bool) -> None:
    """Print the comparisons and how long the duet took."""
    from cpugpu_tui.cli.output.table_style import console, print_lines
    from cpugpu_tui.cli.output.tables import show_comparison

    for each in found:
        if as_json:
            print_json({**comparison_data(each), "duet": played.data})
        else:
            show_comparison(each)
    if found and not as_json:
        print_lines(console(), [played.text])


TAKEN = ("names", "resume", "json", "database", "python", "case_timeout", "workloads", "export", "tensorboard")
"""Parameters of `run` that can be used with --resume. The plan is fixed."""


def resume_run(context: typer.Context, preset: str | None = None) -> int:
    """Run the missing cases of a saved run and return the exit code.

    Without a named run it is the newest unfinished one, of `preset` if that is given.

    Raises:
        UsageError: an option would change the plan.
        CpuGpuError: no run can be resumed. With `--json` it is also printed as a `RunFinished` line.
    """
    refuse_beside(context, "--resume", lambda name: name not in TAKEN, "Leave it out.")
    given = {**dict.fromkeys(TAKEN), **context.params}
    as_json, database, pythons = given["json"], given["database"], given["python"] or ()
    pythons = (pythons,) if isinstance(pythons, str) else pythons
    if len(pythons) > 1:
        raise UsageError(f"--resume runs one interpreter, not {len(pythons)}.", "Use --python once.")
    named_python = pythons[0] if pythons else None
    outputs = Outputs(given["export"] or (), given["tensorboard"])
    with way_into(database, open_store(database, keep_aside=False), keep_aside=False) as outbox:
        store = outbox.store
        assert store is not None
        with failure_as_event(as_json=as_json):
            check_positive(PlanRequest((), case_timeout_s=given["case_timeout"]))
            run = _wanted(store, given["names"] or (), preset)
            plan = run.started.plan
            outputs.check()
            own = words_for(plan, map(str, given["workloads"] or ()))
            check_unchanged(plan)
            _require_python(run, named_python)
        worker = str(run.started.environment.get("worker") or "process")
        python = found_python(named_python, worker, plan.simulation)
        with closing(Agents(python, worker, simulated=plan.simulation is not None, own=own)) as agents:
            session = Session.resumed(run, agents, outbox, given["case_timeout"])
            code = run_once(session, agents, plan, store.remark, as_json=as_json, outputs=outputs)
        return save_rest(outbox, code or outputs.exit_code)


def _require_python(run: Unfinished, python: str | None) -> None:
    """Refuse to start an interpreter that the user did not name: the run may come from someone else's export."""
    used = run.started.environment.get("python_option")
    if used and python is None:
        raise UsageError(
            f"Run {run.summary.number} was measured with --python {printable(str(used))}.", "Add this option."
        )


def _wanted(store: Store, names: Sequence[str], preset: str | None) -> Unfinished:
    if len(names) > 1:
        raise UsageError(
            f"--resume takes one run, not {len(names)}.", "Give one run, or none for the newest unfinished run."
        )
    if store.notice:
        raise StoreError(store.notice)
    return unfinished(store, names[0] if names else None, preset)
