"""Themes in the running app: what is drawn can be read, the list previews, files are picked up."""

import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.style import Style
from tests.helpers.app.fake_run import new_app, opened, settled, start_run
from tests.helpers.app.looking import text_of
from textual.color import Color
from textual.widgets import OptionList

from cpugpu_tui.ui.themes import contrast

GOOD = 'name = "mine"\nprimary = "#336699"\nbackground = "#101010"\n'
DRAWN = "▁▂▃▄▅▆▇█░─│╭╮╰╯┌┐└┘━ "
"""Bars and frames: not text."""
PAGES = ("T", "enter", "question_mark", "m", "K", "g", "h", "shift+tab enter")
"""Keys that open the themes, a row, the help, the machine, the claims, the chart, the history, a workload."""


def segments(pilot):
    """What is on the screen now, piece by piece."""
    for strip in pilot.app.screen._compositor.render_strips():
        yield from strip


def looks(pilot):
    """The whole screen with its colours."""
    strips = pilot.app.screen._compositor.render_strips()
    return [
        [(text, style and style.without_color + _colours(style)) for text, style, _ in s.simplify()] for s in strips
    ]


def _colours(style):
    return Style.from_color(style.color, style.bgcolor)


def write(folder, text, name="mine"):
    path = folder / "themes" / f"{name}.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@asynccontextmanager
async def done(config_dir=None, theme="slate", size=(120, 40)):
    async with opened(new_app(config_dir=config_dir, theme=theme), size, ran=True) as pilot:
        yield pilot


async def look_again(pilot):
    """Let the second pass after which the app looks at the folder."""
    pilot.app.themes.look()
    await pilot.pause()
    await pilot.pause()


# ------------------------------------------------------------------ what is drawn


def unreadable(pilot):
    """Texts of less than the least contrast; of a box over dimmed panes, those inside."""
    screen = pilot.app.screen
    strips = screen._compositor.render_strips()
    if screen.styles.background.a > 0 and screen.is_modal:
        box = screen.query_one("#box").region
        strips = [strip.crop(box.x, box.right) for strip in strips[box.y : box.bottom]]
    found = []
    for text, style, _ in (segment for strip in strips for segment in strip):
        if text.strip(DRAWN) and style is not None and style.color is not None and style.bgcolor is not None:
            ink, ground = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
            if contrast(ink, ground) < 3:
                found.append(f"{pilot.app.theme}: {text!r} in {ink.hex} on {ground.hex}")
    return found


@pytest.mark.slow
async def test_what_is_drawn_can_be_read_in_every_theme():
    async with done() as pilot:
        app = pilot.app
        for name in (name for name in app.themes.names if not app.available_themes[name].ansi):
            app.theme = name
            for _ in range(3):
                await pilot.pause()
            assert unreadable(pilot) == []


@pytest.mark.parametrize("theme", ["paper", "nord", "catppuccin-latte"])
async def test_every_page_can_be_read(theme):
    async with done(theme=theme) as pilot:
        for keys in PAGES:
            await pilot.press(*keys.split())
            await settled(pilot, lambda: len(pilot.app.screen_stack) > 1)
            await pilot.pause()
            assert unreadable(pilot) == [], keys
            await pilot.press("escape")
            await settled(pilot, lambda: len(pilot.app.screen_stack) == 1)


async def test_the_list_colours_the_whole_screen_behind_it(tmp_path):
    async with done(theme="night-flight") as pilot:
        fresh = looks(pilot)
    async with done(theme="slate") as pilot:
        await pilot.press("T")
        await settled(pilot, lambda: len(pilot.app.screen_stack) > 1)
        options = pilot.app.screen.query_one(OptionList)
        options.highlighted = pilot.app.themes.names.index("night-flight")
        await settled(pilot, lambda: pilot.app.theme == "night-flight")
        behind = looks(pilot)
        assert [line[0] for line in behind[8:14]] == [line[0] for line in fresh[8:14]]
        assert 'theme = "night-flight"' in text_of(pilot, "#box Lines")
        await pilot.press("escape")
        assert pilot.app.theme == "slate"


async def test_enter_keeps_the_theme_and_all_is_drawn_in_it():
    async with done(theme="paper") as pilot:
        fresh = looks(pilot)
    async with done(theme="slate") as pilot:
        await pilot.press("T")
        await settled(pilot, lambda: len(pilot.app.screen_stack) > 1)
        for _ in range(abs(pilot.app.themes.names.index("paper") - pilot.app.themes.names.index("slate"))):
            await pilot.press("k")
        await pilot.press("enter")
        await settled(pilot, lambda: len(pilot.app.screen_stack) == 1)
        assert pilot.app.theme == "paper"
        assert looks(pilot) == fresh


async def test_a_theme_never_moves_what_cannot_be_seen_under_no_color(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = new_app()
    monkeypatch.undo()
    async with opened(app, ran=True) as pilot:
        for theme in ("slate", "paper", "ansi-dark"):
            assert theme in app.themes.names  # which also loads the shipped ones
            app.theme = theme
            for _ in range(3):
                await pilot.pause()
            colours = {c for _, s, _ in segments(pilot) if s is not None for c in (s.color, s.bgcolor) if c is not None}
            assert {colour.name for colour in colours} <= {"default"}
            reversed_text = "".join(text for text, style, _ in segments(pilot) if style is not None and style.reverse)
            assert "▸16" in reversed_text


# ------------------------------------------------------------------ the person's own


async def test_a_new_file_a_changed_one_and_one_that_goes_are_picked_up(tmp_path):
    async with done(tmp_path) as pilot:
        app = pilot.app
        assert "mine" not in app.themes.names
        path = write(tmp_path, GOOD)
        await settled(pilot, lambda: "mine" in app.themes.names)  # by its own clock, once a second
        assert app.themes.names[0] == "mine"
        app.theme = "mine"
        write(tmp_path, GOOD.replace("#101010", "#202020"))
        await look_again(pilot)
        await settled(pilot, lambda: app.screen.styles.background == Color.parse("#202020"))
        path.unlink()
        await look_again(pilot)
        assert app.theme == "mine"
        app.theme = "slate"
        write(tmp_path, GOOD, "other")
        await look_again(pilot)
        (tmp_path / "themes/other.toml").unlink()
        await look_again(pilot)
        assert "mine" not in app.themes.names


def whole_answer(pilot):
    """Return what the answer says, which has room for a whole sentence, without the breaks of its lines."""
    return " ".join(text_of(pilot, "#answer").split())


async def test_a_file_that_breaks_is_said_and_its_theme_stays_as_it_was(tmp_path):
    write(tmp_path, GOOD)
    async with done(tmp_path, "mine") as pilot:
        write(tmp_path, GOOD + 'accent = "blu"')
        await look_again(pilot)
        assert "mine.toml" in text_of(pilot, "#status")
        said = whole_answer(pilot)
        for fact in ("mine.toml", "line 4", "'blu'"):
            assert fact in said
        assert pilot.app.theme == "mine"
        assert pilot.app.screen.styles.background == Color.parse("#101010")
        await pilot.press("T")
        await settled(pilot, lambda: len(pilot.app.screen_stack) > 1)
        assert "'blu'" in text_of(pilot, "#box Lines")
        write(tmp_path, GOOD + 'accent = "blue"')
        await look_again(pilot)
        assert "'blu'" not in text_of(pilot, "#box Lines")
        await pilot.press("escape")
        assert "mine.toml" not in text_of(pilot, "#status")


async def test_no_file_is_looked_at_during_a_run_and_none_is_opened_that_did_not_change(tmp_path, monkeypatch):
    write(tmp_path, GOOD)
    seen: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: seen.append(str(path)) or scan(path))
    async with opened(new_app(config_dir=tmp_path)) as pilot:
        opens: list[Path] = []
        read = Path.read_text
        monkeypatch.setattr(Path, "read_text", lambda self, *a, **k: opens.append(self) or read(self, *a, **k))
        seen.clear()
        pilot.app.themes.look()
        assert seen == [str(tmp_path / "themes")]
        assert not opens
        await start_run(pilot)
        seen.clear()
        write(tmp_path, GOOD + "# changed")
        pilot.app.themes.look()
        assert seen == []


# ------------------------------------------------------------------ 16 colours


async def test_sixteen_colours_get_themes_made_for_them_and_are_told_why(tmp_path, words):
    from tests.helpers.app.fake_run import FakeBackend

    from cpugpu_tui.ui.app import CpuGpuApp
    from cpugpu_tui.ui.app_state import AppOptions

    app = CpuGpuApp(AppOptions(theme="paper"), backend=FakeBackend(), sixteen_colours=True)
    async with opened(app) as pilot:
        assert app.theme == "ansi-light"
        words(text_of(pilot, "#status").split("   ")[0].strip())
        await pilot.press("t", "t", "t")
        assert app.theme in ("ansi-dark", "ansi-light")
        await pilot.press("T")
        await settled(pilot, lambda: len(app.screen_stack) > 1)
        assert app.screen.query_one(OptionList).option_count == 2
        assert "16 colours" in text_of(pilot, "#box Lines")
