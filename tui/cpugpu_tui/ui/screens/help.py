"""Help: first the keys of the pane with the focus, on one screen; then all keys and the words of that pane."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.keys import COMMAND_BY_ID, COMPARE, GO, GROUPS, LOOK, RUN, TAKE_AWAY, Keymap, by_group
from cpugpu_tui.ui.panes.lines import Spans, labelled, respelled, wrapped
from cpugpu_tui.ui.screens.page import Page
from cpugpu_tui.ui.themes import shipped_path


class OwnKey(NamedTuple):
    """A key that does something of its own in one place."""

    keys: str
    """One or more, as people write them, with spaces between; ids in braces stand for the keys in force."""
    group: str
    """One of `GROUPS`."""
    help: str
    """One imperative sentence."""


class PaneKeys(NamedTuple):
    """The keys of a pane or page."""

    name: str
    """With its article, `the workload pane`."""
    commands: tuple[str, ...]
    """Ids of the commands that matter here; the others are on the second page of help."""
    own: tuple[OwnKey, ...] = ()
    """Keys that mean something of their own here; they come before the commands of their group."""


COUNT = OwnKey("1-99", RUN, "Set the repeats of the next run: 5, then {run}, runs five.")
MOVE = OwnKey("j k G", GO, "Move in the list; so do arrows, home and end.")
SCROLL = OwnKey("j k g G", GO, "Scroll; so do arrows, page up and page down.")
OPEN = ("palette", "help", "quit")
"""What works on every page."""

PANES: dict[str, PaneKeys] = {
    "workload": PaneKeys(
        "the workload pane",
        ("run", "own-code", "find", "pause", "stop", "chart", "history", "machine", "zoom", "compare", "claims",
         "export", "copy-command", "next-pane", "palette", "help", "quit"),
        (COUNT, OwnKey("{open}", LOOK, "Change sizes, dtype, threads, devices and repeats."),
         OwnKey("j k", GO, MOVE.help)),
    ),
    "timings": PaneKeys(
        "the timings pane",
        ("run", "run-row", "own-code", "pause", "stop", "filter", "sort", "reverse", "chart", "what-if", "zoom",
         "compare", "baseline", "export", "copy-row", "copy-command", "next-pane", "help", "quit"),
        (COUNT, OwnKey("{open}", LOOK, "Open the details of the row."), MOVE),
    ),
    "telemetry": PaneKeys(
        "the telemetry pane",
        ("run", "stop", "measure", "machine", "history", "next-pane", "palette", "help", "quit"),
        (OwnKey("{zoom}", LOOK, "Show the histories of all GPUs and their processes, then each GPU alone."),),
    ),
    "gpu": PaneKeys(
        "the telemetry page",
        ("pause", "stop", "machine", *OPEN),
        (OwnKey("tab", LOOK, "Show all GPUs, each GPU with every reading, the host; shift+tab: back."),
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
         OwnKey("{pause}", COMPARE, "Mark the run; with two marks, enter compares them."),
         OwnKey("{baseline}", COMPARE, "Make the run's series a baseline; asks for its name."),
         OwnKey("d", TAKE_AWAY, "Delete the run; asks first."), MOVE),
    ),
    "compare": PaneKeys(
        "the compare page",
        ("history", "baseline", "claims", "export", "copy-command", *OPEN),
        (OwnKey("o n", COMPARE, "Compare with an older or a newer series."),
         OwnKey("{back} {compare}", GO, "Return to the panes."), SCROLL),
    ),
    "pair": PaneKeys(
        "the comparison of two marked runs",
        ("claims", *OPEN),
        (OwnKey("{back} {compare}", GO, "Return to the history."), SCROLL),
    ),
    "claims": PaneKeys(
        "the claims page",
        ("stop", "machine", "history", "back", *OPEN),
        (OwnKey("{open}", RUN, "Show how long measuring takes; again: measure."), MOVE),
    ),
    "noise": PaneKeys(
        "the noise page",
        ("stop", "machine", "compare", "back", *OPEN),
        (OwnKey("{run}", RUN, "Measure the noise floor in five runs, in about a minute."), SCROLL),
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


EXPLAINED = (Key.SPEEDUP, Key.PLUS_MINUS, Key.VERDICT, Key.KERNEL, Key.MOVED, Key.LIMIT, Key.WRITTEN, Key.GFLOPS,
             Key.CPU_P99, Key.CPU_ENERGY)  # fmt: skip
"""Columns of the timings that are explained by their headings."""

WORDS: dict[str, tuple[tuple[str, str], ...]] = {
    "workload": (
        ("list", "Presets and workloads. A preset of a publication shows its claim below."),
        ("P1 ... P5", "The five publications; {claims} lists their claims."),
    ),
    "timings": (
        ("CPU, GPU", COLUMNS[Key.CPU].meaning),
        ("cuda:0, cuda:1", COLUMNS[Key.GPUS].meaning),
        *((COLUMNS[key].heading, COLUMNS[key].meaning) for key in EXPLAINED),
        ("change", COLUMNS[Key.CHANGE].meaning),
        ("min-max", COLUMNS[Key.SPREAD].meaning),
        (COLUMNS[Key.ROUNDS].heading, COLUMNS[Key.ROUNDS].meaning),
        ("*", "Before a case: not saved in the history yet. The app tries again; the status line says why."),
    ),
    "telemetry": (
        ("kernel-active", "Share of the last sample time in which some kernel ran. It does not tell how much of the GPU"
         " the kernel used."),
        ("power, clock", "Beside the power limit in force and the highest clock."),
        ("throttle", "Why the clock is lowered, and in what share of the time since the last reading."),
        ("! and !!", "! too hot. !! the hardware brakes; do not use times taken now. An arrow down means power-capped,"
         " which is normal under load."),
        ("PCIe", "Generation and lanes. A slower link than the slot allows is a warning only under load."),
        ("processes", "Other processes on the GPU slow measurements down. outside namespace: not visible from this"
         " container."),
        ("cuda:0 ... NVML 3", "Names of one GPU: torch's number, NVML's number (nvidia-smi), UUID, PCI address."),
        ("dimmed", "A value older than two readings. A dash: no value; the reason stands beside it."),
    ),
    "chart": (
        ("curves", "Latency on the CPU and on the GPU, one point per size."),
        ("what-if", "The crossover under other costs, such as with copies, beside the measured one."
         " {what-if} goes to the next."),
    ),
    "history": (
        ("{filter}", "Type words, #tag, or conditions: gpu:h200 cpu:xeon dtype:bf16 n>1000 name:matmul status:done"
         " date:2026-01 host:node1 tag:nightly baseline:main. A run must match all of them."),
        ("type", "dtype: f32 float32, bf16 bfloat16, f16 float16; 2x: two of them."),
    ),
    "compare": (
        ("time", "CPU and GPU: latency. GPU kernels: kernel time."),
        ("change", "The new mean of the runs against the old one, with the interval that decided the verdict."),
        ("verdict", "slower or faster only where the interval excludes no change, same where it is narrow enough."
         " Otherwise more runs are needed."),
    ),
    "claims": (
        ("holds", "The result here agrees with the claim."),
        ("depends on size", "The claim holds at some sizes only."),
    ),
    "fleet": (
        ("state", "connecting, starting (the interpreter loads torch), running, done."),
        ("~", "Before a time: it was disturbed. The lines below the list tell how."),
    ),
    "noise": (
        ("spread", "Standard deviation of a time between fresh processes."),
        ("1, 5, 10 runs", "The smallest change that shows with so many runs on each side."),
    ),
    "machine": (
        ("bars", "The peak that this machine reached, not the data sheet's. `limited by` refers to it."),
    ),
    "detail": (
        ("~", "Before a time or mark: the result is less certain."),
        ("resident", "One call with the inputs on the GPU, split into launch, kernels and wait."),
        ("p90, p99", "90 % and 99 % of the calls were at least this fast. They need 200 single calls."),
    ),
}  # fmt: skip
"""Topic → (word, explanation); ids in braces stand for the keys in force."""

HISTORIES = (
    ("histories", "Each column is the mean of the seconds named in the top line. The bottom is 0. A gap: no reading."),
    ("GPU share", "Share of time in which a kernel of this process ran, read every five seconds but not during a run."),
    ("CPU share", "CPU time of the process divided by the time that passed: 1.0 cores is one core all the time."),
)
"""What the telemetry page shows and its pane does not."""

WORDS |= {"gpu": HISTORIES + WORDS["telemetry"], "host": WORDS["fleet"], "pair": WORDS["compare"]}

TERMS: dict[str, tuple[str, ...]] = {
    "workload": ("workload", "preset", "size", "variant", "case", "series", "crossover"),
    "timings": ("case", "round", "latency", "interval, ±", "crossover", "bracket", "paper's clock"),
    "telemetry": ("reading", "utilisation", "throttling"),
    "chart": ("latency", "crossover", "bracket"),
    "history": ("run", "series", "baseline", "simulated"),
    "compare": ("series", "baseline", "kernel time", "verdict", "band", "interval, ±"),
    "pair": ("kernel time", "verdict", "band", "interval, ±"),
    "claims": ("claim", "paper's clock", "paper's error"),
    "fleet": ("fleet", "host", "agent"),
    "host": ("fleet", "host", "case"),
    "noise": ("series", "kernel time", "latency"),
    "machine": ("machine card", "peak rate", "launch overhead", "synchronise"),
    "detail": ("latency", "kernel time", "with copies", "throughput", "outlier", "mark"),
}
"""Topic → terms of the glossary that its screen uses."""

TERMS["gpu"] = TERMS["telemetry"]


@cache
def glossary() -> dict[str, str]:
    """Return term → meaning from the tables of docs/glossary.md."""
    text = shipped_path("glossary.md", "docs").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|$", text.replace("`", ""), re.MULTILINE))


ALWAYS = (COUNT, MOVE, SCROLL)
"""Keys without a command that work in many places."""

MOUSE = (
    "Click a row to select it, double-click to open it, click a heading to sort, click a key in the last line to press"
    " it. The wheel scrolls. Hold shift to select text, or start with --no-mouse."
)

MORE = (
    ("docs/", "how to read a result, the method, publications, your own workloads and keys"),
    ("docs/glossary.md", "all terms"),
    ("cpugpu-tui --help", "all commands"),
    ("cpugpu-tui doctor", "check this machine"),
)
"""Where to read more."""

GROUP_WIDTH = 11
"""Cells of the longest group's name, `Take away`, and the space behind it."""


class HelpScreen(Page):
    """Two pages: the keys of one pane, and everything else."""

    def __init__(self, state: AppState, topic: str, glyphs: Glyphs, only: Collection[str] = ()) -> None:
        """Explain the pane or page `topic`; `only` limits the second page to these commands, if it is not empty."""
        super().__init__(state, glyphs)
        self._only = only
        self._topic = topic if topic in PANES else "timings"
        self._is_second = False

    def turn(self) -> bool:
        """Go to the second page; return False if it is shown already."""
        if self._is_second:
            return False
        self._is_second = True
        if self.is_mounted:
            self.redraw()
        return True

    def page_title(self) -> Spans:
        """Return which pane this is the help of."""
        what = f"{'All keys, and the words' if self._is_second else 'Keys'} of {PANES[self._topic].name}"
        return (("Help ", "title"), (f" {what}", "strong"))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the lines of the page that is shown."""
        return respelled(self._everything(width) if self._is_second else self._keys(width), self.glyphs)

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return how to go on and back."""
        if self._is_second:
            return (("{back}", "back"), ("j k g G", "scroll"))
        scroll = (("j k", "scroll"),) if len(self._keys(self.text_width)) > self._room else ()
        return (("{help}", "all keys and words"), ("{back}", "back"), *scroll)

    @property
    def _room(self) -> int:
        """Lines between the title and the last line."""
        return self.size.height - 2

    def _keys(self, width: int) -> list[Spans]:
        """Return the pane's keys by group, with a line between the groups if all of them fit so."""
        groups = grouped(PANES[self._topic], self.state.keymap)
        spaced = key_lines(groups, width, gap=True)
        return spaced if len(spaced) <= self._room else key_lines(groups, width)

    def _everything(self, width: int) -> list[Spans]:
        """Return the words of the pane, all keys, the mouse and where to read more."""
        keymap, only = self.state.keymap, self._only
        named = keymap.with_keys
        words = [(named(word), named(text)) for word, text in WORDS.get(self._topic, ())]
        words += [(word, glossary()[word]) for word in TERMS.get(self._topic, ())]
        keys = {
            group: [(keymap.text(each.id), each.help) for each in commands if not only or each.id in only]
            + [(named(own.keys), named(own.help)) for own in ALWAYS if own.group == group and not only]
            for group, commands in by_group().items()
        }
        lines: list[Spans] = [(("Words", "title"),), *two_columns(words, width), ()]
        lines += [(("All keys", "title"),), *key_lines({name: rows for name, rows in keys.items() if rows}, width), ()]
        lines += [(("Mouse", "title"),), *wrapped(MOUSE, width, "text"), ()]
        return [*lines, (("Read more", "title"),), *two_columns(MORE, width)]


def key_lines(groups: Mapping[str, Sequence[tuple[str, str]]], width: int, *, gap: bool = False) -> list[Spans]:
    """Return a line for each key: its group once, the key, what it does; `gap` puts a line between the groups."""
    cells = max(len(keys) for rows in groups.values() for keys, _ in rows) + 2
    lines: list[Spans] = []
    for group, rows in groups.items():
        lines += [()] if gap and lines else []
        name = group
        for keys, text in rows:
            for piece in wrapped(text, width - GROUP_WIDTH - cells, "text"):
                lines.append(((f"{name:<{GROUP_WIDTH}}", "strong"), (f"{keys:<{cells}}", "key"), *piece))
                name = keys = ""
    return lines


def two_columns(rows: Sequence[tuple[str, str]], width: int) -> list[Spans]:
    """Return words and their explanations; the explanations are wrapped."""
    cells = max((len(word) for word, _ in rows), default=0) + 2
    lines: list[Spans] = []
    for word, text in rows:
        lines += labelled(word, wrapped(text, width - cells, "muted"), cells, "text")
    return lines
