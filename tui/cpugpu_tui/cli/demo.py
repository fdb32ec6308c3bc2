"""`cpugpu-tui demo` and `claims`: play recorded runs in the app or print them, and judge publications by runs."""

from __future__ import annotations

import gc
import platform
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_answer, print_event, print_json, tell
from cpugpu_tui.config import load_config

if TYPE_CHECKING:
    from cpugpu_tui.compare.claims import JudgedClaim
    from cpugpu_tui.demo.recording import Recording

commands = typer.Typer()


class DemoGiven(opt.Given):
    """The options of `demo`."""

    file: Annotated[Path | None, opt.argument("FILE", "File of recorded runs to play.", "the built-in runs")] = None
    pace: Annotated[str | None, opt.option(
        "PACE", "Playback speed: original, or a factor such as 2 for twice as fast.", usual="90 s in all"
    )] = None  # fmt: skip
    table: Annotated[bool, opt.flag("--table", "Print tables, answers and claims instead of opening the app.")] = False


@opt.takes(commands.command(), DemoGiven, "file pace table json theme mouse")
def demo(given: DemoGiven) -> None:
    """Play recorded runs of a real GPU in the app.

    Without a terminal, print their tables, answers and claims.
    """
    from cpugpu_tui.demo.recording import load, pace_of, shipped

    # Collections while the events are read take two fifths of the time. The app enables them after the first frame.
    gc.disable()
    factor = pace_of(given.pace)
    recording = load(given.file) if given.file is not None else shipped()
    if given.json:
        _print_events(recording)
    elif given.table or not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        _print_tables(recording)
    else:
        raise typer.Exit(_play(recording, factor, given.theme, mouse=given.mouse))


def _play(recording: Recording, factor: float | None, theme: str | None, *, mouse: bool) -> int:
    """Play the recording in the app, print the table of the last run, and return the exit code."""
    from cpugpu_tui.cli.output.tables import print_state
    from cpugpu_tui.config import paths
    from cpugpu_tui.ui.app_state import AppOptions
    from cpugpu_tui.ui.keys import keymap_of
    from cpugpu_tui.ui.start import run_app

    options = AppOptions(
        theme=theme, save=False, config_dir=paths.config_dir(), keymap=keymap_of(load_config().keys),
        mouse=mouse, demo=recording, demo_pace=factor,
    )  # fmt: skip
    result = run_app(options)
    if result.run.rows and result.exit_code == 0:
        tell(_heading(recording))
        print_state(result.run)
        _tell_own_cpu()
    return result.exit_code


def _print_tables(recording: Recording) -> None:
    """Print each run as `run` does, then the claims judged by these runs."""
    from cpugpu_tui.cli.output.tables import print_state
    from cpugpu_tui.compare.claims import judge_all, numbers_of, points_of

    tell(_heading(recording))
    for number, run in enumerate(recording.runs, 1):
        tell(plain(f"\n{recording.tag} {number} of {len(recording.runs)}: {run.name}"))
        print_state(run.state)
    tell(plain(f"\n{recording.tag}: claims of five publications, judged by these runs"))
    points = [point for number, run in enumerate(recording.runs, 1) for point in points_of(run.state, f"run {number}")]
    simulated = any(run.state.simulated for run in recording.runs)
    judged = judge_all(numbers_of((), points[::-1], recording.ceilings, simulated=simulated))
    print_judged(judged, f"{recording.tag}: ")
    _tell_own_cpu()


def _tell_own_cpu() -> None:
    """Print how a person without a GPU gets numbers of their own."""
    from cpugpu_tui.state.reference import OFFERED

    tell(f"To time your own CPU beside a recorded GPU: cpugpu-tui run quick --beside {OFFERED}")


def _heading(recording: Recording) -> str:
    return plain(f"{recording.tag}: recorded on {recording.summary}. Nothing here was measured on this machine.")


def _print_events(recording: Recording) -> None:
    """Print the recording's machine, then the events as `run --json` does."""
    from cpugpu_tui.model import RunFinished

    print_json({"event": "Replay", "tag": recording.tag, "machine": list(recording.machine)})
    sys.stdout.flush()  # events bypass this buffer
    for run in recording.runs:
        for event in run.events:
            if isinstance(event, RunFinished):
                print_answer(run.state)
            print_event(event)


# ------------------------------------------------------------------ the claims by a person's own runs


@opt.takes(commands.command(), opt.Given, "json database simulate")
def claims(given: opt.Given) -> None:
    """Compare the claims of five publications with your runs.

    For claims that are undecided or not measured yet, print the commands that measure them.
    """
    simulated = given.simulation is not None
    judged = _judged(given.database, simulated=simulated)
    if given.json:
        for each in judged:
            print_json({**as_data(each, given.simulate), "simulated": simulated})
    else:
        print_judged(judged, "SIMULATED: " if simulated else "", given.simulate)


def print_judged(claims: tuple[JudgedClaim, ...], tag: str = "", simulate: str | None = None) -> None:
    """Print the claims as a table, then `tag` with the count of each outcome, then the commands for the others.

    The commands run on the machine that `simulate` names.
    """
    from cpugpu_tui.analysis.claim_numbers import UNDECIDED
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.compare.claims import command, tally

    rows = [
        (each.claim.publication, each.claim.sentence,
         each.here + (f" ({', '.join(each.sources)})" if each.sources else ""), each.outcome)
        for each in claims
    ]  # fmt: skip
    table = table_of(("by", "says", "here", "outcome"), rows)
    table.columns[1].ratio, table.columns[2].ratio = 4, 6
    out = console()
    out.print(table)
    out.print(plain(f"{tag}{tally(claims)}."), soft_wrap=True)
    left = (each for each in claims if each.is_open or each.outcome == UNDECIDED)
    missing = dict.fromkeys(filter(None, (command(each, simulate) for each in left)))
    if missing:
        out.print("To measure the others on a machine with a GPU, run:")
    for line in missing:
        out.print(f"  {line}", soft_wrap=True)


def _judged(database: Path | None, *, simulated: bool) -> tuple[JudgedClaim, ...]:
    from cpugpu_tui.analysis.ceilings import newest
    from cpugpu_tui.compare.claims import judge_all, numbers_of, stored_points
    from cpugpu_tui.config import paths
    from cpugpu_tui.store import open_to_read

    if not paths.database_path(database).exists():  # reading must not create a file
        return judge_all(numbers_of((), (), (), simulated=simulated))
    hostname = platform.node()
    with closing(open_to_read(database)) as store:
        ceilings = newest([found for found in store.ceilings(hostname) if found.simulated == simulated])
        stored = stored_points(store, hostname, (), ceilings, simulated=simulated)
    return judge_all(numbers_of((), stored, ceilings, simulated=simulated))


def as_data(each: JudgedClaim, simulate: str | None = None) -> dict[str, object]:
    """Return a claim as JSON values."""
    from cpugpu_tui.compare.claims import command

    claim = each.claim
    return {
        "id": claim.id, "publication": claim.publication, "sentence": claim.sentence, "outcome": each.outcome,
        "here": each.here, "sources": list(each.sources), "outdated": claim.outdated, "reason": claim.reason,
        "command": command(each, simulate) or None,
    }  # fmt: skip
