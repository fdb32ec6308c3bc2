"""`cpugpu-tui demo` without a terminal: tables, answers and claims of the recorded runs, or their events."""

from __future__ import annotations

import sys

from cpugpu_tui.cli.claims import print_judged
from cpugpu_tui.cli.json_lines import print_json
from cpugpu_tui.cli.run import print_answer, print_event
from cpugpu_tui.cli.table_style import tell
from cpugpu_tui.cli.tables import plain, print_state
from cpugpu_tui.compare.claims import judge_all, numbers_of, points_of
from cpugpu_tui.demo.recording import Recording
from cpugpu_tui.model import RunFinished
from cpugpu_tui.state.state import RunState


def print_demo(recording: Recording, *, as_json: bool) -> None:
    """Print every run as `run` prints it, then the claims as these runs judge them."""
    if as_json:
        _print_events(recording)
        return
    tell(_heading(recording))
    for number, run in enumerate(recording.runs, 1):
        tell(plain(f"\n{recording.tag} {number} of {len(recording.runs)}: {run.name}"))
        print_state(run.state)
    tell(plain(f"\n{recording.tag}: what five publications claim, judged by these runs"))
    points = [point for number, run in enumerate(recording.runs, 1) for point in points_of(run.state, f"run {number}")]
    simulated = any(run.state.simulated for run in recording.runs)
    judged = judge_all(numbers_of((), points[::-1], recording.ceilings, simulated=simulated))
    print_judged(judged, f"{recording.tag}: ")


def print_last(recording: Recording, run: RunState) -> None:
    """Print what a person has seen last of the app: a run, perhaps not to its end."""
    tell(_heading(recording))
    print_state(run)


def _heading(recording: Recording) -> str:
    return plain(f"{recording.tag}: recorded on {recording.summary}; none of this was measured here.")


def _print_events(recording: Recording) -> None:
    """Print where they come from, then the events as `run --json` does."""
    print_json({"event": "Replay", "tag": recording.tag, "machine": list(recording.machine)})
    sys.stdout.flush()  # events go past it
    for run in recording.runs:
        for event in run.events:
            if isinstance(event, RunFinished):
                print_answer(run.state)
            print_event(event)
