"""The ways in which `run` runs: a series, the rest of an interrupted run, or a duet of several sides in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace

from cpugpu_tui.analysis.compare import DUET_BANDS, MOST_PAIRS
from cpugpu_tui.cli.options import Given, refuse_beside
from cpugpu_tui.cli.output.printing import failure_as_event, print_json, print_lines
from cpugpu_tui.cli.output.table_style import console
from cpugpu_tui.cli.running import one_run
from cpugpu_tui.cli.running.options import RunOptions, check_unchanged, found_python, with_own, words_for
from cpugpu_tui.cli.running.saving import Outputs, outbox_of, remark_of, save_rest, saving, say_remark
from cpugpu_tui.compare.comparison import SeriesComparison
from cpugpu_tui.compare.in_turn import Face, Live, Played, Side, duet_plan, play
from cpugpu_tui.compare.series import numbers_text
from cpugpu_tui.config.parsing import parse_bands
from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT, EXIT_USAGE, StoreError, UnfitError, UsageError, print_notice
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Event, Plan
from cpugpu_tui.render.comparison import comparison_data
from cpugpu_tui.session.devices import with_gpu_names
from cpugpu_tui.session.duet import Duet
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.session.planning import PlanRequest, build_plan, nth_plan
from cpugpu_tui.session.request import check_settings
from cpugpu_tui.session.resume import Unfinished, unfinished
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import Store, open_store, with_saved_peaks
from cpugpu_tui.transport.agent_pool import Agents


def run_headless(request: PlanRequest, options: RunOptions, *, as_json: bool, outputs: Outputs | None = None) -> int:
    """Run a request to its end and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all. With `--json` it is also printed as a `RunFinished` line.
    """
    outputs = outputs or Outputs()
    with failure_as_event(as_json=as_json):
        request = with_own(request, options.workloads, options.python)
        plan = with_saved_peaks(build_plan(request), options.database, save=options.save)
        outputs.check()
    agents = options.agents(options.python, request.own, simulated=plan.simulation is not None)
    series_id, code = new_id(), EXIT_OK
    with saving(options) as outbox:
        with closing(agents):
            with failure_as_event(as_json=as_json):
                plan = with_gpu_names(plan, agents)
            for number in range(1, request.repeat + 1):
                each = nth_plan(plan, number)
                session = Session(
                    each, agents, outbox, series_id, request.case_timeout_s, options.facts,
                    ceilings=options.ceilings, began_s=options.began_s + (number - 1) * (plan.max_seconds or 0.0),
                )  # fmt: skip
                remark = remark_of(outbox) if number == 1 else None
                repeat = request.repeat if number == request.repeat else 0
                ended = one_run.run_once(session, agents, each, remark, as_json=as_json, outputs=outputs, repeat=repeat)
                code = max(code, ended)
                if session.stopping or session.error is not None or code in (EXIT_USAGE, EXIT_UNFIT):
                    break  # the next run would fail in the same way
        return save_rest(outbox, code or outputs.exit_code)


TAKEN = (
    "names", "resume", "explain", "json", "database", "python", "pythons", "case_timeout", "workloads", "export",
    "tensorboard", "all_", "max_seconds", "ceilings",
)  # fmt: skip
"""Parameters of `run` and `survey` that can be used with --resume. Of the plan only the time limit may change."""


def resume_run(given: Given, preset: str | None = None) -> int:
    """Run the missing cases of a saved run and return the exit code.

    Without a named run it is the newest unfinished one, of `preset` if that is given.

    Raises:
        UsageError: an option would change the plan.
        CpuGpuError: no run can be resumed. With `--json` it is also printed as a `RunFinished` line.
    """
    refuse_beside(given.context, "--resume", lambda name: name not in TAKEN, "Leave it out.")
    as_json, database = given.json, given.database
    if given.several:
        raise UsageError(f"--resume runs one interpreter, not {len(given.several)}.", "Use --python once.")
    named_python = given.pythons[0] if given.pythons else given.python
    outputs = Outputs.of(given)
    with outbox_of(database, open_store(database, keep_aside=False), keep_aside=False) as outbox:
        store = outbox.store
        assert store is not None
        with failure_as_event(as_json=as_json):
            check_settings(PlanRequest((), case_timeout_s=given.case_timeout, max_seconds=given.max_seconds))
            run = _wanted(store, given.names or (), preset)
            plan = replace(run.started.plan, max_seconds=given.max_seconds or run.started.plan.max_seconds)
            outputs.check()
            own = words_for(plan, map(str, given.workloads or ()), run.summary.number)
            check_unchanged(plan)
            # The run may come from someone else's export, whose interpreter must not start unless it is named here.
            used = run.started.environment.get("python_option")
            if used and named_python is None:
                raise UsageError(
                    f"Run {run.summary.number} was measured with --python {printable(str(used))}.", "Add this option."
                )
        worker = str(run.started.environment.get("worker") or "process")
        python = found_python(named_python, worker, plan.simulation)
        with closing(Agents(python, worker, simulated=plan.simulation is not None, own=own)) as agents:
            session = Session.resumed(
                run, plan, agents, outbox, given.case_timeout, given.context.obj, ceilings=given.ceilings
            )
            code = one_run.run_once(session, agents, plan, store.remark, as_json=as_json, outputs=outputs)
        return save_rest(outbox, code or outputs.exit_code)


def _wanted(store: Store, names: Sequence[str], preset: str | None) -> Unfinished:
    if len(names) > 1:
        raise UsageError(
            f"--resume takes one run, not {len(names)}.", "Give one run, or none for the newest unfinished run."
        )
    if store.notice:
        raise StoreError(store.notice)
    return unfinished(store, names[0] if names else None, preset)


# ------------------------------------------------------------------ a duet


class Printed(Face):
    """A line of progress on stderr; signals stop the duet. For callers in Python, `is_quiet`, signals are theirs."""

    def __init__(self, options: RunOptions, see: one_run.See | None = None, *, is_quiet: bool = False) -> None:
        self.facts, self.agents = options.facts, options.agents  # type: ignore[method-assign]
        self._see, self._is_quiet = see, is_quiet

    @contextmanager
    def pair(self, number: int, plan: Plan, duet: Duet, agents: Sequence[Agents]) -> Iterator[Live]:
        """Show progress and read telemetry."""
        progress = one_run.Progress(f"pair {number} of at most {MOST_PAIRS}")
        with (
            nullcontext() if self._is_quiet else one_run.signals_stop(duet),
            one_run.telemetry(duet.sessions, plan, lambda: {pid for each in agents for pid in each.pids()}),
        ):
            yield lambda _index, state, event: progress.show(state, event)
        progress.clear()

    def see(self, state: RunState, event: Event) -> None:
        """Pass the events on."""
        if self._see is not None:
            self._see(state, event)

    def say(self, text: str) -> None:
        """Print a notice on stderr."""
        if not self._is_quiet:
            print_notice(text)


def run_in_turn(
    request: PlanRequest, options: RunOptions, sides: Sequence[Side], outputs: Outputs, *, as_json: bool,
    band: str | None,
) -> int:  # fmt: skip
    """Run a plan in a duet of several interpreters or codes, compare each with the first, and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all.
    """
    bands = None if band is None else parse_bands(band, DUET_BANDS)
    request = with_own(request, options.workloads, sides[0].python)
    plan = with_saved_peaks(duet_plan(request, sides, options.worker), options.database, save=options.save)
    outputs.check()

    with saving(options) as outbox:
        face = Printed(options, one_run.seen_by(outputs, as_json=as_json))
        played = play(request, plan, sides, outbox, face, options.began_s, bands)
        say_remark(outbox)
        for line in outputs.write():
            print_notice(line)
        code = played.exit_code or outputs.exit_code
        is_known = played.is_over or played.failed >= {case.key for case in plan.cases}
        found = list[SeriesComparison]()
        try:
            found = played.found()
            show_duet(found, played, as_json=as_json)
            code = code or (EXIT_UNFIT if any(each.placebo_moved for each in found) else EXIT_OK)
        except (UsageError, UnfitError) as error:  # no case was timed on both sides; the runs are saved anyway
            if not is_known:  # else, its reasons are told
                print_notice(f"No comparison: {error}")
            code = code or EXIT_UNFIT
        if code > 128 and not found and not as_json:  # a signal ended it before both sides had a time
            numbers = [run.number for series in played.series for run in series.runs if run.number is not None]
            saved = f"Saved: {numbers_text(numbers)}." if numbers else "No run is saved."
            print_lines(console(), [f"Stopped before a verdict. {saved}"])
        return save_rest(outbox, code)


def show_duet(found: Sequence[SeriesComparison], played: Played, *, as_json: bool) -> None:
    """Print the comparisons and how long the duet took."""
    from cpugpu_tui.cli.output.tables import show_comparison

    for each in found:
        if as_json:
            print_json({**comparison_data(each), "duet": played.data})
        else:
            show_comparison(each)
    if found and not as_json:
        print_lines(console(), [played.text])
