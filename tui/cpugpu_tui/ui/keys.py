"""Everything a key can do, in one table: bindings, footer, help screen and docs/keys.md come from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.binding import Binding


@dataclass(frozen=True)
class Situation:
    """What decides which commands are possible and what they are called now."""

    live: bool = False
    """A run is going on (its agent may still be starting)."""
    paused: bool = False
    stopping: bool = False
    """The person pressed stop once and the block has not ended yet."""
    ran: bool = False
    """A run's rows are on the screen."""
    replay: bool = False
    """The telemetry is a recorded one: a run beside it would seem to belong to it."""
    past: bool = False
    """A saved run is on the screen."""
    other: bool = False
    """Another workload than that of the run on the screen is highlighted: `run` starts it for the first time."""
    demo: bool = False
    """Recorded runs are played (`replay` is set, too): nothing here disturbs a measurement."""

    @property
    def may_start(self) -> bool:
        """Whether something can be run or measured."""
        return not self.live and not self.replay

    @property
    def may_play(self) -> bool:
        """Whether the recorded runs can be played, again, or looked at one by one."""
        return self.demo and not self.live


def _always(_: Situation) -> bool:
    return True


@dataclass(frozen=True)
class Command:
    """One thing a person can do."""

    id: str
    """Name in a keymap; never changes."""
    keys: tuple[str, ...]
    """Keys as people write them, unless a keymap has others (`keymap.Keymap`); the first is shown."""
    label: str
    """One or two words for the footer."""
    help: str
    """One sentence for the help screen and docs/keys.md."""
    does: str
    """Controller of the app and its method, `running.run`; or, without a point, an action of Textual's own."""
    possible: Callable[[Situation], bool] = _always

    @property
    def action(self) -> str:
        """What Textual calls it."""
        return action_of(self.does) if "." in self.does else self.does


def action_of(does: object) -> str:
    """Return Textual's name for calling a controller's method: `Shell.action_do` finds it."""
    return f"do('{does}')"


COMMANDS: tuple[Command, ...] = (
    Command(
        "run", ("r",), "Run",
        "Run what is highlighted, and run it again; a count before it makes one series of runs, as in 5 r.",
        "running.run", lambda s: s.may_start or s.may_play,
    ),
    Command(
        "run-row", ("R",), "Run row",
        "Run the highlighted row again alone: a run of its own, compared with the one it comes from, which esc shows.",
        "running.run_row", lambda s: s.ran and s.may_start and not s.past,
    ),
    Command(
        "pause", ("space",), "Pause", "Pause the run after the block in flight, and resume it.", "running.pause",
        lambda s: s.live and not s.stopping,
    ),
    Command(
        "stop", ("x",), "Stop", "Stop after the block in flight; pressed twice, at once.", "running.stop",
        lambda s: s.live,
    ),
    Command("open", ("enter",), "Open", "Open the detail of a row, or the parameters of a workload.", "paging.open"),
    Command("back", ("escape",), "Back", "Close what is open: a screen, the filter, the zoom.", "paging.close"),
    Command(
        "filter", ("/",), "Filter", "Show only the rows whose name or verdict holds what you type.", "paging.filter",
        lambda s: s.ran,
    ),
    Command(
        "sort", ("s",), "Sort", "Sort by the next column (size, speedup, times, limit, run order).",
        "timings.sort", lambda s: s.ran,
    ),
    Command("reverse", ("S",), "Reverse", "Reverse the sort order.", "timings.reverse", lambda s: s.ran),
    Command(
        "chart", ("g",), "Chart", "Show both times over size, with the crossover; back again.", "timings.toggle_chart",
    ),
    Command(
        "what-if", ("w",), "What if", "Ask what if: no transfer, pinned memory, no launch cost, one CPU thread.",
        "timings.what_if", lambda s: s.ran,
    ),
    Command(
        "find", ("f",), "Find", "Find the crossover of the highlighted workload: sizes are chosen as it goes.",
        "running.find_crossover", lambda s: s.may_start,
    ),
    Command(
        "history", ("h",), "History",
        "List the saved runs, and open one in these panes; pressed there, back to the present run.", "history.toggle",
        lambda s: s.may_start or s.demo,
    ),
    Command(
        "machine", ("m",), "Machine", "Show what CPU, GPU and the cable between reach at most.",
        "paging.toggle_machine",
    ),
    Command(
        "measure", ("M",), "Measure", "Measure the machine for its card: all cores and the GPU, about 20 s.",
        "running.measure", lambda s: s.may_start,
    ),
    Command(
        "claims", ("K", "k"), "Claims",
        "Show what publications claim, and whether it holds here.", "comparing.toggle_claims",
    ),
    Command(
        "python", ("p",), "Python",
        "Use the interpreter that was found, whose torch can use the GPU; search for one if none is known.",
        "preparing.use_python", lambda s: s.may_start,
    ),
    Command(
        "compare", ("c",), "Compare", "Compare the series on the screen with the previous one, or an older one.",
        "comparing.toggle", lambda s: s.ran and not s.live,
    ),
    Command(
        "baseline", ("b",), "Baseline", "Make this series the baseline, which the status line then compares with.",
        "comparing.set_baseline", lambda s: s.ran and not s.live,
    ),
    Command(
        "export", ("e",), "Export", "Write the run to a file: JSON, NDJSON, CSV, Markdown or HTML, as its name ends.",
        "exporting.ask", lambda s: s.ran and (s.demo or not s.live),
    ),
    Command(
        "copy-row", ("y",), "Copy row", "Copy the highlighted row as Markdown, where the terminal has a clipboard.",
        "exporting.copy_row", lambda s: s.ran,
    ),
    Command(
        "copy-command", ("C",), "Copy command", "Copy the command that repeats this run, where the terminal allows it.",
        "exporting.copy_command", lambda s: s.ran,
    ),
    Command("next-pane", ("tab",), "Next pane", "Go to the next pane; shift+tab goes back.", "focus_next"),
    Command(
        "zoom", ("z",), "Zoom", "Give the pane with the focus the whole screen, and take it back; telemetry: one GPU.",
        "paging.zoom",
    ),
    Command("next-theme", ("t",), "Theme", "Change to the next theme.", "themes.put_on_next"),
    Command("choose-theme", ("T",), "Themes", "List the themes with a preview.", "themes.choose"),
    Command(
        "palette", (":",), "Commands", "Find a command, a preset or a theme by some of its letters.", "palette.open",
    ),
    Command("help", ("?",), "Help", "Explain the pane with the focus, and list all keys.", "paging.toggle_help"),
    Command("suspend", ("ctrl+z",), "Suspend", "Suspend app and run; fg brings both back.", "suspend_process"),
    Command("quit", ("q", "ctrl+c"), "Quit", "Quit; asks only during a run.", "leaving.ask"),
)  # fmt: skip
"""Every command, in the order in which help lists them."""

COMMAND_BY_ID = {command.id: command for command in COMMANDS}

MOVES = "In a list j k G and the arrows move, whatever else they do elsewhere; home goes to its first line."
"""What the lists answer by themselves, on keys that no keymap changes."""


OF_RUN = (
    "compare", "export", "copy-row", "copy-command", "find", "chart", "what-if", "measure", "zoom", "pause", "stop",
    "sort", "reverse", "run-row",
)  # fmt: skip
"""Commands that act on the run in the panes: a list of other runs must not let them through."""


def bindings(ids: Iterable[str] | None = None, action: str | None = None) -> list[Binding]:
    """Return Textual's bindings of commands, of all or of these; `action` in place of their own.

    Their ids are the commands', also on a screen that answers a key in its own way: a keymap then moves both.
    """
    from textual.binding import Binding  # here, because the keymap of a config is checked where no Textual is wanted

    wanted = COMMANDS if ids is None else [COMMAND_BY_ID[name] for name in ids]
    return [
        Binding(",".join(command.keys), action or command.action, command.label, id=command.id, show=False)
        for command in wanted
    ]


def digits() -> list[Binding]:
    """Return the bindings of the digits, which count; a keymap leaves them alone."""
    from textual.binding import Binding

    return [Binding(digit, f"do('repeating.count', {digit})", show=False) for digit in "0123456789"]


def command_of(action: str) -> Command | None:
    """Return the command whose action this is; None for Textual's own actions."""
    return next((command for command in COMMANDS if command.action == action), None)


def label(command: Command, situation: Situation) -> str:
    """Return what the command is called now: a label follows the state."""
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
    return command.label


def impossible(command: Command, situation: Situation) -> str:
    """Return why a command is not possible now and what to do about it; empty if it is possible.

    The reason is what would have to be otherwise; `{stop}` and its like stand for the command's key.
    """
    if command.possible(situation):
        return ""
    if situation.demo and not command.possible(replace(situation, live=not situation.live, ran=True)):
        return DEMO
    if situation.demo:
        return PLAYING if situation.live else "nothing is playing; {run} plays the demo."
    if situation.replay:
        return "a replay is shown, and nothing beside it; start cpugpu-tui without --replay."
    for changes, reason in REASONS:
        if command.possible(replace(situation, **changes)):
            return reason
    return "not now."


DEMO = "this is a demo, which measures nothing; start cpugpu-tui on your own machine."
PLAYING = "the demo is playing; {stop} skips to the end of a run."

REASONS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"live": False}, "a run is going on; {stop} stops it."),
    ({"past": False}, "a saved run is shown; {history} brings the present one back."),
    ({"stopping": False}, "the run is being stopped; {stop} again stops it at once."),
    ({"live": True}, "nothing is running; {run} starts a run."),
    ({"ran": True}, "there is no run on the screen; {run} starts one, {history} opens a saved one."),
    ({"ran": True, "live": False}, "a run is starting; wait for its end."),
)
"""What would have to be otherwise, and what is said while it is not."""


def key_name(key: str) -> str:
    """Return a key as people write it."""
    return {"escape": "esc"}.get(key, key)


def keys_text(keys: Iterable[str]) -> str:
    """Return keys as people write them, `q, ctrl+c`."""
    return ", ".join(map(key_name, keys))


def markdown() -> str:
    """Return the table of keys in docs/keys.md."""
    rows = [f"| `{keys_text(command.keys)}` | {command.help} |" for command in COMMANDS]
    return "\n".join(["| key | does |", "|---|---|", *rows])
