"""Help: what the pane with the focus shows, then every key; and the words for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.key_overrides import Keymap
from cpugpu_tui.ui.keys import COMMANDS, MOVES
from cpugpu_tui.ui.panes.lines import spelled, wrapped
from cpugpu_tui.ui.panes.status import replay_tag
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.screens.page import Page

JUDGED = (Key.SPEEDUP, Key.PLUS_MINUS, Key.VERDICT, Key.KERNEL, Key.MOVED, Key.LIMIT, Key.WRITTEN)
"""Columns of the table of timings whose meaning is told by their heading."""

WORDS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "workload": (
        "Workload: what {run} runs",
        (
            ("list", "Presets and workloads. A preset of a publication shows what the publication claimed."),
            ("{open}", "Opens the parameters: sizes, dtype, CPU threads, devices, repeats."),
            ("{run}", "Runs what is highlighted, in a process of its own, so that this screen is not in the numbers."),
        ),
    ),
    "timings": (
        "Timings: one row per case, CPU and GPU alternating",
        (
            ("CPU, GPU", COLUMNS[Key.CPU].meaning),
            ("cuda:0, cuda:1", COLUMNS[Key.GPUS].meaning),
            ("*", "Before a case: the history has not taken it yet. It is kept in memory and tried again; the status"
             " line says why."),
            *((COLUMNS[key].heading, COLUMNS[key].meaning) for key in JUDGED),
            ("{sort} {reverse}", "Sort by the next column, reverse the order; the title says which. Rows without a"
             " value stand last, and the highlighted row stays so."),
            ("change", COLUMNS[Key.CHANGE].meaning),
            ("min-max", COLUMNS[Key.SPREAD].meaning),
            (COLUMNS[Key.ROUNDS].heading, COLUMNS[Key.ROUNDS].meaning),
        ),
    ),
    "telemetry": (
        "Telemetry: what the machine is doing",
        (
            ("kernel-active", "Share of the last sample time in which some kernel ran. It says nothing about how"
             " much of the GPU that kernel used."),
            ("power, clock", "Against the limit in force, and the most the clock can do; histories end there, too."),
            ("throttle", "Why the clock is lower than it could be, and in what share of the time since the last"
             " reading. An arrow down: power-capped, normal under load. !: too hot. !!: the hardware brakes, numbers"
             " taken now are worth nothing."),
            ("PCIe", "Generation and lanes. Less than the slot can do is a warning only under load: idle links sleep."),
            ("processes", "Others on the same GPU make a measurement slower. outside namespace: somebody whom this"
             " container may not see."),
            ("cuda:0 ... NVML 3", "One GPU's names: torch's number, NVML's (nvidia-smi), its UUID, its PCI address."),
            ("dimmed", "The value is older than two readings. A dash: there is no value; the reason is beside it."),
            ("{zoom}", "Every reading of one GPU with its age and history, and all processes; tab goes to the next"
             " GPU."),
        ),
    ),
    "chart": (
        "Chart: both times over size",
        (
            ("curves", "What a caller waits on CPU and GPU, one point per size. Where they cross, the lead changes."),
            ("bracket", "The crossover lies between its ends: the CPU clearly wins below, the GPU clearly above."),
            ("{what-if}", "Moves the crossover to another world: no transfer, no launch cost, pinned memory, one"
             " thread."),
            ("X Y", "Make the axis of sizes, or of times, even or logarithmic."),
        ),
    ),
    "history": (
        "History: the saved runs, newest first",
        (
            ("enter", "Opens a run in the panes of a live one; {history} or {back} there brings the present back."),
            ("{run}", "Runs the plan of the run under the cursor again, with its seed."),
            ("{filter}", "Narrows the list: a name, a status, a device, a date, #tag."),
            ("l, {baseline}, d", "Tags of a run; its series as the baseline; delete it, which asks first."),
        ),
    ),
    "compare": (
        "Compare: two series, row by row",
        (
            ("change", "The new median against the old one, with the interval that holds it 19 times in 20."),
            ("verdict", "slower or faster only where the interval says so; undecided where more runs are needed."),
            ("o n", "An older series, a newer one."),
        ),
    ),
    "claims": (
        "Claims: what publications say, and whether it holds here",
        (
            ("holds", "The number measured here agrees. depends on size: it does at some sizes only."),
            ("enter", "Says what a claim needs and how long that takes; pressed again, measures it."),
        ),
    ),
    "fleet": (
        "Fleet: the same plan on every GPU of every host",
        (
            ("hosts", "connecting, starting (its interpreter loads torch), running, done. Others are done although one"
             " is in trouble; the line below says why, and what to do."),
            ("enter", "The cases of the host under the cursor, on each of its GPUs."),
            ("{zoom}", "All cases of all hosts, the same cases together; back again."),
            ("~", "Before a time: something disturbed it. The lines below the list say what, of the host under the"
             " cursor."),
            ("{stop}", "Stops every host after its block in flight; pressed again, at once. What is finished is"
             " saved."),
        ),
    ),
    "machine": (
        "Machine card: what CPU, GPU and the cable between them reach",
        (
            ("bars", "The most that was reached here, not what a data sheet promises; every row's limit refers to it."),
            ("{measure}", "Measures again, with all cores and the GPU, in about 20 s; nothing else should run then."),
        ),
    ),
}  # fmt: skip
"""Name of a pane or page → title and (word, explanation); ids in braces stand for the key in force."""


class HelpScreen(Page):
    """Explains one pane and lists all keys."""

    def __init__(self, state: AppState, pane: str, glyphs: Glyphs, only: Collection[str] = ()) -> None:
        """Explain the pane with this id; with `only`, the ids of commands, nothing else and of the keys only those."""
        super().__init__(state)
        self._glyphs, self._only = glyphs, only
        self._pane = pane if pane in WORDS else "timings"

    def page_title(self) -> Spans:
        """Return what this page explains."""
        return (
            *replay_tag(self.state),
            ("Help ", "title"),
            (self.state.keymap.said(WORDS[self._pane][0]), "strong"),
        )

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the pane's words, then the keys, then the other panes' words."""
        keymap, only = self.state.keymap, self._only
        others = [name for name in WORDS if name != self._pane and not only]
        lines: list[Spans] = [*_explained(self._pane, keymap, width, self._glyphs), (), (("Keys", "strong"),)]
        listed = [command for command in COMMANDS if not only or command.id in only]
        lines += _table([(keymap.text(command.id), command.help) for command in listed], width, "key")
        lines += [(("", "text"),), *wrapped(MOVES, width, "muted")]
        for name in others:
            title = keymap.said(WORDS[name][0])
            lines += [(), ((title, "strong"),), *_explained(name, keymap, width, self._glyphs)]
        return lines


def _explained(pane: str, keymap: Keymap, width: int, glyphs: Glyphs) -> list[Spans]:
    said = [(keymap.said(word), keymap.said(text)) for word, text in WORDS[pane][1]]
    return _table([(spelled(word, glyphs), spelled(text, glyphs)) for word, text in said], width, "text")


def _table(rows: Sequence[tuple[str, str]], width: int, role: str) -> list[Spans]:
    """Return two columns; the right one is wrapped."""
    left = max(len(word) for word, _ in rows) + 2
    lines: list[Spans] = []
    for word, text in rows:
        for number, piece in enumerate(wrapped(text, width - left, "muted")):
            lines.append(((f"{word if number == 0 else '':<{left}}", role), *piece))
    return lines
