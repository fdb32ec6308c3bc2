"""Help: what the pane with the focus shows, then every key."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.ui.commands import COMMANDS, MOVES, keys_text
from cpugpu_tui.ui.panes.lines import wrapped
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.screens.page import Page

WORDS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "workload": (
        "Workload: what r runs",
        (
            ("list", "Presets and workloads. A preset of a publication shows what the publication claimed."),
            ("enter", "Opens the parameters: sizes, dtype, CPU threads, devices, repeats."),
            ("r", "Runs what is highlighted, in a process of its own, so that this screen is not in the numbers."),
        ),
    ),
    "timings": (
        "Timings: one row per case, CPU and GPU alternating",
        (
            ("CPU, GPU", "What a caller waits for one call; on the GPU the call and the synchronisation. Median of"
             " all blocks. A ~ in front: something was odd, enter says what."),
            ("speed-up", "Time on the CPU divided by time on the GPU. Above 1 the GPU is faster."),
            ("+-%", "Half of the 95 % interval of the speed-up, from the rounds. No interval below five rounds."),
            ("faster", "GPU or CPU: the interval leaves no doubt. tie: it lies within 2 %. undecided: it does not"
             " say. A row in progress shows its rounds, a failed one what went wrong."),
            ("kernel", "What the GPU itself needs, caches cold, without launch and synchronisation."),
            ("moved", "The speed-up when data starts and ends in the host's ordinary memory."),
            ("limit", "What the row would need more of: compute or memory, with the share of what this machine reached"
             " on its card (m); transfer: the cable; launch, call: starting the work costs more than the work."),
            ("clock off", "How far the publication's own clock is off: x53 shows 53 times too little. A ! before it:"
             " what it shows is more than this machine can do."),
            ("rounds", "The latencies of the rounds, CPU left, GPU right; full height is 10 % above the median."),
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
            ("z", "Every reading of one GPU with its age and history, and all processes; tab goes to the next GPU."),
        ),
    ),
}  # fmt: skip
"""Pane id → title and (word, explanation)."""


class HelpScreen(Page):
    """Explains one pane and lists all keys."""

    def __init__(self, picture: Picture, pane: str) -> None:
        """Explain the pane with this id."""
        super().__init__(picture)
        self._pane = pane if pane in WORDS else "timings"

    def page_title(self) -> Spans:
        """Return what this page explains."""
        return (("Help ", "title"), (WORDS[self._pane][0], "strong"))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the pane's words, then the keys, then the other panes' words."""
        others = [name for name in WORDS if name != self._pane]
        lines: list[Spans] = [*_explained(self._pane, width), (), (("Keys", "strong"),)]
        lines += _table([(keys_text(command), command.help) for command in COMMANDS], width, "key")
        lines += [(("", "text"),), *wrapped(MOVES, width, "muted")]
        for name in others:
            lines += [(), ((WORDS[name][0], "strong"),), *_explained(name, width)]
        return lines


def _explained(pane: str, width: int) -> list[Spans]:
    return _table(WORDS[pane][1], width, "text")


def _table(rows: Sequence[tuple[str, str]], width: int, role: str) -> list[Spans]:
    """Return two columns; the right one is wrapped."""
    left = max(len(word) for word, _ in rows) + 2
    lines: list[Spans] = []
    for word, text in rows:
        for number, piece in enumerate(wrapped(text, width - left, "muted")):
            lines.append(((f"{word if number == 0 else '':<{left}}", role), *piece))
    return lines
