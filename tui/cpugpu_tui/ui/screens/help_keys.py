"""Which keys help shows first for each pane and page: commands of `keys.py`, and keys that only that place has."""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.ui.key_overrides import Keymap
from cpugpu_tui.ui.keys import COMMAND_BY_ID, COMPARE, GO, GROUPS, LOOK, RUN, TAKE_AWAY


@dataclass(frozen=True)
class OwnKey:
    """A key that does something of its own in one place."""

    keys: str
    """One or more, as people write them, with spaces between; ids in braces stand for the keys in force."""
    group: str
    """One of `GROUPS`."""
    help: str
    """One imperative sentence."""


@dataclass(frozen=True)
class PaneKeys:
    """The keys of a pane or page."""

    name: str
    """With its article, `the workload pane`."""
    commands: tuple[str, ...]
    """Ids of the commands that matter here; the others are on the second page of help."""
    own: tuple[OwnKey, ...] = ()
    """Keys that mean something of their own here; they come before the commands of their group."""


COUNT = OwnKey("1-99", RUN, "Set the repeats: 5 {run} runs a series of five.")
MOVE = OwnKey("j k G", GO, "Move in the list; so do arrows, home and end.")
SCROLL = OwnKey("j k g G", GO, "Scroll; so do arrows, page up and page down.")
OPEN = ("palette", "help", "quit")
"""What works on every page."""

PANES: dict[str, PaneKeys] = {
    "workload": PaneKeys(
        "the workload pane",
        ("run", "find", "pause", "stop", "chart", "history", "machine", "zoom", "compare", "claims",
         "export", "copy-command", "next-pane", "palette", "help", "quit"),
        (COUNT, OwnKey("{open}", LOOK, "Change sizes, dtype, threads, devices and repeats."),
         OwnKey("j k", GO, MOVE.help)),
    ),
    "timings": PaneKeys(
        "the timings pane",
        ("run", "run-row", "pause", "stop", "filter", "sort", "reverse", "chart", "what-if", "zoom", "compare",
         "baseline", "export", "copy-row", "copy-command", "next-pane", "help", "quit"),
        (COUNT, OwnKey("{open}", LOOK, "Open the details of the row."), MOVE),
    ),
    "telemetry": PaneKeys(
        "the telemetry pane",
        ("run", "stop", "measure", "machine", "history", "next-pane", "palette", "help", "quit"),
        (OwnKey("{zoom}", LOOK, "Show every reading of one GPU, with processes."),),
    ),
    "gpu": PaneKeys(
        "the telemetry page",
        ("pause", "stop", "machine", *OPEN),
        (OwnKey("tab", LOOK, "Show the next GPU; shift+tab: the previous one."),
         OwnKey("{back} {zoom}", GO, "Return to the panes."), SCROLL),
    ),
    "detail": PaneKeys(
        "the detail page",
        ("run-row", "pause", "stop", "machine", "claims", "copy-row", "copy-command", "export", "back", *OPEN),
        (SCROLL,),
    ),
    "chart": PaneKeys(
        "the chart page",
        ("run", "find", "pause", "stop", "what-if", "machine", "compare", "claims", "export", "copy-row", *OPEN),
        (OwnKey("X", LOOK, "Make the size axis linear or logarithmic."),
         OwnKey("Y", LOOK, "Make the time axis linear or logarithmic."),
         OwnKey("j k", LOOK, "Highlight the next or the previous row."),
         OwnKey("{back} {chart}", GO, "Return to the panes.")),
    ),
    "history": PaneKeys(
        "the history page",
        ("filter", "claims", "back", *OPEN),
        (OwnKey("{run}", RUN, "Run the plan of this run again, with its seed."),
         OwnKey("enter", LOOK, "Open the run in the panes; {history} returns to this list."),
         OwnKey("l", LOOK, "Change the tags of the run."),
         OwnKey("{baseline}", COMPARE, "Make the run's series the baseline."),
         OwnKey("d", TAKE_AWAY, "Delete the run; asks first."), MOVE),
    ),
    "compare": PaneKeys(
        "the compare page",
        ("history", "baseline", "claims", "export", "copy-command", *OPEN),
        (OwnKey("o n", COMPARE, "Compare with an older or a newer series."),
         OwnKey("{back} {compare}", GO, "Return to the panes."), SCROLL),
    ),
    "claims": PaneKeys(
        "the claims page",
        ("stop", "machine", "history", "back", *OPEN),
        (OwnKey("{open}", RUN, "Show how long measuring takes; again: measure."), MOVE),
    ),
    "machine": PaneKeys(
        "the machine card",
        ("measure", "stop", "claims", *OPEN),
        (OwnKey("{back} {machine}", GO, "Return to the panes."), SCROLL),
    ),
    "fleet": PaneKeys(
        "the fleet page",
        ("next-theme", "help", "quit"),
        (OwnKey("{stop}", RUN, "Stop all hosts after their current block; pressed twice: at once."),
         OwnKey("{open}", LOOK, "Show the cases of the highlighted host."),
         OwnKey("{zoom}", LOOK, "Switch between hosts and all cases."), MOVE),
    ),
    "host": PaneKeys(
        "the host page",
        ("back", "next-theme", "help", "quit"),
        (OwnKey("{stop}", RUN, "Stop all hosts after their current block; pressed twice: at once."), MOVE),
    ),
}  # fmt: skip
"""Pane, or topic of a page → its keys."""


def grouped(pane: PaneKeys, keymap: Keymap) -> dict[str, list[tuple[str, str]]]:
    """Return group → (keys, what they do), for the groups that have any."""
    found = {}
    for group in GROUPS:
        own = [(keymap.with_keys(key.keys), keymap.with_keys(key.help)) for key in pane.own if key.group == group]
        commands = [COMMAND_BY_ID[name] for name in pane.commands]
        rows = own + [(keymap.of(each.id), each.help) for each in commands if each.group == group]
        if rows:
            found[group] = rows
    return found
