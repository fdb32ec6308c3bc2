"""`cpugpu-tui compare`, `baseline`, `gate` and `noise`: what has changed between two series, and what could be seen."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json, print_lines, tell
from cpugpu_tui.config.parsing import parse_bands
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.errors import UnfitError, UsageError, did_you_mean
from cpugpu_tui.machine.text import printable

if TYPE_CHECKING:
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.compare.series import Floor, Series
    from cpugpu_tui.model import Plan
    from cpugpu_tui.store import Store


commands = typer.Typer()


class CompareGiven(opt.Given):
    """The options of `compare` and `baseline`."""

    base: Annotated[str, opt.argument("BASE", f"Series to compare against. {opt.SERIES}")]
    new: Annotated[str, opt.argument("NEW", "Series to judge. It takes the same forms as BASE.")] = "latest"
    name: Annotated[str | None, opt.argument("NAME", "Baseline to create or show.", "all, listed")] = None
    run: Annotated[str | None, opt.argument("RUN", "Any run of the series that becomes the baseline.")] = None
    delete: Annotated[bool, opt.flag("--delete", "Delete the baseline NAME. Its runs stay in the history.")] = False


@opt.takes(commands.command(), CompareGiven, "base new band json database")
def compare(given: CompareGiven) -> None:
    """Compare two series of runs, case by case.

    Prints how their machines differ. For each case it prints the change in latency and the change in kernel
    time, each with a verdict. At the end it prints the geometric mean of the changes.
    """
    from cpugpu_tui.cli.output.tables import show_comparison
    from cpugpu_tui.cli.past_runs import series_in
    from cpugpu_tui.compare.comparison import compare_series, usual_bands
    from cpugpu_tui.render.comparison import comparison_data

    first, second = (series_in(name, given.database) for name in (given.base, given.new))
    usual = usual_bands(first, second)
    bands = parse_bands(given.band, usual) if given.band is not None else usual
    found = compare_series(first, second, bands)
    if given.json:
        print_json(comparison_data(found))
    else:
        show_comparison(found)


@opt.takes(commands.command(), CompareGiven, "name run delete json database")
def baseline(given: CompareGiven) -> None:
    """Name a series of runs as a baseline, or list the baselines.

    `compare` and `gate` take the name. Without RUN or --delete, nothing is changed.
    """
    from cpugpu_tui.cli.past_runs import reading, writing
    from cpugpu_tui.compare.series import checked_baseline

    name = given.name
    if given.delete and (name is None or given.run is not None):
        raise UsageError("--delete takes a NAME and no RUN.", "Use, for example, `cpugpu-tui baseline main --delete`.")
    if name is not None and given.run is not None:
        _set_baseline(name, given.run, given.database, as_json=given.json)
        return
    with writing(given.database) if given.delete else reading(given.database, must_exist=True) as store:
        known = store.baselines()
        if name is not None and name not in known:
            checked_baseline(name)
            create = f"Create it with `{with_database(f'cpugpu-tui baseline {name} latest')}`."
            known_ones = did_you_mean(name, known, "There are none." if not known else "")
            raise UsageError(f"Unknown baseline {name!r}.", known_ones if given.delete else create)
        for each, series_id in known.items():
            if name in (None, each) and (given.json or not given.delete):
                _print_baseline(store, each, series_id, as_json=given.json)
        if given.delete and name is not None:
            store.delete_baseline(name)
            if not given.json:
                tell(f"Deleted baseline {printable(name)}. Its runs stay in the history.")
    if not known and not given.json:
        tell(f"No baselines yet. Create one with `{with_database('cpugpu-tui baseline main latest')}`.")


def _set_baseline(name: str, run_name: str, database: Path | None, *, as_json: bool) -> None:
    from cpugpu_tui.cli.past_runs import file_and_name, writing
    from cpugpu_tui.compare.series import checked_baseline, set_baseline
    from cpugpu_tui.render.comparison import left_out

    checked_baseline(name)
    file, _ = file_and_name(run_name)
    if file is not None:
        merge = with_database(f"cpugpu-tui history merge {shlex.quote(str(file))}")
        raise UsageError(f"A baseline names a run of the history, not of {file}.", f"Copy its runs with `{merge}`.")
    with writing(database) as store:
        series_id = store.series_of(store.find(run_name))
        series, said, few = set_baseline(store, name, series_id, run_name)
        if as_json:
            _print_baseline(store, name, series_id, as_json=True)
            return
    tell(plain(printable(said)))
    if without := left_out(series):
        tell(plain(without))
    if few:
        from cpugpu_tui.cli.running.gate import more_runs

        tell(plain(f"{few} {more_runs(str(series.runs[-1].number), shlex.quote(name))}"))


def _print_baseline(store: Store, name: str, series_id: str, *, as_json: bool) -> None:
    from cpugpu_tui.compare.series import series_of_id
    from cpugpu_tui.render.comparison import series_text

    runs = store.runs_of(series_id)
    if as_json:
        print_json({"name": name, "series_id": series_id, "run_ids": runs})
    elif runs:
        tell(plain(f"{printable(name)}: {series_text(series_of_id(store, series_id))}"))
    else:
        tell(plain(f"{printable(name)}: no finished run"))


OF_A_SERIES = ("baseline_name", "new", "repeat", "any_machine")
"""Parameters that have no meaning with --against."""


class GateGiven(opt.Given):
    """The options of `gate`."""

    names: Annotated[list[str] | None, opt.names_of("those of the baseline, or quick")] = None
    baseline_name: Annotated[str, opt.option(
        "SERIES", "Baseline to compare against. It takes the same forms as BASE in `cpugpu-tui compare`.", "--baseline"
    )] = "main"  # fmt: skip
    against: Annotated[str | None, opt.option(
        "PYTHON", "Compare with this other Python instead of with a baseline. The two Pythons run in turn."
    )] = None  # fmt: skip
    repeat: Annotated[int, opt.count_of(
        "Number of runs in the new series. A verdict needs at least 5.", check=opt.in_range(1)
    )] = 5  # fmt: skip
    new: Annotated[str | None, opt.option("SERIES", "Judge this saved series instead of running a new one.")] = None
    junit: Annotated[Path | None, opt.file_of("Write JUnit XML to this file, one test per verdict.")] = None
    any_machine: Annotated[bool, opt.flag(
        "--any-machine", "Compare even if the CPU or GPU is not that of the baseline."
    )] = False  # fmt: skip


@opt.takes(
    commands.command(), GateGiven,
    "names baseline_name against max_slowdown repeat new junit summary any_machine json database no_save worker python "
    "case_timeout simulate workloads",
)  # fmt: skip
def gate(given: GateGiven) -> None:
    """Run a series and fail if a case became slower.

    The series is compared with a baseline. With --against, it is compared with a second Python, which runs the same
    cases now.

    Exit code: 0 passed, 1 a case is slower, 3 a case failed, 4 undecided.
    """
    from cpugpu_tui.cli.past_runs import series_in
    from cpugpu_tui.cli.running.gate import LIMITS, GateRequest, judge, play, run_and_judge

    request = GateRequest(
        names=tuple(given.names or ()), baselines=(given.baseline_name,),
        limits=parse_bands(given.max_slowdown, LIMITS), repeat=given.repeat, junit=given.junit, summary=given.summary,
        case_timeout_s=given.case_timeout, simulation=given.simulation, new=given.new, any_machine=given.any_machine,
    )  # fmt: skip
    options = given.run_options(python=None if given.new is not None else given.python)
    if given.against is not None:
        opt.refuse_beside(given.context, "--against", OF_A_SERIES.__contains__)
        raise typer.Exit(play(request, options, given.against, as_json=given.json))
    base = series_in(given.baseline_name, given.database)
    if given.new is not None:
        opt.refuse_beside(given.context, "--new", "repeat".__eq__, "Leave it out: --new runs nothing.")
        raise typer.Exit(judge(request, base, series_in(given.new, given.database), as_json=given.json))
    raise typer.Exit(run_and_judge(request, options, base, as_json=given.json))


class NoiseGiven(opt.Given):
    """The options of `noise`."""

    repeat: Annotated[int, opt.count_of("Number of runs, each in a new process.", check=opt.in_range(2, 20))] = 5


@opt.takes(commands.command(), NoiseGiven, "repeat json database no_save python device simulate")
def noise(given: NoiseGiven) -> None:
    """Tell the smallest change that a comparison finds here.

    Times matrix products in five fresh processes, in about a minute. Then prints how much each time varies between
    processes, what 1, 5 and 10 runs on each side would show, and what made it noisier than the last time.
    """
    from cpugpu_tui.compare.series import noise_plan

    plan = noise_plan(given.devices, given.simulation)
    raise typer.Exit(_run(plan, given.run_options(), given.repeat, as_json=given.json))


def _run(plan: Plan, options: RunOptions, repeat: int, *, as_json: bool) -> int:
    """Run the series, print the floor, and return the exit code.

    Raises:
        UnfitError: no time was measured twice.
    """
    from cpugpu_tui.cli.running.one_run import Turn, run_turns
    from cpugpu_tui.cli.running.saving import save_rest, saving, say_remark
    from cpugpu_tui.compare.series import Series, floors
    from cpugpu_tui.session.event_stream import new_id
    from cpugpu_tui.session.planning import nth_plan
    from cpugpu_tui.state.folding import MeasuredRun
    from cpugpu_tui.transport.agent_pool import Agents

    series_id, runs = new_id(), list[MeasuredRun]()
    with saving(options) as outbox:
        turns = [Turn(nth_plan(plan, number), series_id, outbox) for number in range(1, repeat + 1)]
        with closing(Agents(options.python, simulated=plan.simulation is not None)) as agents:
            code = run_turns(turns, agents, None, lambda _turn, run: runs.append(run))
        if code:
            return save_rest(outbox, code)
        say_remark(outbox)
        found = floors(runs)
        if not found:
            raise UnfitError("No time was measured twice.", "Stop other work on this machine and run again.")
        store = outbox.store if outbox is not None else None
        before = _last_time(store, series_id, plan) if store is not None else None
        _show(Series(plan.name, tuple(runs)), found, before, as_json=as_json)
        return save_rest(outbox, code)


def _last_time(store: Store, series_id: str, plan: Plan) -> Series | None:
    """Return the newest earlier series of this command; None without one."""
    from cpugpu_tui.compare.series import MOST_LOOKED_THROUGH, series_called, series_of_id

    ids = series_called(store.runs(MOST_LOOKED_THROUGH), plan.name, simulated=plan.simulation is not None)
    return next((series_of_id(store, each, "the last time") for each in ids if each != series_id), None)


def _show(now: Series, found: Sequence[Floor], before: Series | None, *, as_json: bool) -> None:
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.compare.series import RUNS
    from cpugpu_tui.render.gpus import SIMULATED
    from cpugpu_tui.render.noise import cells, columns, lines

    if as_json:
        print_json(_data(now, found, before))
        return
    out = console()
    print_lines(out, [SIMULATED] if now.runs[0].simulated else [])
    out.print(table_of(columns(RUNS), (cells(each, RUNS) for each in found)))
    print_lines(out, lines(now, found, before))


def _data(now: Series, found: Sequence[Floor], before: Series | None) -> dict[str, Any]:
    """Return the floors as JSON values, with what grew since the last time and what differs."""
    from cpugpu_tui.compare.comparison import differences
    from cpugpu_tui.compare.series import RUNS, floors, grown
    from cpugpu_tui.render.comparison import series_data

    return {
        "event": "Noise", "series": series_data(now), "simulated": now.runs[0].simulated,
        "floors": [{"case": each.case, "device": each.device, "metric": each.metric, "median_ns": each.median_ns,
                    "spread": each.spread, "change": {str(runs): each.change(runs) for runs in RUNS}}
                   for each in found],
        "before": None if before is None else {
            "series": series_data(before), "grown": grown(floors(before.runs), found),
            "differences": [{"what": each.what, "base": each.base, "new": each.new}
                            for each in differences(before.runs, now.runs)],
        },
    }  # fmt: skip
