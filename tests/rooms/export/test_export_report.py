"""The HTML report is one file with its charts, loads nothing from the network, and escapes hostile text."""

import gzip
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

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

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in LOADS]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def html(*runs: export_runs.ExportedRun) -> str:
    return b"".join(rendered("html", runs)).decode()


@pytest.fixture(scope="module")
def hostile() -> str:
    name = f"{export_runs.HOSTILE}<img src=http://127.0.0.1:PORT/x onerror=alert(1)>"
    return html(export_runs.run(name=name, workload='"><svg onload=alert(1)>$x^2$'))


def test_a_hostile_name_stays_text(hostile: str) -> None:
    page = Page(hostile)
    assert export_runs.HOSTILE in page.text
    assert "$x^2$" in page.text
    assert not {"script", "img", "iframe", "object", "link", "base"} & set(page.tags)
    assert page.handlers == []


def test_there_is_a_chart_for_each_sweep_and_a_table_with_every_case() -> None:
    page = Page(html(export_runs.run(), export_runs.run(run_id="20260102-bbbb")))
    assert page.tags.count("svg") == 2 * 2, "each for wide and for narrow pages"
    for text in ("EPYC · H200", "oom: Too big | for /home/zoe/x.", "20260102-bbbb", "n ≈ "):
        assert text in page.text


def test_curves_bracket_and_crossover_are_in_the_page() -> None:
    text = html(export_runs.run())
    for role in ("cpu", "gpu", "copies"):
        assert text.count(f"stroke: var(--{role})") >= 2, role
    for words in ("GPU wins from n ≈ 6", "with copies from n ≈ 2"):
        assert len(re.findall(rf"<text[^>]*>{words}", text)) == 2, words


def test_ids_in_the_page_are_unique() -> None:
    ids = re.findall(r'\bid="([^"]*)"', html(export_runs.run(), export_runs.run(run_id="20260102-bbbb")))
    assert len(ids) > 10
    assert len(set(ids)) == len(ids)


def test_the_parts_of_a_call_add_up() -> None:
    run = exported(events_of("usual"))
    text = html(run)
    bars = re.findall(r'<div>((?:<i class="[a-z-]+" style="width:[\d.]+%"></i>)+)</div>', text)
    assert len(bars) == 2 * len(run.state.rows), "with inputs on the GPU, and with copies"
    for bar in bars:
        assert sum(map(float, re.findall(r"width:([\d.]+)%", bar))) == pytest.approx(100, abs=0.05)
    assert "copy to the GPU" in text
    assert not [share for share in re.findall(r"<td>(\d+) %</td>", text) if int(share) > 100]


def test_machine_peak_rates_and_claims_are_shown() -> None:
    text = Page(html(exported(events_of("usual")))).text
    for words in (
        "State of the machine during the run",
        "20.0 TFLOP/s",
        "2.00 TB/s",
        "depends on size",
        "other claims",
    ):
        assert words in text


def test_typed_code_is_the_heading() -> None:
    first, *rest = export_runs.stream()
    typed = replace(first, plan=replace(first.plan, codes=(OwnCode("matmul", "x @ x < 3"),)))
    text = html(exported([typed, *rest]))
    assert "<h1>x @ x &lt; 3</h1>" in text
    assert "x @ x &lt; 3 float32, 16 CPU threads" in text


def _theme(style: str) -> dict[str, Color]:
    return {name: Color.parse(colour) for name, colour in re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6});", style)}


def test_both_themes_have_every_colour_and_can_be_read() -> None:
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

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[tuple[str, list[list[str]]]] = []
        self._divs = [""]
        self._is_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
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

    def handle_endtag(self, tag: str) -> None:
        self._is_cell = self._is_cell and tag not in ("td", "th", "table")
        if tag == "div":
            self._divs.pop()

    def handle_data(self, data: str) -> None:
        if self._is_cell:
            self.tables[-1][1][-1][-1] += data


def test_the_tables_of_a_survey_fit_a_page_of_1000_pixels() -> None:
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


def test_a_run_without_results_is_a_page_too() -> None:
    page = Page(html(export_runs.exported(export_runs.stream()[:2])))
    assert "unfinished" in page.text
    assert "svg" not in page.tags


def test_a_persons_own_style_and_backend_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# ------------------------------------------------------------------ in a browser


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A proxy that records requests and answers 404."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_CONNECT = do_GET

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], asked
        server.shutdown()


def browse(page: Path, port: int, picture: Path) -> str:
    """Open a page in headless Chromium, all its requests through the proxy; return its DOM."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium here")
    common = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-default-apps", "--window-size=1000,1400",
        f"--proxy-server=127.0.0.1:{port}", "--proxy-bypass-list=<-loopback>", f"--user-data-dir={picture.parent}/me",
    ]  # fmt: skip
    done = subprocess.run([*common, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120)
    if done.returncode != 0 or "<body" not in done.stdout:
        pytest.skip(f"Chromium does not start here: {done.stderr.strip()[-200:]}")
    subprocess.run([*common, f"--screenshot={picture}", page.as_uri()], capture_output=True, timeout=120, check=True)
    return done.stdout


def test_a_browser_shows_the_charts_and_asks_nobody(
    hostile: str, tmp_path: Path, listener: tuple[int, list[str]]
) -> None:
    port, asked = listener
    page, picture = tmp_path / "report.html", tmp_path / "page.png"
    page.write_text(hostile.replace("PORT", str(port)), encoding="utf-8")
    dom = browse(page, port, picture)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in dom
    assert not [target for target in asked if "127.0.0.1" in target]
    from PIL import Image

    with Image.open(picture) as image:
        colours = image.convert("RGB").getcolors(1 << 24) or []
    drawn = {colour: count for count, colour in colours}
    assert drawn.get((0x1F, 0x5F, 0xA8), 0) > 50, "the CPU's line is not to be seen"
    assert drawn.get((0xC0, 0x53, 0x0A), 0) > 50, "the GPU's line is not to be seen"


def test_the_listener_would_have_heard_a_request(tmp_path: Path, listener: tuple[int, list[str]]) -> None:
    """The test above proves something only if this one passes."""
    port, asked = listener
    page = tmp_path / "loud.html"
    page.write_text(f'<body><img src="http://127.0.0.1:{port}/x.png">', encoding="utf-8")
    browse(page, port, tmp_path / "page.png")
    assert [target for target in asked if "x.png" in target]
