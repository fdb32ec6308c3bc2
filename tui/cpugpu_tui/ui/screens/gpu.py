"""One GPU on the whole screen: every reading with its age and history, and everybody who is on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.status import tags
from cpugpu_tui.ui.panes.telemetry import telemetry_lines
from cpugpu_tui.ui.panes.telemetry.identity import torch_names
from cpugpu_tui.ui.panes.telemetry.wording import stranger
from cpugpu_tui.ui.roles import Spans, width_of
from cpugpu_tui.ui.screens.gpu_lines import gpu_lines, host_lines
from cpugpu_tui.ui.screens.page import Page

ALL, HOST = "all", "host"
"""Pages beside those of the GPUs, which are called by their number."""
KEYS = (("{zoom}", "back"), ("tab", "next"), ("shift+tab", "previous"), ("j k g G", "scroll"))


class GpuScreen(Page):
    """The zoomed telemetry pane: a page for all devices, one for each GPU, one for the host."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,right", "turn(1)", show=False),
        Binding("shift+tab,left", "turn(-1)", show=False),
    ]

    TOPIC = "telemetry"

    def __init__(self, state: AppState, glyphs: Glyphs) -> None:
        """Open on the first GPU that the run uses, else on the first."""
        super().__init__(state)
        self._glyphs = glyphs
        self._page = first_page(state)

    def page_title(self) -> Spans:
        """Return the pages, the open one marked."""
        return (*tags(self.state), *page_tabs(pages(self.state), self._page, self.size.width - 2, self._glyphs))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the open page; a GPU that is no longer there leaves a sentence."""
        glyphs, telemetry, devices = self._glyphs, self.state.telemetry, self.state.run.devices
        if self._page == HOST or telemetry.latest is None:
            return host_lines(telemetry, width, glyphs)
        if self._page == ALL:
            lines = max(self.size.height - 2, len(telemetry.latest.gpus) + 4)
            return telemetry_lines(telemetry, width, lines, glyphs, devices)
        gpu = next((gpu for gpu in telemetry.latest.gpus if str(gpu.index) == self._page), None)
        if gpu is None:
            return [((f"GPU {self._page} is not there any more.", "warn"),)]
        name: Spans = ((f"GPU {gpu.index} ", "strong"), (stranger(gpu.name, max(width - 8, 0), glyphs), "title"))
        return [name, *gpu_lines(gpu, telemetry, devices, width, glyphs)]

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return how to turn the pages."""
        return KEYS

    def action_turn(self, step: int) -> None:
        """Go to the next page, or the one before; after the last comes the first."""
        there = pages(self.state)
        at = there.index(self._page) if self._page in there else 0
        self._page = there[(at + step) % len(there)]
        self.query_one("#page", VerticalScroll).scroll_home(animate=False)
        self.redraw()


def pages(state: AppState) -> list[str]:
    """Return the pages in order: all, each GPU by NVML's number, the host."""
    read = state.telemetry.latest
    return [ALL, *(str(gpu.index) for gpu in (read.gpus if read is not None else ())), HOST]


def first_page(state: AppState) -> str:
    """Return the GPU that the run uses, else the first, else the host."""
    read = state.telemetry.latest
    gpus = read.gpus if read is not None else ()
    used = [gpu for gpu in gpus if torch_names(gpu, state.run.devices)]
    return str((used or list(gpus))[0].index) if gpus else HOST


def page_tabs(there: Sequence[str], chosen: str, width: int, glyphs: Glyphs) -> Spans:
    """Return the names of the pages, with a sign at the open one; numbers alone where there are too many for words."""
    for form in ("GPU {}", "{}"):
        spans: list[tuple[str, str]] = []
        for page in there:
            text = form.format(page) if page not in (ALL, HOST) else page
            is_open = page == chosen
            spans += [
                (glyphs.cursor if is_open else " ", "key"),
                (text, "chosen" if is_open else "text"),
                (" ", "text"),
            ]
        if width_of(tuple(spans)) <= width:
            break
    return tuple(spans)
