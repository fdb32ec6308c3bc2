"""What a person looks at, without the app: rows, workloads, themes, pages, the palette."""

from pathlib import Path
from typing import Any

import pytest
from tests.helpers.app.fake_port import FakeBridge, FakePort
from tests.helpers.app.fake_run import DEVICES, ENVIRONMENT
from textual.theme import BUILTIN_THEMES, Theme

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import DevicesFound
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.transport.interpreter_search import Interpreter
from cpugpu_tui.ui.app_state import AS_RAN
from cpugpu_tui.ui.chart import ChartScreen
from cpugpu_tui.ui.controllers.paging import Paging, Palette, Timings
from cpugpu_tui.ui.controllers.running import Preparing
from cpugpu_tui.ui.controllers.themes import Themes
from cpugpu_tui.ui.live.messages import DevicesReported, InterpreterFound, RunAdvanced
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.help import HelpScreen
from cpugpu_tui.ui.screens.machine import MachineScreen
from cpugpu_tui.ui.screens.palette import Entry, PaletteScreen
from cpugpu_tui.ui.themes import DEFAULT_THEME

# ------------------------------------------------------------------ rows


def test_rows_are_sorted_reversed_and_highlighted() -> None:
    port = FakePort()
    timings = Timings(port)
    timings.sort()
    assert port.state.order != AS_RAN
    timings.reverse()
    assert port.state.order.is_reversed
    timings.highlight("a row")
    timings.highlight("a row")
    assert port.state.cursor == "a row"
    assert port.shown == 3


def test_the_chart_opens_and_closes_and_has_two_axes() -> None:
    port = FakePort()
    timings = Timings(port)
    timings.toggle_axis("linear_sizes")
    assert (port.state.linear_sizes, port.state.linear_times) == (True, False)
    timings.toggle_chart()
    assert isinstance(port.screen, ChartScreen)
    timings.toggle_chart()
    assert port.screen is port.main


# ------------------------------------------------------------------ workloads, devices, interpreters


def test_what_is_highlighted_is_what_runs() -> None:
    port = FakePort()
    Preparing(port, FakeBridge(), lambda request: None).highlight(WorkloadPane.Highlighted(PlanRequest(("copy",))))
    assert port.state.request.names == ("copy",)


def test_a_run_tells_the_devices_once_and_paints_nothing_by_that() -> None:
    port = FakePort()
    preparing = Preparing(port, FakeBridge(), lambda request: None)
    preparing.meet_run_devices(RunAdvanced((DevicesFound(devices=DEVICES),)))
    preparing.meet_run_devices(RunAdvanced((DevicesFound(devices=DEVICES[:1]),)))
    assert port.state.devices == DEVICES
    assert port.shown == 0
    preparing.meet_devices(DevicesReported(DEVICES[:1], "no driver"))
    assert (port.state.devices, port.state.devices_remark) == (DEVICES[:1], "no driver")


def test_a_better_interpreter_is_searched_for_once_offered_and_used() -> None:
    port, bridge = FakePort(environment={**ENVIRONMENT, "torch": None}), FakeBridge()
    preparing = Preparing(port, bridge, lambda request: None)
    preparing.consider_python(None)
    preparing.consider_python(None)
    assert [group for group, _ in port.threads] == ["search"]
    found = Interpreter("/opt/python", "2.8.0+cu126", True)
    preparing.offer_python(InterpreterFound(found, is_complete=True))
    assert port.state.better_python == found
    preparing.use_python()
    port.threads[-1][1]()
    assert bridge.asked == [("use_python", "/opt/python")]
    assert port.state.better_python is None


def test_a_key_that_finds_no_interpreter_says_so() -> None:
    port = FakePort(environment=ENVIRONMENT)
    preparing = Preparing(port, FakeBridge(), lambda request: None)
    preparing.use_python()
    preparing.offer_python(InterpreterFound(None, is_complete=True))
    assert len(port.said) == 2


# ------------------------------------------------------------------ themes


class FakeHost:
    """Textual's themes."""

    def __init__(self) -> None:
        self.available_themes: dict[str, Theme] = dict(BUILTIN_THEMES)
        self.theme = "textual-dark"
        self.no_color = False
        self.renewed = 0

    def register_theme(self, theme: Theme) -> None:
        self.available_themes[theme.name] = theme

    def unregister_theme(self, name: str) -> None:
        del self.available_themes[name]

    def mutate_reactive(self, _: object) -> None:
        self.renewed += 1


def themes_of(folder: Path | None = None, **given: Any) -> tuple[Themes, FakeHost, FakePort]:
    port, host = FakePort(), FakeHost()
    given = {"is_timing": lambda: False, "sixteen_colours": False, **given}
    return Themes(port, host, folder, **given), host, port


def test_the_next_theme_comes_round() -> None:
    themes, host, _ = themes_of()
    assert themes.start(DEFAULT_THEME) == ""
    seen = []
    for _ in themes.names:
        themes.put_on_next()
        seen.append(host.theme)
    assert sorted(seen) == sorted(themes.names)
    assert host.theme == DEFAULT_THEME
    with pytest.raises(UsageError):
        themes.start("none of that name")


def test_sixteen_colours_get_a_theme_of_the_terminals_own() -> None:
    themes, host, _ = themes_of(sixteen_colours=True)
    assert "16" in themes.start(DEFAULT_THEME)
    assert host.theme == "ansi-dark"
    assert all(host.available_themes[name].ansi for name in themes.names)


def test_a_persons_theme_is_picked_up_mended_and_dropped(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("name = 'mine'\nprimary = 'no colour'\n")
    themes, host, port = themes_of(tmp_path)
    assert "mine.toml" in themes.start("mine")
    assert host.theme == DEFAULT_THEME
    (tmp_path / "mine.toml").write_text("name = 'mine'\nprimary = '#112233'\n")
    themes.look()
    assert host.theme == "mine"
    assert port.state.theme_notice == ""
    (tmp_path / "mine.toml").write_text("name = 'mine'\nprimary = '#445566'\n")
    themes.look()
    assert host.renewed == 1
    themes.put_on(DEFAULT_THEME)
    (tmp_path / "mine.toml").unlink()
    themes.look()
    assert "mine" not in themes.names


def test_while_something_is_timed_no_folder_is_looked_at(tmp_path: Path) -> None:
    themes, _, port = themes_of(tmp_path, is_timing=lambda: True)
    (tmp_path / "mine.toml").write_text("name = 'mine'\nprimary = '#112233'\n")
    themes.look()
    assert port.shown == 0
    assert "mine" not in themes.names


# ------------------------------------------------------------------ pages and the palette


def test_escape_closes_the_first_thing_that_is_open() -> None:
    port, closed = FakePort(), []
    paging = Paging(port, (lambda: bool(closed.append("count")), lambda: closed.append("zoom") is None,
                           lambda: bool(closed.append("past"))))  # fmt: skip
    paging.toggle_machine()
    assert isinstance(port.screen, MachineScreen)
    paging.close()
    assert port.screen is port.main
    paging.close()
    assert closed == ["count", "zoom"]


def test_help_explains_the_pane_with_the_focus() -> None:
    port = FakePort()
    paging = Paging(port)
    paging.toggle_help()
    assert isinstance(port.screen, HelpScreen)
    assert "workload" in str(port.screen.page_title())
    paging.toggle_help()
    assert "words" in str(port.screen.page_title())
    paging.toggle_help()
    assert port.screen is port.main


def test_zoom_without_a_pane_of_readings_is_the_screens() -> None:
    port = FakePort()
    Paging(port).zoom()
    assert port.main.asked == ["zoom"]


async def test_the_palette_does_what_is_chosen() -> None:
    themes, host, port = themes_of()
    run: list[str] = []
    done: list[tuple[str, object]] = []

    async def perform(action: str, node: object) -> None:
        done.append((action, node))

    port.main.query_one = lambda _: type("Pane", (), {"summaries": [("quick", "A preset.")]})  # type: ignore[method-assign,assignment]
    port.screen_stack.append(type("Top", (), {"active_bindings": {}}))
    Palette(port, themes, run.append, perform).open()
    screen, do = port.screen, port.callbacks[-1]
    assert isinstance(screen, PaletteScreen)
    assert do is not None
    for entry in (
        Entry("theme", "paper", "", ""),
        Entry("workload", "quick", "", ""),
        Entry("command", "sort", "", ""),
    ):
        await do(entry)  # type: ignore[misc]
    await do(None)  # type: ignore[misc]
    assert (host.theme, run, done) == ("paper", ["quick"], [("do('timings.sort')", None)])
