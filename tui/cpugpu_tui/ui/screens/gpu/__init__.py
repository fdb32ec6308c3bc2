"""The telemetry page: histories of all GPUs with their processes, or every reading of one GPU or of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, width_of
from cpugpu_tui.ui.panes.telemetry import nothing_yet
from cpugpu_tui.ui.panes.telemetry.wording import stranger
from cpugpu_tui.ui.screens.gpu.overview import overview_lines
from cpugpu_tui.ui.screens.gpu.readings import gpu_lines, host_lines
from cpugpu_tui.ui.screens.page import Page

ALL_PAGE, HOST_PAGE = "all", "host"
"""Names of the pages other than those of the GPUs, which are numbers."""


class GpuScreen(Page):
    """Has a page for all devices, one for each GPU, and one for the host."""

    BINDINGS: ClassVar[list[BindingType]] = [("tab,right", "turn(1)"), ("shift+tab,left", "turn(-1)")]

    TOPIC = "gpu"

    def __init__(self, state: AppState, glyphs: Glyphs) -> None:
        """Start on the page of all GPUs, or on the host's without one."""
        super().__init__(state, glyphs)
        read = state.telemetry.latest
        self._page = ALL_PAGE if read is not None and read.gpus else HOST_PAGE

    def page_title(self) -> Spans:
        """Return the names of the pages, with the open one marked."""
        name = ("Telemetry ", "title")
        room = self.size.width - 2 - width_of((name, *self.page_tags()))
        return (name, *page_tabs(pages(self.state), self._page, room, self.glyphs))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the open page, or a sentence if its GPU has disappeared."""
        glyphs, telemetry, devices = self.glyphs, self.state.telemetry, self.state.run.devices
        if telemetry.latest is None:
            return nothing_yet(self.state, width)
        if self._page == HOST_PAGE:
            return host_lines(telemetry, width, glyphs)
        if self._page == ALL_PAGE:
            return overview_lines(telemetry, devices, width, self.size.height - 2, glyphs)
        gpu = next((gpu for gpu in telemetry.latest.gpus if str(gpu.index) == self._page), None)
        if gpu is None:
            return [((f"GPU {self._page} has disappeared.", "warn"),)]
        name: Spans = ((f"GPU {gpu.index} ", "strong"), (stranger(gpu.name, max(width - 8, 0), glyphs), "title"))
        return [name, *gpu_lines(gpu, telemetry, devices, width, glyphs)]

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of this page."""
        return (("{zoom}", "back"), ("tab", "next page"), ("shift+tab", "previous page"), ("j k g G", "scroll"))

    def action_turn(self, step: int) -> None:
        """Go to the next or previous page, in a circle."""
        there = pages(self.state)
        at = there.index(self._page) if self._page in there else 0
        self._page = there[(at + step) % len(there)]
        self.query_one("#page", VerticalScroll).scroll_home(animate=False)
        self.redraw()


def pages(state: AppState) -> list[str]:
    """Return the pages in order: all, each GPU by its NVML number, the host."""
    read = state.telemetry.latest
    return [ALL_PAGE, *(str(gpu.index) for gpu in (read.gpus if read is not None else ())), HOST_PAGE]


def page_tabs(there: Sequence[str], chosen: str, width: int, glyphs: Glyphs) -> Spans:
    """Return the names of the pages with a sign at the open one; only numbers if the names do not fit."""
    for form in ("GPU {}", "{}"):
        spans: list[tuple[str, str]] = []
        for page in there:
            text = form.format(page) if page not in (ALL_PAGE, HOST_PAGE) else page
            sign, role = (glyphs.cursor, "chosen") if page == chosen else (" ", "text")
            spans += [(sign, "key"), (text, role), (" ", "text")]
        if width_of(tuple(spans)) <= width:
            break
    return tuple(spans)


LABEL_WIDTH, VALUE_WIDTH, AGE_WIDTH, TOP_WIDTH = 26, 13, 11, 12
