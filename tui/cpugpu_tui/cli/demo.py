"""`cpugpu-tui demo`: recorded runs in the app; without a terminal their tables, answers and claims, or their events."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli.options import Json, Theme

if TYPE_CHECKING:
    from cpugpu_tui.demo.recording import Recording

commands = typer.Typer()


@commands.command()
def demo(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Another recording than the shipped one.")
    ] = None,
    pace: Annotated[
        str | None, typer.Option(help="original, or a factor: 2 is twice as fast as recorded (default: 90 s in all).")
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Print tables, answers and claims; no app.")] = False,
    json: Json = False,
    theme: Theme = None,
) -> None:
    """Play runs that were recorded on a real GPU, in the app; without a terminal print what they say."""
    from cpugpu_tui.demo.player import pace_of
    from cpugpu_tui.demo.recording import load, shipped

    factor = pace_of(pace)
    recording = load(file) if file is not None else shipped()
    if json:
        _print_events(recording)
    elif table or not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        _print_tables(recording)
    else:
        raise typer.Exit(_play(recording, factor, theme))


def _play(recording: Recording, factor: float | None, theme: str | None) -> int:
    """Play the recording in the app, leave the last run's table, and return the exit code."""
    from cpugpu_tui.cli.output.table_style import tell
    from cpugpu_tui.cli.output.tables import print_state
    from cpugpu_tui.config import config, paths
    from cpugpu_tui.ui.key_overrides import keymap_of
    from cpugpu_tui.ui.options import AppOptions
    from cpugpu_tui.ui.start import run_app

    options = AppOptions(
        theme=theme, save=False, config_dir=paths.config_dir(), keymap=keymap_of(config.load().keys),
        demo=recording, demo_pace=factor,
    )  # fmt: skip
    result = run_app(options)
    if result.run.rows and result.exit_code == 0:
        tell(_heading(recording))
        print_state(result.run)
    return result.exit_code


def _print_tables(recording: Recording) -> None:
    """Print every run as `run` prints it, then the claims as these runs judge them."""
    from cpugpu_tui.cli.claims import print_judged
    from cpugpu_tui.cli.output.table_style import plain, tell
    from cpugpu_tui.cli.output.tables import print_state
    from cpugpu_tui.compare.claims import judge_all, numbers_of, points_of

    tell(_heading(recording))
    for number, run in enumerate(recording.runs, 1):
        tell(plain(f"\n{recording.tag} {number} of {len(recording.runs)}: {run.name}"))
        print_state(run.state)
    tell(plain(f"\n{recording.tag}: what five publications claim, judged by these runs"))
    points = [point for number, run in enumerate(recording.runs, 1) for point in points_of(run.state, f"run {number}")]
    simulated = any(run.state.simulated for run in recording.runs)
    judged = judge_all(numbers_of((), points[::-1], recording.ceilings, simulated=simulated))
    print_judged(judged, f"{recording.tag}: ")


def _heading(recording: Recording) -> str:
    from cpugpu_tui.cli.output.table_style import plain

    return plain(f"{recording.tag}: recorded on {recording.summary}; none of this was measured here.")


def _print_events(recording: Recording) -> None:
    """Print where they come from, then the events as `run --json` does."""
    from cpugpu_tui.cli.output.json_lines import print_answer, print_event, print_json
    from cpugpu_tui.model import RunFinished

    print_json({"event": "Replay", "tag": recording.tag, "machine": list(recording.machine)})
    sys.stdout.flush()  # events go past it
    for run in recording.runs:
        for event in run.events:
            if isinstance(event, RunFinished):
                print_answer(run.state)
            print_event(event)
