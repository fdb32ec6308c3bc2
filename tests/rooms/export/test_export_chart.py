"""Pictures of the charts: what is drawn, well-formed SVG, PNG for a slide, hostile names as text."""

import re
import struct
import sys
import warnings
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.helpers.app.several_gpus import run_of
from tests.helpers.runs import export_runs

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from cpugpu_tui.cli.export import STDOUT, _check
from cpugpu_tui.config.installing import install_command
from cpugpu_tui.errors import EXIT_UNFIT, UnfitError, UsageError
from cpugpu_tui.export import chart as chart_module
from cpugpu_tui.export.chart import MOST_PANELS, SLIDE, draw, inline_svg, picture
from cpugpu_tui.model import Case
from cpugpu_tui.render.curves import SurveyBar, SurveyChart, charts
from cpugpu_tui.report import bars
from cpugpu_tui.report.bars import Part

TEXT_LIMIT, PNG_LIMIT = 200_000, 600_000
"""Bytes of a picture of one chart; one of 12 sizes takes half of them."""


def pictured(name, *runs):
    return b"".join(picture(runs, name))


def axes_of(state, **options):
    axes = Figure().add_subplot()
    ((_, chart), *_) = charts(state)
    draw(axes, chart, **options)
    return axes


def named_lines(axes):
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}


def texts_of(axes):
    return [text.get_text() for text in axes.texts]


# ------------------------------------------------------------------ what is drawn


def test_each_curve_has_its_medians_and_differs_in_colour_mark_and_dash():
    lines = named_lines(axes_of(export_runs.run().state))
    assert list(lines) == ["CPU", "GPU", "GPU with copies"]
    assert [len({look(line) for line in lines.values()}) for look in
            (lambda line: line.get_color(), lambda line: line.get_marker(), lambda line: line.get_linestyle())
            ] == [3, 3, 3]  # fmt: skip
    sizes, seconds = lines["GPU"].get_data()
    assert list(sizes) == [16, 64, 256], "the size that failed has no point"
    assert seconds[1] == pytest.approx((12_000 + 0.0008 * 64**3) / 1e9)


def test_both_crossovers_are_shaded_from_end_to_end_and_named():
    axes = axes_of(export_runs.run(sizes=(16, 50, 80, 200, 250, 1024)).state)  # type: ignore[arg-type]
    assert [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches] == [(50, 80), (200, 250)]
    resident, copies = texts_of(axes)
    assert re.fullmatch(r"GPU wins from n ≈ 6\d(\.\d)? \(50–80\)", resident)
    assert re.fullmatch(r"with copies from n ≈ 22\d(\.\d)? \(200–250\)", copies)


def test_the_axes_have_sizes_and_times_with_units():
    axes = axes_of(export_runs.run().state)
    assert [axes.xaxis.get_major_formatter()(x) for x in axes.get_xticks()] == ["16", "64", "100", "256"]
    low, high = axes.get_ylim()
    ticks = [axes.yaxis.get_major_formatter()(y) for y in axes.get_yticks() if low <= y <= high]
    assert {"1 µs", "10 µs", "100 µs"} <= set(ticks)


def test_one_size_is_drawn_as_bars_with_their_times():
    axes = axes_of(export_runs.run(sizes=(64, 128)).state)  # type: ignore[arg-type]
    assert [patch.get_width() for patch in axes.patches] == pytest.approx([11.49e-6, 12.21e-6, 72.77e-6], rel=0.01)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["CPU", "GPU", "GPU with copies"]
    assert texts_of(axes) == ["11.5 µs", "12.2 µs", "72.8 µs"]


def test_of_eight_gpus_each_model_has_a_curve_with_marks_and_the_others_thin_lines():
    axes = axes_of(run_of(8, cases=(Case("matmul", 64), Case("matmul", 256), Case("matmul", 1024))))
    lines = named_lines(axes)
    assert list(lines) == ["CPU", "cuda:0", "cuda:7", "cuda:1 to cuda:6 (thin)"]
    assert len([line for line in axes.get_lines() if line.get_linewidth() < 1]) == 6
    assert lines["cuda:0"].get_color() != lines["cuda:7"].get_color()


def test_a_single_cpu_thread_has_a_curve_of_its_own_and_no_second_chart():
    both = tuple(Case("matmul", size, threads=threads) for size in (64, 256) for threads in (0, 1))
    ((_, chart),) = charts(run_of(1, cases=both))
    assert "one CPU thread" in [curve.label for curve in chart.curves]


# ------------------------------------------------------------------ files


def test_the_svg_is_well_formed_small_and_asks_nobody():
    text = pictured("svg", export_runs.run()).decode()
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not {"script", "image", "foreignObject"} & {each.tag.rpartition("}")[2] for each in root.iter()}
    targets = [value for each in root.iter() for key, value in each.attrib.items() if key.endswith("href")]
    assert all(target.startswith("#") for target in targets)
    assert not re.findall(r"url\((?!#)", text)
    assert "DOCTYPE" not in text
    assert len(text) < TEXT_LIMIT


def test_the_png_has_the_size_of_a_slide():
    data = pictured("png", export_runs.run())
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1920, 1080)
    assert len(data) < PNG_LIMIT


def test_a_hostile_name_is_drawn_as_text():
    run = export_runs.run(name=export_runs.HOSTILE, workload='--><script>$x^2$ \x1b[31m漢 " & ' + "long" * 99)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # about letters that the font lacks
        for name in ("svg", "png"):
            assert len(pictured(name, run)) < PNG_LIMIT
    tags = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(pictured("svg", run)).iter()}
    assert "script" not in tags
    ((_, chart),) = charts(run.state)
    page = ElementTree.fromstring(inline_svg(chart, "salt"))
    assert "script" not in {each.tag.rpartition("}")[2] for each in page.iter()}


@pytest.mark.parametrize("length", [4, 40, 200])
@pytest.mark.parametrize("is_narrow", [False, True])
def test_no_text_of_a_survey_is_cut_at_any_length_of_a_name(length, is_narrow):
    words = "from ≈ 1,500 numbers to 100,000, with copies from ≈ 2,400 to 100,000"
    bar = SurveyBar("w" * length, (1, 4_000_000), (Part(0.0, 1.0, bars.CPU),), words)
    figure = Figure(figsize=SLIDE, layout="constrained")
    axes: Any = figure.add_subplot()
    chart = SurveyChart("survey", (bar, bar._replace(name="short")), (f"{30 * words}.",))
    draw(axes, chart, is_narrow=is_narrow)
    figure.draw_without_rendering()
    texts = [*axes.texts, *axes.get_yticklabels()]
    ends = [(text.get_window_extent().x0, text.get_window_extent().x1) for text in texts]
    assert min(start for start, _ in ends) >= 0
    assert max(end for _, end in ends) <= figure.bbox.width
    assert any(text.get_text().endswith(words) for text in texts) is not is_narrow
    chart_module._entitle(axes, "survey", chart)
    assert "".join(chart.sentences[0].split()) in {"".join(text.split()) for text in texts_of(axes)}


def test_each_sweep_and_run_has_a_panel():
    runs = [export_runs.run(), export_runs.run(run_id="20260102-bbbb"), export_runs.run(run_id="20260103-cccc")]
    width, height = struct.unpack(">II", pictured("png", *runs)[16:24])
    assert (width, height) == (2 * 1920, 2 * 1080)


def test_nothing_to_draw_and_too_much_are_said():
    with pytest.raises(UsageError, match="no case of this run has a time"):
        pictured("svg", export_runs.exported(export_runs.stream()[:2]))
    with pytest.raises(UsageError, match=str(MOST_PANELS)):
        pictured("svg", *(export_runs.run(run_id=f"20260101-{index:04}") for index in range(MOST_PANELS + 1)))


# ------------------------------------------------------------------ the command


def test_without_matplotlib_the_command_names_the_extra(cpugpu, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UnfitError, match="matplotlib"):
        chart_module.need()
    done = cpugpu.here("export", "-o", f"{tmp_path}/x.png", code=EXIT_UNFIT)
    assert install_command("plot") in done.err


def test_a_png_is_not_written_into_a_terminal(monkeypatch):
    _check("png", STDOUT)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _check("svg", STDOUT)
    with pytest.raises(UsageError, match="PNG"):
        _check("png", STDOUT)
