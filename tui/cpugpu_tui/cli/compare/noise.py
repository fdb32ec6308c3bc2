"""`cpugpu-tui noise`: the smallest change that a comparison would find on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.errors import UnfitError

if TYPE_CHECKING:
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.compare.noise import Floor
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.model import Plan
    from cpugpu_tui.store import Store

commands = typer.Typer()


class NoiseGiven(opt.Given):
    """The options of `noise`."""

    repeat: Annotated[int, opt.count_of("Number of runs, each in a new process.", check=opt.in_range(2, 20))] = 5


@opt.takes(commands.command(), NoiseGiven, "repeat json database no_save python device simulate")
def noise(given: NoiseGiven) -> None:
    """Tell the smallest change that a comparison finds here.

    Times matrix products in five fresh processes, in about a minute. Then prints how much each time varies between
    processes, what 1, 5 and 10 runs on each side would show, and what made it noisier than the last time.
    """
    from cpugpu_tui.compare.noise import noise_plan

    plan = noise_plan(given.devices, given.simulation)
    raise typer.Exit(_run(plan, given.run_options(), given.repeat, as_json=given.json))


def _run(plan: Plan, options: RunOptions, repeat: int, *, as_json: bool) -> int:
    """Run the series, print the floor, and return the exit code.

    Raises:
        UnfitError: no time was measured twice.
    """
    from cpugpu_tui.cli.running.one_run import Turn, run_turns
    from cpugpu_tui.cli.running.saving import save_rest, saving, say_remark
    from cpugpu_tui.compare.noise import floors
    from cpugpu_tui.compare.series import Series
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
    from cpugpu_tui.cli.output.printing import print_json, print_lines
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.compare.noise import RUNS
    from cpugpu_tui.render.noise import cells, columns, lines

    if as_json:
        print_json(_data(now, found, before))
        return
    out = console()
    print_lines(out, ["SIMULATED: no number here was measured."] if now.runs[0].simulated else [])
    out.print(table_of(columns(RUNS), (cells(each, RUNS) for each in found)))
    print_lines(out, lines(now, found, before))


def _data(now: Series, found: Sequence[Floor], before: Series | None) -> dict[str, Any]:
    """Return the floors as JSON values, with what grew since the last time and what differs."""
    from cpugpu_tui.compare.comparison import differences
    from cpugpu_tui.compare.noise import RUNS, floors, grown
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
