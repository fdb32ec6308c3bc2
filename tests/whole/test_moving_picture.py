"""README's pictures: small, safe to embed, the same each time, and a good still where nothing moves."""

import re
from xml.etree import ElementTree as ET

import pytest
from tests.readme.blocks import ROOT
from tests.readme.moving import SVG, moving
from tests.readme.pictures import film

from cpugpu_tui.demo.recording import shipped

PICTURES = sorted((ROOT / "docs").glob("*.svg"))


def words(groups):
    found = [text.text or "" for group in groups for text in group.findall(f"{SVG}text")]
    return sorted(word for word in found if word.strip())


def still(svg):
    """Return the words that a picture shows where animation is off."""
    root = ET.fromstring(svg)
    hidden = set(re.findall(r"\.(t\d+)\{visibility:hidden", root.findtext(f"{SVG}style") or ""))
    return words(group for group in root.iter(f"{SVG}g") if group.get("class") not in hidden)


def shown_at(svg, percent):
    """Return the words that a picture shows when so much of its time has passed."""
    root = ET.fromstring(svg)
    visible: set[str | None] = {None}
    for name, steps in re.findall(r"@keyframes (t\d+)\{((?:[^{}]+\{[^}]+\})+)\}", root.findtext(f"{SVG}style") or ""):
        past = [how for at, how in re.findall(r"([\d.]+)%\{visibility:(\w+)\}", steps) if float(at) <= percent]
        visible |= {name} if past[-1] == "visible" else set()
    return words(group for group in root.iter(f"{SVG}g") if group.get("class") in visible)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_can_be_embedded_anywhere(path):
    svg = path.read_text()
    assert len(svg.encode()) < 1_000_000
    assert not re.search(r"<script|<foreignObject|@import|url\((?!#)|href|https?://(?!www\.w3\.org|www\.textual)", svg)
    ET.fromstring(svg)


def test_the_readme_shows_a_picture_that_moves():
    assert "docs/demo.svg" in (ROOT / "README.md").read_text()
    assert "@keyframes" in (ROOT / "docs" / "demo.svg").read_text()


async def test_each_frame_is_shown_in_its_turn_the_last_one_where_nothing_moves_and_the_same_each_time():
    frames, again = [await film(shipped(), moments=(2.05, 9.05)) for _ in range(2)]
    picture = moving(frames)
    assert picture == moving(again)
    total_s = sum(frame.seconds for frame in frames)
    passed_s = 0.0
    for frame in frames:
        middle = 100 * (passed_s + frame.seconds / 2) / total_s
        assert shown_at(picture, middle) == still(frame.svg)
        passed_s += frame.seconds
    assert still(picture) == still(frames[-1].svg)
