"""Runs a duet for a command: its progress, its signals, and the comparison at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from cpugpu_tui.analysis.compare import DUET_BANDS, MOST_PAIRS
from cpugpu_tui.cli.output.printing import print_json, print_lines
from cpugpu_tui.cli.running import one_run
from cpugpu_tui.cli.running.options import RunOptions, with_own
from cpugpu_tui.cli.running.saving import Outputs, save_rest, saving, say_remark
from cpugpu_tui.compare.comparison import SeriesComparison
from cpugpu_tui.compare.in_turn import Face, Live, Played, Side, duet_plan, play
from cpugpu_tui.config.parsing import parse_bands
from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT, UnfitError, UsageError, print_notice
from cpugpu_tui.model import Event, Plan
from cpugpu_tui.render.comparison import comparison_data
from cpugpu_tui.session.duet import Duet
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.state.state import RunState
from cpugpu_tui.transport.agent_pool import Agents


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
    plan = duet_plan(request, sides, options.worker)
    outputs.check()

    with saving(options) as outbox:
        face = Printed(options, one_run.seen_by(outputs, as_json=as_json))
        played = play(request, plan, sides, outbox, face, options.began_s, bands)
        say_remark(outbox)
        for line in outputs.write():
            print_notice(line)
        code = played.exit_code or outputs.exit_code
        if played.failed >= {case.key for case in plan.cases}:  # those reasons are known, and no case is left
            return save_rest(outbox, code or EXIT_UNFIT)
        try:
            found = played.found()
            show_duet(found, played, as_json=as_json)
            code = code or (EXIT_UNFIT if any(each.placebo_moved for each in found) else EXIT_OK)
        except (UsageError, UnfitError) as error:  # no case was timed on both sides; the runs are saved anyway
            if not played.is_over:  # that reason is known, too
                print_notice(f"No comparison: {error}")
            code = code or EXIT_UNFIT
        return save_rest(outbox, code)


def show_duet(found: Sequence[SeriesComparison], played: Played, *, as_json: bool) -> None:
    """Print the comparisons and how long the duet took."""
    from cpugpu_tui.cli.output.table_style import console
    from cpugpu_tui.cli.output.tables import show_comparison

    for each in found:
        if as_json:
            print_json({**comparison_data(each), "duet": played.data})
        else:
            show_comparison(each)
    if found and not as_json:
        print_lines(console(), [played.text])
