"""The table of commands and their keys: bindings, footer, help screen and docs/keys.md come from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from textual.binding import Binding


RUN, LOOK, COMPARE, TAKE_AWAY, GO = "Run", "Look", "Compare", "Take away", "Go"
GROUPS = (RUN, LOOK, COMPARE, TAKE_AWAY, GO)
"""Groups of keys, in the order in which help and docs/keys.md list them."""


class Situation(NamedTuple):
    """Which commands are possible now, and how they are labelled."""

    live: bool = False
    """A run has begun (its agent may still be starting)."""
    paused: bool = False
    stopping: bool = False
    """Stop was pressed once, and the block has not ended yet."""
    ran: bool = False
    """A run's rows are on the screen."""
    replay: bool = False
    """The telemetry is a recording. Nothing is run beside it, because the run would seem to belong to it."""
    past: bool = False
    """A saved run is on the screen."""
    other: bool = False
    """A workload other than that of the run on the screen is highlighted."""
    demo: bool = False
    """Recorded runs are played; `replay` is set too, and there is no measurement to disturb."""

    zoomed: bool = False
    """One pane has the whole screen."""

    @property
    def may_start(self) -> bool:
        """Whether something can be run or measured."""
        return not self.live and not self.replay

    @property
    def may_play(self) -> bool:
        """Whether the recorded runs can be played or opened."""
        return self.demo and not self.live


def _always(_: Situation) -> bool:
    return True


class Command(NamedTuple):
    """One thing a person can do."""

    id: str
    """Name in the config's table `[keys]`; never changes."""
    keys: tuple[str, ...]
    """Default keys as people write them; the first is shown. A `Keymap` may replace them."""
    label: str
    """One or two words for the footer."""
    group: str
    """What a person wants to do with it, one of `GROUPS`."""
    help: str
    """One imperative sentence for the help screen, the palette and docs/keys.md."""
    does: str
    """Controller and method, such as `running.run`; without a dot, an action of Textual itself."""
    possible: Callable[[Situation], bool] = _always

    @property
    def action(self) -> str:
        """Textual's name of the action."""
        return action_of(self.does) if "." in self.does else self.does


def action_of(does: object) -> str:
    """Return the Textual action that calls a controller's method through `Shell.action_do`."""
    return f"do('{does}')"


COMMANDS: tuple[Command, ...] = (
    Command("run", ("r",), "Run", RUN, "Run the highlighted workload, or run it again.", "running.run",
            lambda s: s.may_start or s.may_play),
    Command("run-row", ("R",), "Run row", RUN, "Run the highlighted row again, alone.", "running.run_row",
            lambda s: s.ran and s.may_start and not s.past),
    Command("own-code", ("o",), "Own code", RUN, "Time your own expression or function.", "coding.type",
            lambda s: s.may_start),
    Command("pause", ("space",), "Pause", RUN, "Pause or resume the run.", "running.pause",
            lambda s: s.live and not s.stopping),
    Command("stop", ("x",), "Stop", RUN, "Stop after the current block; pressed twice: at once.", "running.stop",
            lambda s: s.live),
    Command("open", ("enter",), "Open", LOOK, "Open a row's details or a workload's parameters.", "paging.open"),
    Command("back", ("escape",), "Back", GO, "Close the page, the filter or the zoom.", "paging.close"),
    Command("filter", ("/",), "Filter", LOOK, "Show only rows that match what you type.", "paging.filter",
            lambda s: s.ran),
    Command("sort", ("s",), "Sort", LOOK, "Sort by the next column; the title says which.", "timings.sort",
            lambda s: s.ran),
    Command("reverse", ("S",), "Reverse", LOOK, "Reverse the sort order.", "timings.reverse", lambda s: s.ran),
    Command("chart", ("g",), "Chart", LOOK, "Show a chart of latency over size.", "timings.toggle_chart"),
    Command("what-if", ("w",), "What if", LOOK, "Show the next what-if: the crossover with copies, ...",
            "timings.what_if", lambda s: s.ran),
    Command("find", ("f",), "Find", RUN, "Find the size from which the GPU wins.", "running.find_crossover",
            lambda s: s.may_start),
    Command("history", ("h",), "History", LOOK, "List the saved runs, or return to the present run.", "history.toggle",
            lambda s: s.may_start or s.demo),
    Command("machine", ("m",), "Machine", LOOK, "Show this machine's peak rates and fixed overheads.",
            "paging.toggle_machine"),
    Command("measure", ("M",), "Measure", RUN, "Measure the peak rates of CPU and GPU (about 20 s).", "running.measure",
            lambda s: s.may_start),
    Command("claims", ("K", "k"), "Claims", COMPARE, "Compare the publications' claims with this machine.",
            "comparing.toggle_claims"),
    Command("python", ("p",), "Python", RUN, "Switch to a Python whose torch can use the GPU.", "preparing.use_python",
            lambda s: s.may_start),
    Command("compare", ("c",), "Compare", COMPARE, "Compare this series with an earlier one.", "comparing.toggle",
            lambda s: s.ran and not s.live),
    Command("baseline", ("b",), "Baseline", COMPARE, "Make this series the baseline of later runs.",
            "comparing.set_baseline", lambda s: s.ran and not s.live),
    Command("export", ("e",), "Export", TAKE_AWAY, "Export the run to JSON, CSV, Markdown, HTML, SVG or PNG.",
            "exporting.ask", lambda s: s.ran and (s.demo or not s.live)),
    Command("copy-row", ("y",), "Copy row", TAKE_AWAY, "Copy the highlighted row as Markdown.", "exporting.copy_row",
            lambda s: s.ran),
    Command("copy-command", ("C",), "Copy command", TAKE_AWAY, "Copy the command that repeats this run.",
            "exporting.copy_command", lambda s: s.ran),
    Command("next-pane", ("tab",), "Next pane", GO, "Go to the next pane; shift+tab goes back.", "focus_next"),
    Command("zoom", ("z",), "Zoom", LOOK, "Zoom the focused pane, or zoom out.", "paging.zoom"),
    Command("next-theme", ("t",), "Theme", GO, "Switch to the next theme.", "themes.put_on_next"),
    Command("choose-theme", ("T",), "Themes", GO, "Choose a theme from a list with a preview.", "themes.choose"),
    Command("palette", (":",), "Commands", GO, "Find a command, a preset or a theme by typing.", "palette.open"),
    Command("help", ("?",), "Help", GO, "Show the keys of this pane; pressed again: all keys.", "paging.toggle_help"),
    Command("suspend", ("ctrl+z",), "Suspend", GO, "Suspend the app and its run; fg resumes both.", "suspend_process"),
    Command("quit", ("q", "ctrl+c"), "Quit", GO, "Quit; asks first during a run.", "leaving.ask"),
)  # fmt: skip
"""Every command, in the order of the footer."""

COMMAND_BY_ID = {command.id: command for command in COMMANDS}

OF_RUN = (
    "compare", "export", "copy-row", "copy-command", "find", "chart", "what-if", "measure", "zoom", "pause", "stop",
    "sort", "reverse", "run-row",
)  # fmt: skip
"""Commands that act on the run in the panes. A list of other runs masks them."""


def bindings(ids: Iterable[str] | None = None, action: str | None = None) -> list[Binding]:
    """Return Textual's bindings of all commands, or of `ids`; `action` replaces the command's own action.

    The bindings carry the commands' ids, so that a keymap also moves a key that a screen answers in its own way.
    """
    from textual.binding import Binding  # every command checks the keymap, and few of them need Textual

    wanted = COMMANDS if ids is None else [COMMAND_BY_ID[name] for name in ids]
    return [
        Binding(",".join(command.keys), action or command.action, command.label, id=command.id, show=False)
        for command in wanted
    ]


def digits() -> list[Binding]:
    """Return the bindings of the digits, which set how many runs the next key starts; no keymap changes them."""
    from textual.binding import Binding

    return [Binding(digit, f"do('repeating.count', {digit})", show=False) for digit in "0123456789"]


def command_of(action: str) -> Command | None:
    """Return the command whose action this is; None for Textual's own actions."""
    return next((command for command in COMMANDS if command.action == action), None)


def label(command: Command, situation: Situation) -> str:
    """Return the command's label for this situation."""
    if situation.demo and command.id in ("run", "stop"):
        return "Play again" if command.id == "run" else "Skip"
    if command.id == "run" and situation.ran and not situation.other:
        return "Run again"
    if command.id == "pause" and situation.paused:
        return "Resume"
    if command.id == "stop" and situation.stopping:
        return "Stop now"
    if command.id == "history" and situation.past:
        return "Present"
    if command.id == "zoom" and situation.zoomed:
        return "Zoom out"
    return command.label


def impossible(command: Command, situation: Situation) -> str:
    """Return why a command is not possible now and what to do about it; empty if it is possible.

    Command ids in braces, such as `{stop}`, stand for the command's key.
    """
    if command.possible(situation):
        return ""
    if situation.demo and not command.possible(situation._replace(live=not situation.live, ran=True)):
        return DEMO
    if situation.demo:
        return PLAYING if situation.live else "nothing is playing; press {run} to play the demo."
    if situation.replay:
        return "a replay is shown; start cpugpu-tui without --replay."
    for changes, reason in REASONS:
        if command.possible(situation._replace(**changes)):
            return reason
    return "not now."


DEMO = "a demo measures nothing; start cpugpu-tui on your own machine."
PLAYING = "the demo is playing; press {stop} to skip to the end of a run."

REASONS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"live": False}, "a run is in progress; press {stop} to stop it."),
    ({"past": False}, "a saved run is shown; press {history} to return to the present run."),
    ({"stopping": False}, "the run is stopping; press {stop} again to stop it at once."),
    ({"live": True}, "nothing is running; press {run} to start a run."),
    ({"ran": True}, "no run is shown; press {run} to start one or {history} to open a saved one."),
    ({"ran": True, "live": False}, "the run is starting; wait until it has ended."),
)
"""Changes of the situation that would make a command possible → the reason shown until then."""


def key_name(key: str) -> str:
    """Return a key as people write it."""
    return {"escape": "esc"}.get(key, key)


def keys_text(keys: Iterable[str]) -> str:
    """Return keys as people write them, `q, ctrl+c`."""
    return ", ".join(map(key_name, keys))


def by_group() -> dict[str, list[Command]]:
    """Return the commands of each group, in the order of both tables."""
    return {group: [command for command in COMMANDS if command.group == group] for group in GROUPS}


def markdown() -> str:
    """Return the table of keys in docs/keys.md."""
    rows = [
        f"| {group if place == 0 else ''} | `{keys_text(command.keys)}` | {command.help} |"
        for group, commands in by_group().items()
        for place, command in enumerate(commands)
    ]
    return "\n".join(["| to | key | does |", "|---|---|---|", *rows])
