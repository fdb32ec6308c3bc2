"""The table of commands and their keys, and the keys in force: bindings, footer, help and docs/keys.md use them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from cpugpu_tui.config.settings import KeyLine
from cpugpu_tui.errors import UsageError, did_you_mean
from cpugpu_tui.machine.text import printable
from cpugpu_tui.state.value import Value

if TYPE_CHECKING:
    from textual.binding import Binding


RUN, LOOK, COMPARE, TAKE_AWAY, GO = "Run", "Look", "Compare", "Take away", "Go"
GROUPS = (RUN, LOOK, COMPARE, TAKE_AWAY, GO)
"""Groups of keys, in the order in which help and docs/keys.md list them."""


class Situation(Value):
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

    duet: bool = False
    """The run is one side of two codes, which are compared while they are timed."""
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


RAN, IDLE = attrgetter("ran"), attrgetter("may_start")
"""Whether rows are on the screen, and whether something can be run."""


class Command(Value):
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
    possible: Callable[[Situation], bool] = staticmethod(lambda _: True)

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
    Command("beside", ("B",), "Beside", RUN, "Time the CPU beside the recorded times of a GPU server.",
            "running.run_beside", IDLE),
    Command("own-code", ("o",), "Own code", RUN, "Time your own code, or compare two codes.", "coding.type", IDLE),
    Command("pause", ("space",), "Pause", RUN, "Pause or resume the run.", "running.pause",
            lambda s: s.live and not s.stopping),
    Command("stop", ("x",), "Stop", RUN, "Stop after the current block; pressed twice: at once.", "running.stop",
            lambda s: s.live),
    Command("open", ("enter",), "Open", LOOK, "Open a row's details or a workload's parameters.", "paging.open"),
    Command("back", ("escape",), "Back", GO, "Close the page, the filter or the zoom.", "paging.close"),
    Command("filter", ("/",), "Filter", LOOK, "Show only rows that match what you type.", "paging.filter", RAN),
    Command("sort", ("s",), "Sort", LOOK, "Sort by the next column; the title says which.", "timings.sort", RAN),
    Command("reverse", ("S",), "Reverse", LOOK, "Reverse the sort order.", "timings.reverse", RAN),
    Command("chart", ("g",), "Chart", LOOK, "Show a chart of latency over size.", "timings.toggle_chart"),
    Command("what-if", ("w",), "What if", LOOK, "Show the next what-if: the crossover with copies, ...",
            "timings.what_if", RAN),
    Command("find", ("f",), "Find", RUN, "Find the size from which the GPU wins.", "running.find_crossover", IDLE),
    Command("history", ("h",), "History", LOOK, "List the saved runs, or return to the present run.", "history.toggle",
            lambda s: s.may_start or s.demo),
    Command("machine", ("m",), "Machine", LOOK, "Show this machine's peak rates and fixed overheads.",
            "paging.toggle_machine"),
    Command("measure", ("M",), "Measure", RUN, "Measure the peak rates of CPU and GPU (about 20 s).", "running.measure",
            IDLE),
    Command("claims", ("K", "k"), "Claims", COMPARE, "Compare the publications' claims with this machine.",
            "comparing.toggle_claims"),
    Command("noise", ("N",), "Noise", COMPARE, "Show the smallest change that a comparison finds on this machine.",
            "comparing.toggle_noise"),
    Command("python", ("p",), "Python", RUN, "Switch to a Python whose torch can use the GPU.", "preparing.use_python",
            IDLE),
    Command("compare", ("c",), "Compare", COMPARE, "Compare this series with an earlier one, or two codes.",
            "comparing.toggle", lambda s: s.ran and (s.duet or not s.live)),
    Command("baseline", ("b",), "Baseline", COMPARE, "Make this series the baseline of later runs.",
            "comparing.set_baseline", lambda s: s.ran and not s.live),
    Command("export", ("e",), "Export", TAKE_AWAY, "Export the run to JSON, CSV, Markdown, HTML, SVG or PNG.",
            "exporting.ask", lambda s: s.ran and (s.demo or not s.live)),
    Command("copy-row", ("y",), "Copy row", TAKE_AWAY, "Copy the highlighted row as Markdown.", "exporting.copy_row",
            RAN),
    Command("copy-command", ("C",), "Copy command", TAKE_AWAY, "Copy the command that repeats this run.",
            "exporting.copy_command", RAN),
    Command("next-pane", ("tab",), "Next pane", GO, "Go to the next pane; shift+tab goes back.", "focus_next"),
    Command("zoom", ("z",), "Zoom", LOOK, "Zoom the focused pane, or zoom out.", "paging.zoom"),
    Command("next-theme", ("t",), "Theme", GO, "Switch to the next theme.", "themes.use_next"),
    Command("choose-theme", ("T",), "Themes", GO, "Choose a theme from a list with a preview.", "themes.show_list"),
    Command("palette", (":",), "Commands", GO, "Find a command, a preset or a theme by typing.", "palette.open"),
    Command("help", ("?",), "Help", GO, "Show the keys of this pane; pressed again: all keys.", "paging.toggle_help"),
    Command("suspend", ("ctrl+z",), "Suspend", GO, "Suspend the app and its run; fg resumes both.", "suspend_process"),
    Command("quit", ("q", "ctrl+c"), "Quit", GO, "Quit; asks first during a run.", "leaving.ask"),
)  # fmt: skip
"""Every command, in the order of the footer."""

COMMAND_BY_ID = {command.id: command for command in COMMANDS}
COMMAND_BY_ACTION = {command.action: command for command in COMMANDS}

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
    return [Binding(",".join(each.keys), action or each.action, each.label, id=each.id, show=False) for each in wanted]


def digits() -> list[Binding]:
    """Return the bindings of the digits, which set how many runs the next key starts; no keymap changes them."""
    from textual.binding import Binding

    return [Binding(digit, f"do('repeating.count', {digit})", show=False) for digit in "0123456789"]


def label(command: Command, situation: Situation) -> str:
    """Return the command's label for this situation."""
    others = {
        "run": "Play again" if situation.demo else "Run again" if situation.ran and not situation.other else "",
        "stop": "Skip" if situation.demo else "Stop now" if situation.stopping else "",
        "pause": "Resume" if situation.paused else "",
        "history": "Present" if situation.past else "",
        "zoom": "Zoom out" if situation.zoomed else "",
    }
    return others.get(command.id) or command.label


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


KEPT = {"open": "enter", "back": "escape", "next-pane": "tab", "quit": "ctrl+c"}
"""Keys that a command keeps beside those of the config: boxes and lists use them, and a way out must remain."""

TAKEN: dict[str, str] = {
    **dict.fromkeys(("j", "k", "G", "up", "down", "left", "right"), "moves in lists"),
    **dict.fromkeys(("home", "end", "pageup", "pagedown"), "moves in lists"),
    **dict.fromkeys("0123456789", "sets the repeats"),
    "g": "goes to the first line of a page",
    "shift+tab": "goes to the previous pane", "ctrl+q": "quits the app", "l": "changes tags in the history",
    "d": "deletes in the history", "o": "chooses an older series", "n": "chooses a newer series",
    "X": "changes the chart's sizes", "Y": "changes the chart's times",
}  # fmt: skip
"""Keys that a list or a page uses itself, so that a command on them could not be reached → what they do."""

NAMED = frozenset({
    "space", "enter", "escape", "tab", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "up",
    "down", "left", "right", *(f"f{number}" for number in range(1, 25)),
})  # fmt: skip
"""Textual's names of keys that type no character."""

ALIASES = {"esc": "escape", "return": "enter", "del": "delete", "pgup": "pageup", "pgdn": "pagedown", "ctrl+i": "tab",
           "ctrl+m": "enter", " ": "space"}  # fmt: skip
"""Other names of keys; a terminal cannot tell ctrl+i from tab."""

_MODIFIERS = ("ctrl", "alt", "shift")


class Keymap(Value):
    """The keys in force."""

    keys: Mapping[str, tuple[str, ...]]
    """Command id → its keys as people write them; the first is shown."""

    def of(self, command_id: str) -> str:
        """Return the first key of a command."""
        return keys_text(self.keys[command_id][:1])

    def text(self, command_id: str) -> str:
        """Return all keys of a command, `q, ctrl+c`."""
        return keys_text(self.keys[command_id])

    def with_keys(self, sentence: str) -> str:
        """Return a sentence with each command id in braces replaced by its key: `Press {run}.` → `Press r.`."""
        return re.sub(
            r"\{([a-z-]+)\}", lambda found: self.of(found[1]) if found[1] in self.keys else found[0], sentence
        )

    def for_textual(self) -> dict[str, str]:
        """Return the changed keys in the form of Textual's `set_keymap`."""
        changed = [each.id for each in COMMANDS if self.keys[each.id] != each.keys]
        return {name: ",".join("comma" if key == "," else key for key in self.keys[name]) for name in changed}


DEFAULT_KEYMAP = Keymap({command.id: command.keys for command in COMMANDS})
"""The registry's keys."""


def keymap_of(lines: Iterable[KeyLine]) -> Keymap:
    """Return the keymap of a config.

    Raises:
        UsageError: a command or key is unknown, or two commands share a key; the message names the line.
    """
    asked = {line.command: line for line in lines}
    keys = dict(DEFAULT_KEYMAP.keys)
    for line in asked.values():
        if line.command not in keys:
            raise _wrong(line, f"Unknown command {printable(line.command)!r}.", did_you_mean(line.command, keys))
        named = tuple(dict.fromkeys(_checked(line, key) for key in line.keys))
        kept = KEPT.get(line.command)
        keys[line.command] = (*named, kept) if kept is not None and kept not in named else named
    for line in asked.values():
        _refuse_clash(line, keys, asked)
    return Keymap(keys)


def _refuse_clash(line: KeyLine, keys: Mapping[str, tuple[str, ...]], asked: Mapping[str, KeyLine]) -> None:
    own = COMMAND_BY_ID[line.command]
    for key in keys[line.command]:
        if key in TAKEN and key not in own.keys:
            raise _wrong(line, f"Key {key} already {TAKEN[key]}.", "Choose another key.")
        other = next((each for each in COMMANDS if each is not own and key in keys[each.id]), None)
        if other is not None:
            also = asked.get(other.id)
            where = f" (line {also.line})" if also is not None and also.line else ""
            remedy = "Choose another key" + ("." if other.id in KEPT else f", or give {other.id} another one.")
            raise _wrong(line, f"Key {key} already belongs to {other.id}{where}.", remedy)


def _checked(line: KeyLine, text: str) -> str:
    """Return the key in its normal form.

    Raises:
        UsageError: no terminal sends it.
    """
    wrong = _wrong(
        line, f"Unknown key {printable(text)!r}.",
        "Use one character or a name such as space, tab, f5 or up; ctrl+, alt+ or shift+ may precede it.",
    )  # fmt: skip
    if text == "+":
        return text
    *modifiers, key = text.split("+") if not text.endswith("++") else [*text[:-2].split("+"), "+"]
    modifiers = [each.lower() for each in modifiers]
    if len(key) > 1:
        key = key.lower()
    key = ALIASES.get(key, key)
    is_character = len(key) == 1 and key.isprintable() and not key.isspace()
    if not (key in NAMED or is_character) or any(each not in _MODIFIERS for each in modifiers):
        raise wrong
    if is_character and modifiers:
        if "shift" in modifiers:
            raise _wrong(line, f"No terminal sends {printable(text)}.", f"Use the character itself: {key.upper()}.")
        if not (key.isascii() and key.isalnum()):
            raise wrong  # terminals differ in what they send for these
        key = key.lower()
    whole = "+".join([*(each for each in _MODIFIERS if each in modifiers), key])
    return ALIASES.get(whole, whole)


def _wrong(line: KeyLine, message: str, remedy: str) -> UsageError:
    return UsageError(f"{line.where}: {message}", remedy)
