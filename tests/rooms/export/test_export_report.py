"""The HTML report is one file with its charts, loads nothing from the network, and escapes hostile text."""

import gzip
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.helpers.command_line import ROOT
from tests.helpers.runs import export_runs
from tests.helpers.runs.golden_runs import events_of
from textual.color import Color

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from cpugpu_tui.export.chart_looks import VARIABLES
from cpugpu_tui.export.formats import rendered
from cpugpu_tui.export.stream import exported
from cpugpu_tui.model import OwnCode
from cpugpu_tui.transport.agent_output import decode
from cpugpu_tui.ui.themes import contrast

LOADS = {"src", "href", "xlink:href", "data", "action", "poster", "srcset", "background"}


class Page(HTMLParser):
    """Content of a page: tags, resources it would load, text."""

    def __init__(self, text):
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in LOADS]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data):
        self.text += data


def html(*runs):
    return b"".join(rendered("html", runs)).decode()


@pytest.fixture(scope="module")
def hostile():
    name = f"{export_runs.HOSTILE}<img src=http://127.0.0.1:PORT/x onerror=alert(1)>"
    return html(export_runs.run(name=name, workload='"><svg onload=alert(1)>$x^2$'))


def test_a_hostile_name_stays_text(hostile):
    page = Page(hostile)
    assert export_runs.HOSTILE in page.text
    assert "$x^2$" in page.text
    assert not {"script", "img", "iframe", "object", "link", "base"} & set(page.tags)
    assert page.handlers == []


def test_nothing_is_loaded(hostile):
    assert all(target.startswith("#") for target in Page(hostile).loads)
    assert not re.findall(r"url\((?!#)", hostile)
    assert "@import" not in hostile
    assert "default-src 'none'" in hostile


def test_there_is_a_chart_for_each_sweep_and_a_table_with_every_case():
    page = Page(html(export_runs.run(), export_runs.run(run_id="20260102-bbbb")))
    assert page.tags.count("svg") == 2 * 2, "each for wide and for narrow pages"
    for text in ("EPYC · H200", "oom: Too big | for /home/zoe/x.", "20260102-bbbb", "n ≈ "):
        assert text in page.text


def test_curves_bracket_and_crossover_are_in_the_page():
    text = html(export_runs.run())
    for role in ("cpu", "gpu", "copies"):
        assert text.count(f"stroke: var(--{role})") >= 2, role
    for words in ("GPU wins from n ≈ 6", "with copies from n ≈ 2"):
        assert len(re.findall(rf"<text[^>]*>{words}", text)) == 2, words


def test_ids_in_the_page_are_unique():
    ids = re.findall(r'\bid="([^"]*)"', html(export_runs.run(), export_runs.run(run_id="20260102-bbbb")))
    assert len(ids) > 10
    assert len(set(ids)) == len(ids)


def test_the_parts_of_a_call_add_up():
    run = exported(events_of("usual"))
    text = html(run)
    bars = re.findall(r'<div>((?:<i class="[a-z-]+" style="width:[\d.]+%"></i>)+)</div>', text)
    assert len(bars) == 2 * len(run.state.rows), "with inputs on the GPU, and with copies"
    for bar in bars:
        assert sum(map(float, re.findall(r"width:([\d.]+)%", bar))) == pytest.approx(100, abs=0.05)
    assert "copy to the GPU" in text
    assert not [share for share in re.findall(r"<td>(\d+) %</td>", text) if int(share) > 100]


def test_machine_peak_rates_and_claims_are_shown():
    text = Page(html(exported(events_of("usual")))).text
    for words in (
        "State of the machine during the run",
        "20.0 TFLOP/s",
        "2.00 TB/s",
        "depends on size",
        "other claims",
    ):
        assert words in text


def test_typed_code_is_the_heading():
    first, *rest = export_runs.stream()
    typed = replace(first, plan=replace(first.plan, codes=(OwnCode("matmul", "x @ x < 3"),)))
    text = html(exported([typed, *rest]))
    assert "<h1>x @ x &lt; 3</h1>" in text
    assert "x @ x &lt; 3 float32, 16 CPU threads" in text


def _theme(style):
    return {name: Color.parse(colour) for name, colour in re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6});", style)}


def test_both_themes_have_every_colour_and_can_be_read():
    text = html(export_runs.run())
    light, dark = text.split("prefers-color-scheme: dark", 1)
    themes = _theme(light), _theme(dark)
    used = set(re.findall(r"var\(--([a-z0-9]+)\)", text))
    for theme in themes:
        assert used == theme.keys() & used
        for name in ("text", "muted"):
            assert contrast(theme[name], theme["page"]) >= 4.5, name
        for name in ("cpu", "gpu", "copies", "gpu2", "copies2", "other"):
            assert contrast(theme[name], theme["page"]) >= 3, name
    assert {name: colour.hex.lower() for colour, name in ((themes[0][name], name) for name in VARIABLES.values())} == {
        name: colour for colour, name in VARIABLES.items()
    }, "pictures have the colours of the light theme"
    assert "@media print" in text


class Tables(HTMLParser):
    """The tables of a page: class of each and of the `div` about it, and the cells of its rows."""

    def __init__(self, text):
        super().__init__()
        self.tables: list[tuple[str, list[list[str]]]] = []
        self._divs = [""]
        self._is_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        name = dict(attrs).get("class") or ""
        self._is_cell = tag in ("td", "th", "i") and bool(self.tables)
        if tag == "div":
            self._divs.append(name)
        elif tag == "table":
            self.tables.append((f"{self._divs[-1]} {name}", []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][1][-1].append("\n" if tag == "th" else "")

    def handle_endtag(self, tag):
        self._is_cell = self._is_cell and tag not in ("td", "th", "table")
        if tag == "div":
            self._divs.pop()

    def handle_data(self, data):
        if self._is_cell:
            self.tables[-1][1][-1][-1] += data


def test_the_tables_of_a_survey_fit_a_page_of_1000_pixels():
    """Judged by the style and 0.6 em a character, without a browser. A wider table would scroll inside the page."""
    lines = gzip.decompress((ROOT / "tests" / "golden" / "h200-survey.ndjson.gz").read_bytes()).splitlines()
    text = html(exported([event for line in lines if (event := decode(line)) is not None]))
    narrow = text.partition("@media screen and (max-width: 70rem)")[2].partition("@media")[0]
    assert "table { font-size: .85rem; }" in narrow
    assert "th, td { padding: .2rem .3rem; }" in narrow
    assert ".all th, .all td:first-child { white-space: normal;" in narrow
    tables = Tables(text).tables
    assert {"scroll all ", "scroll wrap", "scroll breakdown "} <= {name for name, _ in tables}
    for name, rows in tables:
        assert name.startswith("scroll"), "what is wider moves inside the page, not the page"
        columns = [[row[place] for row in rows if place < len(row)] for place in range(max(map(len, rows)))]
        width_px = 0.0
        for place, cells in enumerate(columns):
            wraps = "wrap" in name or ("all" in name and place in (0, len(columns) - 1))
            parts = (part for cell in cells for part in (cell.split() if wraps or "\n" in cell else [cell]))
            width_px += max(map(len, parts), default=0) * 0.6 * 0.85 * 16 + 0.6 * 16
        assert width_px <= 1000 - 2 * 30, name


def test_a_run_without_results_is_a_page_too():
    page = Page(html(export_runs.exported(export_runs.stream()[:2])))
    assert "interrupted" in page.text
    assert "svg" not in page.tags


def test_a_persons_own_style_and_backend_change_nothing(tmp_path, monkeypatch):
    """In a process of its own: matplotlib reads both while it is imported."""
    style = tmp_path / "matplotlibrc"
    style.write_text("text.usetex: True\nlines.linewidth: 9\naxes.facecolor: red\n")
    write = "import sys; from tests.helpers.runs import export_runs; "
    write += "from cpugpu_tui.export.formats import need, rendered; need('html'); "
    write += "sys.stdout.buffer.write(b''.join(rendered('html', [export_runs.run()])))"
    monkeypatch.setenv("MATPLOTLIBRC", str(style))
    monkeypatch.setenv("MPLBACKEND", "nonsense")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, "-c", write], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == (html(export_runs.run()), "")
