"""`cpugpu-tui demo`: play recorded runs in the app, or print their tables, answers and claims, or their events."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_answer, print_event, print_json, tell
from cpugpu_tui.config import load_config

if TYPE_CHECKING:
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
    from cpugpu_tui.cli.claims import print_judged
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
