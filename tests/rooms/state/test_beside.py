"""A CPU beside a recorded GPU: what faces show, and that no recorded time becomes a measured one."""

from __future__ import annotations

import gzip
import json
import math
import random
import sqlite3
from contextlib import closing

import msgspec
import pytest
from tests.helpers.command_line import CommandLine
from tests.helpers.runs.references import gpu_ns, reference

import cpugpu_tui
from cpugpu_tui import model
from cpugpu_tui.compare.claims import points_of
from cpugpu_tui.decide.starts import starts_interval
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import compare_apart
from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.export.stream import exported
from cpugpu_tui.export.tensorboard import points
from cpugpu_tui.export.thresholds import thresholds_of
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.state.folding import folded, measured_state
from cpugpu_tui.state.recorded_gpu import INTERPOLATED, RECORDED, Curve, with_recorded
from cpugpu_tui.state.reference import MOST_BYTES, by_hash, packed, read, shipped


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "gpu.json.gz"
    path.write_bytes(packed(reference()))
    return path


@pytest.fixture(scope="module")
def history(tmp_path_factory, file):
    """A history whose run 1 stands beside the reference, and whose run 2 is the same without it."""
    command = CommandLine(tmp_path_factory.mktemp("beside") / "history.db")
    sizes = ("run", "matmul", "--size", "16,100,300,1000", "--simulate", "drift=0")
    assert command(*sizes, "--beside", file).code == 0
    assert command(*sizes, "--device", "cpu").code == 0
    return command


@pytest.fixture
def joined(history):
    found = with_recorded(folded(history("show", "1", "--json").events))
    assert found.gpu is not None
    return found


# ------------------------------------------------------------------ what is shown


def test_the_first_words_say_what_was_measured_and_what_recorded(history):
    out = history("show", "1").out
    assert "Your CPU against a recorded server (H200, 16-core Xeon, torch 2.11): The GPU wins from n ≈" in out
    rows = [line for line in out.splitlines() if line.strip().startswith(("16 ", "100 ", "300 ", "1,000 "))]
    assert len(rows) == 4
    assert all(line.rstrip().endswith("recorded") for line in rows)
    assert "Xeon, torch 2.11) · matmul, float32 · here: simulated CPU" in out
    assert "CPU, here  GPU, recorded" in out
    assert "recorded" not in history("show", "2").out
    plain, beside = history("history", COLUMNS="200").out.splitlines()[3:5]
    assert ("recorded" in plain, "recorded" in beside) == (False, True), "newest first"


def test_each_row_says_that_it_is_interpolated_or_not_recorded_and_a_line_which_sizes_are(cpugpu, file):
    sizes = ("run", "matmul", "--size", "1500,1700,1900,4096", "--simulate", "drift=0")
    lines = cpugpu.here(*sizes, "--beside", file).out.splitlines()
    rows = [line.strip() for line in lines if line.strip().startswith(("1,500 ", "1,700 ", "1,900 ", "4,096 "))]
    assert [row.endswith("recorded, interpolated") for row in rows] == [True, True, True, False]
    assert rows[3].endswith("  not-recorded")
    (told,) = (line for line in lines if line.startswith("not-recorded in 1 of 4 timed rows"))
    assert told.endswith("--size 2048.")


def test_speedup_is_the_quotient_and_its_interval_holds_both_devices(joined):
    (row,) = (row for row in joined.rows.values() if row.case.size == 300)
    found = row.own_comparison
    assert found.speedup == pytest.approx((row.cpu.latency_ns or 0) / gpu_ns(300), rel=0.01)
    assert found.speedup / found.low == pytest.approx(math.exp(4.30 * 0.03 / math.sqrt(3)), rel=0.01)


def test_unpaired_intervals_hold_the_truth_in_at_least_95_of_100_cases():
    draw, hits = random.Random(4), 0
    for _ in range(400):
        cpu, gpu = (
            [{index: center * math.exp(start + draw.gauss(0, 0.01)) for index in range(1, 6)}
             for start in (draw.gauss(0, 0.06) for _ in range(count))]
            for center, count in ((1e6, 5), (1e5, 3))
        )  # fmt: skip
        found = compare_apart(cpu, gpu)
        hits += found.low <= 10 <= found.high
    assert hits >= 380


def test_a_size_between_two_is_taken_only_where_the_curve_is_known_to_be_straight():
    smooth, stepped = Curve(reference().cases), Curve(reference(jump=500).cases)
    found = smooth.at(1700)
    assert (found.latency_ns, found.marks) == (pytest.approx(gpu_ns(1700), rel=0.03), (RECORDED, INTERPOLATED))
    assert stepped.at(600) is None  # the step lies here
    assert stepped.at(1700) is not None
    exact, outside = smooth.at(1000), smooth.at(4096)
    assert exact.marks == (RECORDED,)
    assert outside is None


def test_of_the_shipped_references_sizes_that_are_left_out_are_found_within_the_interval():
    for name, data in shipped().items():
        sweeps = {}
        for case in read(data, name).cases:
            sweeps.setdefault(case.sweep, []).append(case)
        hits = []
        for cases in sweeps.values():
            for case in sorted(cases, key=lambda case: case.size)[1:-1]:
                found = Curve([other for other in cases if other is not case]).at(case.size)
                if found is not None:
                    ends = [(low.low, low.high) for low in map(starts_interval, (logs(case.starts), logs_of(found)))]
                    middles = [(low + high) / 2 for low, high in ends]
                    hits.append(abs(middles[0] - middles[1]) <= math.hypot(*((high - low) / 2 for low, high in ends)))
        assert len(hits) > 100
        assert sum(hits) >= 0.9 * len(hits)


def logs(starts):
    return [math.log(median(start["latency"])) for start in starts]


def logs_of(times):
    return [
        math.log(median(list(rounds.values())))
        for rounds in (times.round_ns, *(e["latency"] for e in times.later.values()))
    ]


# ------------------------------------------------------------------ what outlasts a face


def test_a_saved_run_holds_its_hash_and_none_of_its_times(history, file):
    events = history("show", "1", "--json").events
    assert {event.device for event in events if isinstance(event, model.DeviceSampled)} == {"cpu"}
    (started,) = (event for event in events if isinstance(event, model.RunStarted))
    assert len(started.plan.beside) == 64
    assert str(file) not in history("export", "1", "--format", "csv").out


def test_claims_comparisons_and_thresholds_see_what_was_measured_alone(history, joined, tmp_path):
    plain = folded(history("show", "1", "--json").events)
    assert points_of(joined) == points_of(plain)
    mine, others = measured_state(joined), measured_state(plain)
    assert (mine.cases, mine.facts) == (others.cases, others.facts)
    with pytest.raises(UnfitError):
        thresholds_of(joined)
    history("thresholds", "make", "--run", "1", "--out", tmp_path / "x.json", code=UnfitError.exit_code)
    history("export", "1", "--out", tmp_path / "thresholds.json", code=UnfitError.exit_code)
    assert "recorded" not in history("claims", "--simulate", "default").out


def test_a_baseline_and_a_comparison_hold_the_cpu_alone(history):
    compared = history("compare", "1", "2", "--json", code=0)
    assert RECORDED not in compared.out.replace("--beside", "")
    assert '"cpu"' in compared.out.lower()


@pytest.mark.parametrize("kind", ["json", "csv", "markdown", "html"])
def test_every_export_of_results_carries_the_mark(history, kind):
    assert RECORDED in history("export", "1", "--format", kind).out
    assert RECORDED not in history("export", "2", "--format", kind).out


def test_the_events_of_an_export_bring_no_recorded_time_into_another_history(history, tmp_path):
    path = tmp_path / "run.json"
    assert history("export", "1", "--out", path).code == 0
    other = CommandLine(tmp_path / "other.db")
    assert other("import", path).code == 0
    devices = {each.device for each in other("show", "1", "--json").events if isinstance(each, model.DeviceSampled)}
    assert devices == {"cpu"}


def test_charts_and_tensorboard_name_the_gpu_recorded(history, tmp_path):
    assert history("export", "1", "--out", tmp_path / "x.svg").code == 0
    svg = (tmp_path / "x.svg").read_text()
    assert "<!-- recorded GPU -->" in svg
    assert "<!-- GPU -->" not in svg
    (exported_run,) = [exported(history("show", "1", "--json").events)]
    found = {point.series for row in exported_run.state.rows.values() for point in points(exported_run.state, row, 1)}
    assert found == {"CPU", "recorded GPU"}


def test_exported_extremes_of_a_recorded_gpu_are_of_all_its_starts_as_the_median_is(history):
    document = json.loads(history("export", "1", "--format", "json").out)
    found = [case["devices"][RECORDED]["metrics"] for run in document["runs"] for case in run["results"]]
    assert found
    for metric in (each for metrics in found for each in metrics.values()):
        assert metric["samples"] == 15, "three starts of five rounds"
        assert metric["min_ns"] / metric["median_ns"] == pytest.approx(0.97, abs=2e-3)
        assert metric["max_ns"] / metric["median_ns"] == pytest.approx(1.03, abs=2e-3)


def test_what_lists_or_streams_runs_has_no_recorded_time(history):
    for words in (("history",), ("history", "--json"), ("export", "1", "--format", "ndjson")):
        assert RECORDED not in history(*words).out.replace("beside a recorded GPU", ""), words
    assert history("baseline", "mine", "1").code == 0
    judged = history("compare", "mine", "2", "--json")
    assert RECORDED not in judged.out
    with closing(sqlite3.connect(history.database)) as database:
        for query in ("SELECT device FROM measurement", "SELECT name FROM device"):
            assert {row[0] for row in database.execute(query)} == {"cpu"}


def test_python_gets_what_show_prints_with_the_mark_in_each_row(history, joined, monkeypatch):
    """The table stood beside the GPU, and the answer was that this machine has no recorded one."""
    for name, value in history.environment().items():
        monkeypatch.setenv(name, value)
    by_hash.cache_clear()
    found = cpugpu_tui.load(1, history.database)
    assert "Your CPU against a recorded server" in str(found)
    assert found.answer.endswith(" ".join(answer_lines(joined)))
    assert found.bracket is not None
    assert all(RECORDED in record["marks"] for record in found.records() if record["gpu_ns"] or record["speedup"])


def test_without_its_file_a_run_is_one_of_the_cpu(history, monkeypatch):
    monkeypatch.setattr("cpugpu_tui.state.reference.by_hash", lambda digest: None)
    state = exported(history("show", "1", "--json").events).state
    assert state.gpu is None
    assert answer_lines(state) == ("CPU only: the recorded GPU of this run is not on this machine.",)


def test_a_run_without_a_gpu_ends_with_the_command_that_sets_it_beside_one(cpugpu):
    simulate = ("--simulate", "gpus=0,drift=0")
    *_, last = cpugpu.here("run", "matmul", "--size", "16", *simulate).out.splitlines()
    assert last.startswith("Beside a recorded GPU: cpugpu-tui run matmul --size 16 ")
    assert last.endswith(" --beside h100")
    assert "Beside" not in cpugpu.here("run", "cnn", "--size", "1", *simulate).out  # nobody recorded it
    assert "Beside" not in cpugpu.here("run", "matmul", "--size", "16", "--device", "cpu", *simulate).out


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("words", "cause", "remedy"),
    [
        (("run", "cnn"), "no recorded times of cnn", "choose from: matmul"),
        (("run", "matmul", "--dtype", "bf16"), "matmul in bfloat16", "It has float32."),
        (("run", "matmul", "--device", "cuda"), "only the CPU is timed here", "machine --beside"),
    ],
)
def test_what_was_not_recorded_is_refused(cpugpu, file, words, cause, remedy):
    refused = cpugpu.here(*words, "--beside", file, "--simulate", "default", code=UsageError.exit_code)
    assert cause in refused.err
    assert remedy in refused.err


def changed(change):
    """Return a file in which somebody changed a value."""
    found = msgspec.json.decode(msgspec.json.encode(reference()))
    change(found)
    return gzip.compress(msgspec.json.encode(found))


def with_first_time(value):
    """Return a file whose first time is written so."""
    return gzip.compress(msgspec.json.encode(reference()).replace(b'"latency":[', b'"latency":[' + value + b",", 1))


def set_time(value):
    return lambda found: found["cases"][0][4][0]["latency"].__setitem__(0, value)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "not a reference"),
        (b"notes", "not a reference"),
        (packed(reference())[:200], "damaged"),
        (changed(lambda found: found.update(schema=2)), "schema 2"),
        (changed(lambda found: found.update(kind="else")), "not a reference"),
        (changed(lambda found: found.update(host="x" * MOST_BYTES)), "larger than 1 MB"),
        (changed(lambda found: found.update(cores=0)), "impossible number of cores"),
        (changed(lambda found: found["cases"].append(found["cases"][0])), "one is in it twice"),
        (changed(lambda found: found["cases"][0].__setitem__(4, [])), "impossible number of starts"),
        (changed(lambda found: found["cases"][0].__setitem__(2, 0)), "impossible size"),
        (changed(lambda found: found["cases"][0].__setitem__(0, "\x1b[31mmatmul")), "impossible name of work"),
        (changed(lambda found: found["cases"][0].__setitem__(1, "x" * 5_000)), "impossible name of work"),
        (changed(lambda found: found.update(gpu="\x1b\n ")), "impossible name of a GPU"),
        (changed(lambda found: found.update(gpu=7)), "not a reference: Expected `str`"),
        (changed(lambda found: found.update(readings={"pcie_width": -1.0})), "impossible reading"),
        (changed(lambda found: found.update(readings={"\x1b[31m": 1.0})), "impossible name of a reading"),
        (gzip.compress(b"0" * 100_000_000), "larger than 1 MB"),
        (gzip.compress(b'{"x":' + b"[" * 400_000), "not a reference"),
        (with_first_time(b"NaN"), "not a reference"),
        (with_first_time(b"1e999"), "not a reference"),
        (with_first_time(b"9" * 5_000), "not a reference"),
        (packed(reference()) + b"notes", "damaged"),
        (changed(set_time(-1.0)), "impossible time"),
        (changed(set_time(1e300)), "impossible time"),
        (changed(set_time("fast")), "not a reference: Expected `float`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "file",  # packed bytes differ between workers
)
def test_a_wrong_file_is_refused_in_a_sentence_of_cause_and_one_of_remedy(data, cause):
    with pytest.raises(UsageError) as refused:
        read(data, "gpu.json.gz")
    assert cause in refused.value.message
    assert refused.value.message.startswith("gpu.json.gz")
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 200
    assert refused.value.remedy
