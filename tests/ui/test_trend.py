from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widget import Widget

from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.panes.trend import Trend


class TrendApp(App[None]):
    CSS = "Trend { width: 10; height: 3; border: round red; } #high { height: 4; border: none; color: blue; }"

    def compose(self) -> ComposeResult:
        yield Trend(0, 100, UNICODE, id="low")
        yield Trend(0, 100, UNICODE, id="high")

    def lines(self, name: str) -> list[str]:
        trend = self.query_one(f"#{name}", Trend)
        return [trend.render_line(y).text for y in range(trend.size.height)]


async def test_history_is_drawn_in_one_segment_of_the_widgets_colour() -> None:
    app = TrendApp()
    async with app.run_test() as pilot:
        trend = app.query_one("#high", Trend)
        trend.show([0, 25, 50, 75, 100])
        await pilot.pause()
        assert app.lines("high") == ["         █", "       ▁██", "      ▁███", "     ▁████"]
        for y in range(4):
            (segment,) = trend.render_line(y)
            assert segment.style == trend.rich_style


async def test_only_lines_whose_text_changed_are_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TrendApp()
    async with app.run_test() as pilot:
        trend = app.query_one("#high", Trend)
        trend.show([10] * 30)
        await pilot.pause()
        calls: list[tuple[Region, ...]] = []
        original = Widget._set_dirty

        def noted(self: Widget, *regions: Region) -> None:
            calls.append(regions)
            original(self, *regions)

        monkeypatch.setattr(Widget, "_set_dirty", noted)
        trend.show([10] * 31)
        trend.show([10.1] * 31)
        await pilot.pause()
        assert calls == []
        trend.show([10] * 30 + [20])
        await pilot.pause()
        assert calls == [(Region(0, 3, 10, 1),)]
        assert app.lines("high") == [" " * 10, " " * 10, " " * 10, "▄▄▄▄▄▄▄▄▄▇"]


async def test_values_shown_before_the_first_layout_and_after_a_resize_are_drawn() -> None:
    app = TrendApp()
    async with app.run_test() as pilot:
        trend = app.query_one("#low", Trend)
        early = Trend(0, 100, UNICODE, id="early")
        early.show([100] * 20)
        await app.mount(early)
        trend.show([0] * 20 + [100])
        trend.styles.width = 6
        await pilot.pause()
        assert app.lines("low") == ["▁▁▁█"]
        assert app.lines("early")[0] == "█" * 8
