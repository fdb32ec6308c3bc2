"""All faces of a run say the same: of simulated machines, the demo, a survey of an H200, and old files."""

import csv
import gzip
import io
import math
import re
import shutil
from collections import defaultdict
from contextlib import closing
from operator import itemgetter
from pathlib import Path

import pytest
from tests.helpers.command_line import ROOT
from tests.helpers.runs.drawn_machines import drawn
from tests.helpers.runs.recorder import state_of

from cpugpu_tui.analysis.costs import NO_LAUNCH, RESIDENT, WHAT_IFS
from cpugpu_tui.decide.comparison import OBSERVED_RATIO
from cpugpu_tui.demo.recording import shipped
from cpugpu_tui.export.formats import csv_table
from cpugpu_tui.export.stream import ExportedRun, case_results
from cpugpu_tui.export.threshold_ranges import ranges_of
from cpugpu_tui.model.quantities import faster, percent, size_text, time_text
from cpugpu_tui.render.answers import answers, as_data, condition_data
from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.render.crossover_words import bracket_text, interval_text, is_wide, point_size, speedup_text, who_wins
from cpugpu_tui.report import bars
from cpugpu_tui.report.report import judged, report
from cpugpu_tui.report.segments import CPU, GPU, UNKNOWN
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import Store, schema
from cpugpu_tui.transport.agent_output import decode
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.chart.drawing import chart_lines
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.panes.lines import plain

GOLDEN = ROOT / "tests" / "golden"


def exported(name):
    """The state of a run in a file of events."""
    data = (GOLDEN / name).read_bytes()
    lines = (gzip.decompress(data) if name.endswith(".gz") else data).splitlines()
    return folded(event for line in lines if (event := decode(line)) is not None)


def simulated(seed):
    """A search on a machine that is drawn at random."""
    _, plan, _, recorder = drawn(seed)
    return state_of(plan, recorder)


RUNS = {
    "survey of an H200": lambda: [exported("h200-survey.ndjson.gz")],
    "demo": lambda: [run.state for run in shipped().runs],
    "version 0.1": lambda: [exported("0.1/run.ndjson")],
    "simulated": lambda: [simulated(seed) for seed in range(14)],
}


@pytest.fixture(params=RUNS, scope="module")
def runs(request):
    found: list[RunState] = RUNS[request.param]()
    return found


def decided(run, key=RESIDENT):
    """Yield the sizes of a run that were timed, with their rows."""
    for sweep in report(run).sweeps:
        for row in sweep.rows:
            size = sweep.under(key).at(row)
            if size is not None and size.is_timed:
                yield sweep, row, size


# ------------------------------------------------------------------ one winner


def test_a_size_has_the_same_winner_in_every_face(runs):
    for run in runs:
        leads = {each.case: each for each in case_results(run)}
        told = {(each["sweep"], each["gpu"]): each for each in as_data(run)}
        for answer in answers(run):
            data = told[answer.name, answer.gpu.name if answer.gpu else run.gpu.name if run.gpu else None]
            for sweep, row, size in decided(run):
                if sweep is not answer.report:
                    continue
                faces = {
                    "row": COLUMNS[Key.VERDICT].text(run.on(answer.gpu.name) if answer.gpu else run, row),
                    "sentence": _in_sentence(answer, size.size), "bar": _in_bar(sweep, size.size),
                    "json": _in_segments(data["crossover"], size.size),
                    "file": {"cpu": CPU, "cuda": GPU}.get(_in_file(sweep.resident, size.size)),
                }  # fmt: skip
                lead = leads[row.case.key].lead
                if not answer.gpu and lead is not None:
                    faces["lead"] = lead.verdict.removesuffix(", no interval")
                for face, winner in faces.items():
                    seen = winner if winner in (CPU, GPU) else None
                    if size.winner is None and face in ("file", "json"):
                        continue  # a size without a winner may lie inside a range, where a choice costs little
                    assert seen == size.winner, (face, row.case, answer.sentences[0])


def _in_segments(data, size):
    return next((part["winner"] for part in data["segments"] if size in part["sizes"]), None)


def _in_file(found, size):
    return next((device for device, first, last in ranges_of(found.sizes).faster if first <= size <= last), None)


def _in_bar(found, size):
    timed = found.resident.timed
    if len(timed) < 2:
        return found.resident.decided[0].winner if found.resident.decided else None
    at = math.log(size / timed[0].size) / math.log(timed[-1].size / timed[0].size)
    kinds = {part.kind for part in bars.parts_of(found) if part.start + 1e-9 < at < part.end - 1e-9}
    kinds = kinds or {part.kind for part in bars.parts_of(found) if part.start - 1e-9 <= at <= part.end + 1e-9}
    names = {CPU for kind in kinds if kind == bars.CPU} | {GPU for kind in kinds if kind in (bars.RESIDENT, bars.BOTH)}
    return names.pop() if len(names) == 1 and kinds != {bars.OPEN} else None


def number(text):
    """Return the size of its text."""
    unit = {"M": 10**6, "G": 10**9}.get(text[-1], 1)
    return int(text.rstrip("MG").replace(",", "")) * unit


def _in_sentence(answer, size):
    """Return who wins at a size by the first sentence of an answer; None if it says that nobody does."""
    first = answer.sentences[0].partition(". ")[0]
    single = re.match(r"At ([\d,]+[MG]?) (?:the GPU|it) (?:is|was) [^;]*?(faster|slower)", first)
    if re.match(r"[^;]*too few to judge|At [\d,MG]+ it is unclear", first):
        return None
    if single:
        return {"faster": GPU, "slower": CPU}[single[2]] if number(single[1]) == size else None
    told, _, without = re.split(r"; at [\d,]+[MG]? (?:it|the GPU|no winner) ", first)[0].partition("; no winner at ")
    without = re.sub(r"\([^)]*\)", "", without)  # the reasons
    if any(number(each) == size for each in re.findall(r"(?<![≈\d,])\b\d[\d,]*[MG]?\b(?![.×%])", without)):
        return None
    head = re.match(r"(?:The )?(GPU|CPU) wins (.*)", told)
    if head is None:
        return None
    winner, places = head[1], head[2]
    if "ranges" in places or "somewhere" in places or "sizes" in without:
        return next(each.winner for each in answer.report.resident.sizes if each.size == size)  # counted, not listed
    if places.startswith("at every size"):
        return winner
    for place in re.split(r" and |, (?=from|up|at)", places):
        at = re.match(r"at ([\d,]+[MG]?)", place)
        if at and number(at[1]) == size:
            return winner
        start = re.search(r"from (?:[a-z]+ )*(?:[≈=≤] )?([\d,]+[MG]?)(?: [a-z]+)*(?: \([\d,MG]+–([\d,MG]+)\))?", place)
        end = re.search(r"to (?:[a-z]+ )*(?:[≈=] )?([\d,]+[MG]?)(?: [a-z]+)*(?: \(([\d,MG]+)–[\d,MG]+\))?", place)
        least = number(start[2] or start[1]) if start else 0
        most = number(end[2] or end[1]) if end else math.inf
        if (start or end) and least <= size <= most:
            return winner
    inside = [change for change in answer.report.resident.changes if change.low < size < change.high]
    return None if inside else ({GPU: CPU, CPU: GPU}[winner] if answer.report.resident.changes else None)


# ------------------------------------------------------------------ one crossover


def test_the_crossover_of_the_chart_is_that_of_the_sentence(runs):
    for run in runs:
        for answer in answers(run):
            change = answer.report.resident.crossover
            if answer.gpu is not None or change is None:
                continue
            found = chart_lines(AppState(run=run), answer.report.sweep, 120, 30, UNICODE, in_words=False)
            lines = [plain(line) for line in found]
            drawn = {number(each) for line in lines for each in re.findall(r"(?:≈|over|X) ([\d,]+[MG]?)", line)}
            points = {point_size(each) for each in answer.report.resident.changes if not is_wide(each)}
            assert drawn == points or len(points) > 1 >= len(points - drawn), lines
            told = answer.sentences[0]
            assert bracket_text(change) in told or is_wide(change) or "ranges" in told
            assert any(bracket_text(change).replace("–", " and ") in line for line in lines)


def test_a_reader_can_compute_the_point_of_a_crossover_from_the_two_rows_beside_it(runs):
    for run in runs:
        for sweep in report(run).sweeps:
            speedups = {size.size: size.comparison.speedup for size in sweep.resident.timed if size.comparison}
            for change in (each for each in sweep.resident.changes if each.gap is not None):
                low, high = (math.log(size) for size in change.gap)
                below, above = (math.log(speedups[size]) for size in change.gap)
                assert change.point == pytest.approx(math.exp(low - below * (high - low) / (above - below)))


def test_no_size_contradicts_the_crossover(runs):
    for run in runs:
        for sweep in report(run).sweeps:
            for key, found in sweep.conditions.items():
                winners = {size.size: size.winner for size in found.timed}
                for change in found.changes:
                    ends = (CPU, GPU) if change.rises else (GPU, CPU)
                    assert (winners[change.low], winners[change.high]) == ends, (sweep.sweep, key, change)
                told = condition_data(found)["brackets"]
                assert all((each["point"] is None) == (each["gap"] is None) for each in told), "no point that rows deny"
                for change in (each for each in found.changes if not is_wide(each)):
                    for size in found.timed:
                        if change.low <= size.size <= change.high:
                            reads_above, at = (size.comparison.speedup > 1) == change.rises, point_size(change)
                            assert reads_above == (size.size >= at + (not change.rises)), (
                                sweep.sweep,
                                key,
                                change,
                                size,
                            )
                for part in found.ranges:
                    assert {each.winner for each in found.decided if part.first <= each.size <= part.last} == {
                        part.winner
                    }


def test_a_sentence_tells_as_many_unclear_sizes_as_the_json_and_none_of_a_bracket_alone(runs):
    """`no winner at 187 and 241` was told of a bracket with six unclear sizes, one of which is 187."""
    for run in runs:
        for found in (each for sweep in report(run).sweeps for each in sweep.conditions.values() if each.decided):
            _, _, without = who_wins(found, "").partition("; no winner at ")
            told = re.sub(r"\([^)]*\)", "", without)
            counted = sum(map(int, re.findall(r"(\d+) sizes", told)))
            named = {number(each) for each in re.findall(r"\d[\d,]*[MG]?(?! sizes)\b", re.sub(r"\d+ sizes", "", told))}
            unclear = {each["size"] for each in condition_data(found)["judged"]["not_judged"]}
            others = {size.size for size in found.sizes if size.winner is None and size.reason not in UNKNOWN}
            assert counted + len(named) == len(unclear | others), (without, unclear)
            inside = {size for size in unclear if any(each.low < size < each.high for each in found.changes)}
            assert ("in the bracket" in told) == bool(inside), (without, inside)


# ------------------------------------------------------------------ numbers


def test_an_undecided_row_shows_an_interval_that_does_not_decide(runs):
    """`1.24× ± 16 % ? unclear` was shown of 1.04 to 1.44. A tie is a difference below 2 %."""
    for run in runs:
        for what_if in WHAT_IFS:
            for _, row, size in decided(run, what_if.key):
                found = judged(run, row, what_if.key).comparison if len(run.gpus) < 2 else size.comparison
                if found is not None and found.low is not None and found.high is not None:
                    excludes_a_tie = found.low > 1.02 or found.high < 1 / 1.02
                    assert excludes_a_tie == (size.winner is not None), (row.case, what_if.key, found)


def shown(text):
    """Return the least and the largest value that a text of three digits stands for; times in seconds."""
    value, _, unit = text.replace(",", "").rstrip("×").partition(" ")
    digits = value.rstrip("0") if "." not in value and float(value) >= 1000 else value
    step = 10.0 ** -len(value.partition(".")[2]) if "." in value else 10.0 ** (len(value) - len(digits))
    scale = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "": 1.0}[unit]
    return (float(value) - step / 2) * scale, (float(value) + step / 2) * scale


def test_a_reader_can_recompute_the_speedup_from_the_times(runs):
    for run in runs:
        if len(run.gpus) > 1:
            continue
        for _, row, _ in decided(run):
            cpu, gpu, speedup = (shown(COLUMNS[key].text(run, row)) for key in (Key.CPU, Key.GPU, Key.SPEEDUP))
            assert speedup[0] <= 1.0001 * cpu[1] / gpu[0], row.case
            assert speedup[1] >= 0.9999 * cpu[0] / gpu[1], row.case


def test_few_rounds_are_told_with_ends_that_hold_the_speedup_of_the_row(runs):
    """`2,120× faster in 1 round` stood beside times whose quotient is 2,052: the GPU alone had further rounds."""
    for run in runs:
        for what_if in WHAT_IFS:
            for _, row, size in decided(run, what_if.key):
                if size.rounds is not None:
                    assert size.rounds[0] <= size.comparison.speedup <= size.rounds[1], (row.case, what_if.key)
                    assert size.comparison.rounds > 1 or size.rounds[0] == size.rounds[1]


def test_the_kernels_of_a_cause_are_those_of_the_what_if_without_launch(runs):
    """`launch overhead takes 98 % of its 118 µs` stood beside `without launch the GPU would win from ≈ 153`."""
    told = 0
    for run in runs:
        for answer in answers(run):
            found, cause = answer.report.under(NO_LAUNCH), answer.report.cause(moved=False)
            smallest = next((size for size in found.timed if size.size == answer.report.resident.timed[0].size), None)
            if cause is None or smallest is None:
                continue
            assert smallest.cpu_ns / cause.kernels_ns == pytest.approx(smallest.comparison.speedup, rel=0.15)
            hidden = cause.kernels_ns - dict(cause.parts)["warm kernels"]
            is_told = any(
                f"during which warm kernels run for {time_text(cause.kernels_ns)}" in each for each in answer.sentences
            )
            assert is_told == (hidden > 0.1 * cause.measured_ns)
            told += is_told
    assert told or any(run.simulated for run in runs)


def test_samples_and_extremes_of_the_csv_are_those_of_all_starts():
    """The minimum was of the samples of one start and the medians of the other four."""
    quick = next(ExportedRun(run.events) for run in shipped().runs if run.started.plan.starts > 1)
    summary, every = (csv.DictReader(io.StringIO(b"".join(csv_table([quick], samples=samples)).decode()))
                      for samples in (False, True))  # fmt: skip
    key = itemgetter("size", "device", "metric")
    sampled, starts = defaultdict[tuple[str, ...], list[float]](list), set()
    for line in every:
        sampled[key(line)].append(float(line["elapsed_ns"]))
        starts.add(line["start"])
    assert starts == {"0", "1", "2", "3", "4"}
    for line in summary:
        if line["metric"] in ("latency", "device", "end_to_end_pageable"):
            found = sampled[key(line)]
            assert (int(line["samples"]), float(line["min_ns"]), float(line["max_ns"])) == (
                len(found), min(found), max(found)
            )  # fmt: skip


def test_the_times_of_the_csv_have_the_winner_of_the_row():
    for each in (ExportedRun(run.events) for run in shipped().runs):
        table = b"".join(csv_table([each], samples=False)).decode()
        found: dict[str, dict[str, float]] = {}
        for line in csv.DictReader(io.StringIO(table)):
            if line["median_ns"]:  # over all starts: it lay outside the first one's minimum and maximum
                assert float(line["min_ns"]) <= float(line["median_ns"]) <= float(line["max_ns"]), line
            if line["metric"] == "latency":
                found.setdefault("/".join(line[key] for key in ("workload", "variant", "size")), {})[line["device"]] = (
                    float(line["median_ns"])
                )
        for _, row, size in decided(each.state):
            times = found[f"{row.case.workload}/{row.case.variant}/{row.case.size}"]
            if size.winner is not None:
                assert (times["cpu"] > times["cuda:0"]) == (size.winner == GPU)


NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:[MG]\b)?")


def test_every_number_in_a_sentence_stands_in_the_table_or_is_derived_from_it(runs):
    for run in runs:
        for answer in answers(run):
            known = set(_numbers(list(_known(answer.report))))
            for sentence in answer.sentences:
                unknown = set(_numbers([sentence])) - known
                assert not unknown, (sentence, unknown)


def _numbers(texts):
    for text in texts:
        yield from (each.rstrip(",") for each in NUMBER.findall(text.replace("–", " ").replace("×", " ")))


def _known(found):
    """Yield what a sentence may say about a sweep: sizes, speedups, intervals, rounds, brackets, shares and times."""
    yield from (str(found.threads), "2 %", "1 0.1", f"{OBSERVED_RATIO:g}")
    yield from map(str, range(2, 200))  # counts of sizes, rounds and threads
    for what_if in WHAT_IFS:
        each = found.under(what_if.key)
        for size in each.sizes:
            yield size_text(size.size)
            if size.comparison is not None:
                ends = [end for end in (size.comparison.low, size.comparison.high, size.comparison.speedup) if end]
                yield from (
                    speedup_text(size.comparison, size.rounds),
                    interval_text(size.comparison),
                    str(size.comparison.rounds),
                )
                yield from (faster(end) for end in (*ends, *(size.rounds or ())))
                yield from (faster(1 / end) for end in (*ends, *(size.rounds or ())))
        for change in each.changes:
            yield from (bracket_text(change), size_text(point_size(change)))
    for moved in (False, True):
        cause = found.cause(moved=moved)
        if cause is not None:
            yield from map(time_text, (cause.measured_ns, cause.kernels_ns, cause.largest[1] * cause.measured_ns))
            shares = [cause.largest[1], cause.share(cause.rest_ns), 1 - cause.share(cause.rest_ns)]
            yield from (percent(abs(share)) for share in shares)
    for each in found.printed:
        yield from (faster(each.cpu_ns / each.gpu_ns), faster(each.gpu_waited_ns / each.gpu_ns), size_text(each.size))


# ------------------------------------------------------------------ older files


@pytest.mark.parametrize("version", range(schema.OLDEST, len(schema.MIGRATIONS) + 1))
def test_a_database_of_any_version_gives_reports(version, tmp_path):
    path = Path(shutil.copy(GOLDEN / f"v{version}.db", tmp_path / "results.db"))
    with closing(Store.open(path)) as store:
        states = [folded(store.load(run.run_id)) for run in store.runs()]
    found = {sweep.sweep[0]: sweep for state in states for sweep in report(state).sweeps}
    assert set(found) == {"matmul", "vector-dot"}
    assert [size.winner for size in found["matmul"].resident.timed] == [CPU, GPU]
    assert len(found["vector-dot"].resident.timed) == 1
    assert all(answers(state) and as_data(state) and case_results(state) for state in states)
