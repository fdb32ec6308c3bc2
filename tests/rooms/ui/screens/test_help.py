"""Help: the keys of the focused pane by group on one screen, then all keys and words."""

from pathlib import Path

import pytest
from tests.helpers.app.fake_run import done_run, opened, settled
from tests.helpers.app.looking import text_of
from tests.rooms.ui.screens.test_fleet_screen import opened as fleet_opened
from tests.rooms.ui.test_footer import ASKED_IN_ON_KEY, action_of, app_with_history

from cpugpu_tui.ui.keys import COMMANDS, DEFAULT_KEYMAP
from cpugpu_tui.ui.screens.fleet import FleetList
from cpugpu_tui.ui.screens.help import TEXTS, HelpScreen, glossary, grouped, words_of
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import ListPage, Page

DOCS = Path(__file__).resolve().parents[4] / "docs"


def keys_of(topic):
    """Each key that the first page of a topic shows, with its group."""
    groups = grouped(TEXTS.topics[topic], DEFAULT_KEYMAP)
    return [(key, group) for group, rows in groups.items() for keys, _ in rows for key in keys.split()]


@pytest.mark.parametrize("topic", TEXTS.topics)
async def test_the_keys_of_each_pane_fit_on_the_smallest_usual_screen(topic):
    async with opened(size=(80, 24)) as pilot:
        pilot.app.push_screen(HelpScreen(pilot.app.state, topic, pilot.app.glyphs))
        await settled(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        assert pilot.app.screen.query_one("#page").max_scroll_y == 0
        assert "scroll" not in text_of(pilot, "#page-keys")
        assert TEXTS.topics[topic].name in text_of(pilot, "#page-title")
        lines = text_of(pilot, "#page-text").splitlines()
        assert all(len(line) <= 76 for line in lines)
        assert [line for line in lines if line.endswith((",", "a", "the"))] == [], "each key takes one line"


def test_every_page_has_its_own_help():
    def kinds(kind):
        return [kind, *(each for below in kind.__subclasses__() for each in kinds(below))]

    shared = {Page, ListPage, FleetList, HelpScreen}
    topics = {kind.TOPIC for kind in kinds(Page) if kind not in shared and kind.__module__.startswith("cpugpu_tui.")}
    assert topics <= set(TEXTS.topics)
    assert all(words_of(topic) and TEXTS.topics[topic].terms for topic in TEXTS.topics)


@pytest.mark.parametrize(
    ("topic", "keys"),
    [("workload", "shift+tab"), ("timings", ""), ("telemetry", "tab"), ("gpu", "tab z"), ("detail", "enter"),
     ("chart", "g"), ("history", "h"), ("compare", "c"), ("claims", "K"), ("machine", "m")],
)  # fmt: skip
async def test_each_key_that_help_names_does_something_there(topic, keys):
    async with app_with_history() as pilot:
        await done_run(pilot)
        for key in keys.split():
            await pilot.press(key)
        await settled(pilot, lambda: topic_of(pilot) == topic)
        for key, _ in keys_of(topic):
            name = "1" if key == TEXTS.shared["count"].keys else key
            if name in ("space", "x"):
                continue  # possible during a run only
            assert action_of(pilot, name) not in ("", "nothing") or name in ASKED_IN_ON_KEY, name
        await pilot.press("question_mark")
        await settled(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        assert TEXTS.topics[topic].name in text_of(pilot, "#page-title")


def topic_of(pilot):
    screen = pilot.app.screen
    return screen.TOPIC if isinstance(screen, Page) else screen.focused_pane


async def test_pressed_again_it_shows_the_rest_and_then_goes():
    async with opened() as pilot:
        await pilot.press("tab", "?")
        first = text_of(pilot, "#page-text")
        assert [line.split("  ")[0] for line in first.splitlines() if line[:1].strip()] == ["Run", "Look", "Go"]
        await pilot.press("?")
        text = " ".join(text_of(pilot, "#page-text").split())
        for command in COMMANDS:
            assert command.help in text
        for heading in ("Words", "All keys", "Mouse", "Read more", "kernel-active", "throttling"):
            assert heading in text
        assert "{" not in text
        await pilot.press("?")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_on_a_small_terminal_it_scrolls_and_says_so():
    async with opened(size=(60, 16)) as pilot:
        await pilot.press("?")
        assert pilot.app.screen.query_one("#page").max_scroll_y > 0
        assert "j k scroll" in text_of(pilot, "#page-keys")


def test_the_words_are_those_of_the_glossary():
    used = {term for topic in TEXTS.topics.values() for term in topic.terms}
    assert used <= set(glossary())
    assert glossary()["bracket"] in (DOCS / "glossary.md").read_text()
    assert not any("`" in glossary()[term] or "](" in glossary()[term] for term in used)


@pytest.mark.parametrize(("topic", "keys"), [("fleet", []), ("host", ["enter"])])
async def test_each_key_that_help_names_does_something_in_a_fleet(topic, keys):
    async with fleet_opened() as (pilot, _):
        await pilot.press(*keys)
        await settled(pilot, lambda: topic_of(pilot) == topic)
        assert [key for key, _ in keys_of(topic) if action_of(pilot, key) in ("", "nothing")] == []
        await pilot.press("question_mark")
        await settled(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        assert TEXTS.topics[topic].name in text_of(pilot, "#page-title")
