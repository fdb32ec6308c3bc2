"""CSV and Markdown hold all numbers unrounded, and no text becomes a formula or markup."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.runs import export_runs

from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.formats import SUFFIXES, rendered, required_format_of
from cpugpu_tui.export.stream import exported
from cpugpu_tui.export.target import check_file, write
from cpugpu_tui.model import Calibrated


def table(*runs, samples=False):
    text = b"".join(rendered("csv", runs, samples=samples)).decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_a_row_for_each_case_device_and_metric():
    rows = table(export_runs.run())
    keys = [(row["size"], row["device"], row["metric"]) for row in rows]
    assert keys[:4] == [
        ("16", "cpu", "latency"),
        ("16", "cuda:0", "latency"),
        ("16", "cuda:0", "end_to_end_pageable"),
        ("16", "cuda:0", "device"),
    ]
    assert len(rows) == 3 * 5 + 1
    gpu = next(row for row in rows if (row["size"], row["device"], row["metric"]) == ("256", "cuda:0", "latency"))
    assert (gpu["device_label"], gpu["verdict"]) == ("H200", "GPU")
    assert float(gpu["speedup_low"]) < float(gpu["speedup"]) < float(gpu["speedup_high"])
    assert gpu["median_ns"] == repr(12_000 + 0.0008 * 256**3)


def test_a_failed_case_has_its_reason_and_no_number():
    row = table(export_runs.run())[-1]
    assert (row["size"], row["status"]) == ("1024", "oom")
    assert row["message"] == "Too big | for /home/zoe/x."
    assert (row["median_ns"], row["speedup"], row["flops"], row["device"]) == ("", "", "", "")


@pytest.mark.parametrize(("is_running", "word"), [(False, "interrupted"), (True, "running")])
def test_a_run_without_an_end_has_the_word_of_the_history(is_running, word):
    cut = exported(export_runs.stream()[:-2], is_running=is_running)
    assert f"UTC, {word}," in b"".join(rendered("markdown", [cut])).decode()
    assert table(cut)[-1]["status"] == word


def test_csv_has_every_sample_when_asked():
    run = export_runs.run()
    rows = table(run, samples=True)
    said = [(row["device"], row["metric"], row["round_index"], float(row["elapsed_ns"])) for row in rows]
    assert said == [
        (half.device, metric, str(half.round_index), value)
        for half in export_runs.half_rounds(run)
        for metric, values in half.samples.items()
        for value in values
    ]
    assert len(said) == 3 * 8 * 5


def test_no_cell_is_a_formula():
    (row, *_) = table(export_runs.run(name='=HYPERLINK("http://evil")', workload="@sum"))
    assert (row["name"], row["workload"]) == ('\'=HYPERLINK("http://evil")', "'@sum")


def test_markdown_is_a_table_with_the_answer():
    text = b"".join(rendered("markdown", [export_runs.run()])).decode()
    lines = text.splitlines()
    assert lines[0] == "## matmul"
    assert [line for line in lines if "EPYC · H200" in line and "2.13.0" in line]
    assert [line for line in lines if "2026-01-01 00:00:00 UTC" in line and "`20260101-aaaa`" in line]
    head = next(index for index, line in enumerate(lines) if line.startswith("| size"))
    assert lines[head + 1].startswith("| ---: | ---: |")
    assert lines[head + 2].startswith("| 16 | 1.16 µs | 12.0 µs |")
    assert "Too big \\| for /home/zoe/x." in lines[head + 5]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines[head : head + 6]} == {12}
    assert any(line.startswith("- ") and "n ≈ " in line for line in lines)


@pytest.mark.parametrize("name", ["markdown", pytest.param("html", marks=pytest.mark.slow)])
def test_what_is_unusual_of_a_run_stands_above_its_table_and_in_its_rows(name):
    events = export_runs.stream()
    started = events[0]
    environment = {**started.environment, "worker": "thread", "tf32_matmul": True, "affinity_cores": 1}
    events[0] = replace(started, environment=environment, plan=replace(started.plan, cache="warm", scale="small"))
    unsettled = [replace(event, stable=False) if isinstance(event, Calibrated) else event for event in events]
    page = b"".join(rendered(name, [exported(unsettled)])).decode()
    for words in ("worker: thread", "TF32 on", "caches warm", "Small scale", "unsettled start"):
        assert words in page
    assert page.count("unsettled start") == 3 + 1, "in the rows with times, and once in words"


def test_markdown_shows_a_hostile_name_as_text():
    text = b"".join(rendered("markdown", [export_runs.run(name="<img src=x>[a](b)\n# x", workload="*a*|b")])).decode()
    assert text.splitlines()[0] == "## &lt;img src=x&gt;\\[a\\](b) \\# x"
    assert "<img" not in text


@pytest.mark.parametrize("name", SUFFIXES)
def test_an_export_of_ours_may_be_replaced(name, tmp_path):
    """Files of others are refused, and a nightly export must find its own again."""
    path = tmp_path / "export"
    write(path, rendered(name, [export_runs.run()]))
    check_file(path)


def test_a_name_says_its_format():
    endings = (".json", ".NDJSON", ".jsonl", ".csv", ".md", ".html")
    assert [required_format_of(Path(f"x{end}")) for end in endings] == [
        "json", "ndjson", "ndjson", "csv", "markdown", "html",
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"x\.txt"):
        required_format_of(Path("x.txt"))
