"""Joins screenshots of the app into one moving SVG: no script, no remote font, rows that do not change drawn once.

Each row of the terminal is a group that CSS shows in the frames that have it. Where animation is off, the last frame
stands still.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

SVG = "{http://www.w3.org/2000/svg}"
FONT = "ui-monospace, 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
BUTTONS = "".join(
    f'<circle cx="{x}" cy="22" r="7" fill="{fill}"/>' for x, fill in ((26, "#ff5f57"), (48, "#febc2e"), (70, "#28c840"))
)
REMOTE_FONTS = re.compile(r"\s*@font-face \{.*?\n    \}", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """A screenshot and how long it is shown."""

    svg: str
    seconds: float


@dataclass(frozen=True)
class Screen:
    """What one screenshot draws."""

    rows: dict[float, str]
    """Drawing of each row by its height in pixels."""
    viewbox: str
    window: str
    """Attributes of the rectangle around the terminal."""


def without_remote_fonts(svg: str) -> str:
    """Return a screenshot that loads nothing from elsewhere."""
    return REMOTE_FONTS.sub("", svg).replace("Fira Code, monospace", FONT)


def moving(frames: Sequence[Frame]) -> str:
    """Return one SVG that shows the frames in turn, for ever; the same frames give the same text."""
    styles = Styles()
    screens = [screen_of(frame.svg, styles) for frame in frames]
    groups: dict[tuple[float, str], list[int]] = {}
    for number, screen in enumerate(screens):
        for y, row in screen.rows.items():
            groups.setdefault((y, row), []).append(number)
    timeline = Timeline([frame.seconds for frame in frames])
    drawn = "\n".join(f"<g{timeline.shown_in(numbers)}>{row}</g>" for (_, row), numbers in sorted(groups.items()))
    last = screens[-1]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{last.viewbox}">\n<style>\n'
        f"text{{font:20px {FONT}}}\nrect{{shape-rendering:crispEdges}}\n"
        f"{styles.css()}\n{timeline.css()}\n</style>\n"
        f'<rect {last.window}/>{BUTTONS}\n<g transform="translate(9,41)">\n{drawn}\n</g>\n</svg>\n'
    )


class Styles:
    """Short class names for the styles of all frames: each screenshot numbers its own anew."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, style: str) -> str:
        return self._names.setdefault(style, f"s{len(self._names)}")

    def css(self) -> str:
        return "\n".join(f".{name}{{{style}}}" for style, name in self._names.items())


class Timeline:
    """When each group is visible."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._total_s = sum(seconds)
        self._starts = [sum(seconds[:number]) / self._total_s for number in range(len(seconds))]
        self._names: dict[tuple[int, ...], str] = {}

    def shown_in(self, numbers: Iterable[int]) -> str:
        """Return the attribute of a group that these frames have; what all of them have needs none."""
        visible = tuple(numbers)
        if len(visible) == len(self._starts):
            return ""
        return f' class="{self._names.setdefault(visible, f"t{len(self._names)}")}"'

    def css(self) -> str:
        rules = [self._rule(name, visible) for visible, name in self._names.items()]
        return "\n".join([*rules, "@media (prefers-reduced-motion:reduce){g{animation:none!important}}"])

    def _rule(self, name: str, visible: tuple[int, ...]) -> str:
        still = "visible" if len(self._starts) - 1 in visible else "hidden"
        steps, before = "", None
        for number, start in enumerate(self._starts):
            now = "visible" if number in visible else "hidden"
            if now != before:
                steps += f"{100 * start:.4g}%{{visibility:{now}}}"
            before = now
        steps += f"100%{{visibility:{before}}}"
        return (
            f".{name}{{visibility:{still};animation:{name} {self._total_s:g}s step-end infinite}}"
            f"@keyframes {name}{{{steps}}}"
        )


def screen_of(svg: str, styles: Styles) -> Screen:
    """Return the rows of a screenshot that Textual exported."""
    root = ET.fromstring(svg)
    css = dict(re.findall(r"\.([\w-]+-r\d+) \{ (.*?) \}", root.findtext(f"{SVG}style") or ""))
    window = root.find(f"{SVG}rect")
    *_, terminal = root.findall(f"{SVG}g")
    rows: dict[float, str] = {}
    for y, backgrounds in _by_row(terminal.iter(f"{SVG}rect"), 1.5):
        rows[y] = "".join(_merged(backgrounds))
    for y, texts in _by_row(terminal.iter(f"{SVG}text"), 20.0):
        rows[y] = rows.get(y, "") + "".join(_text(element, css, styles) for element in texts)
    return Screen(rows, root.attrib["viewBox"], " ".join(f'{name}="{value}"' for name, value in window.attrib.items()))


def _by_row(elements: Iterable[ET.Element], first: float) -> Iterable[tuple[float, list[ET.Element]]]:
    """Yield the elements of each row, by the number of pixels that it lies under the first one."""
    found: dict[float, list[ET.Element]] = {}
    for element in elements:
        found.setdefault(round(float(element.attrib["y"]) - first, 1), []).append(element)
    return found.items()


def _merged(rects: Sequence[ET.Element]) -> Iterable[str]:
    """Yield the backgrounds of a row, neighbours of one colour as one."""
    spans: list[list[Any]] = []
    for rect in rects:
        x, width, fill = float(rect.attrib["x"]), float(rect.attrib["width"]), rect.attrib["fill"]
        if spans and spans[-1][2] == fill and abs(spans[-1][0] + spans[-1][1] - x) < 0.05:
            spans[-1][1] += width
        else:
            spans.append([x, width, fill])
    y = rects[0].attrib["y"]
    for x, width, fill in spans:
        yield f'<rect x="{x:.5g}" y="{y}" width="{width:.5g}" height="24.65" fill="{fill}"/>'


def _text(element: ET.Element, css: dict[str, str], styles: Styles) -> str:
    words = element.text or ""
    if not words.strip("\xa0 \n"):
        return ""
    kind = styles.name(css[element.attrib["class"]].replace(": ", ":"))
    place = " ".join(f'{name}="{element.attrib[name]}"' for name in ("x", "y", "textLength"))
    return f'<text class="{kind}" {place}>{escape(words)}</text>'
