"""The detail of a row: limit, paper's clock, copies and training, from hand-made events."""

import re
from dataclasses import replace

from tests.rooms.analysis.test_roofline import CPU, GPU

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.cli.output.tables import spelled_table, summary
from cpugpu_tui.render.verdicts import MARK_WORDS, row_limit, written
from cpugpu_tui.report import report
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.screens.detail import detail_lines

LARGE = model.Case("matmul", 9951)
DEVICES = model.DevicesFound(devices=(model.Device("cpu", "Xeon"), model.Device("cuda:0", "NVIDIA H200", "GPU-1")))


def run_of(case, *events, ceilings=(CPU, GPU)):
    plan = model.Plan("matmul", (case,), ceilings=ceilings)
    return folded([model.RunStarted(run_id="r", series_id="s", plan=plan, environment={}), DEVICES, *events])


def half(place, index, samples, marks=()):
    taken = {name: (ns, ns) for name, ns in samples.items()}
    return model.DeviceSampled(
        case=LARGE.key, device=place, round_index=index, calls_per_block=1, samples=taken, marks=marks,
        sm_clock_mhz=1980.0 if place != "cpu" else None,
    )  # fmt: skip


def h200(**more):
    """The row of method.md: 38.8 ms on the GPU, 1193 on the CPU, 487 with copies, 0.73 by the paper's clock."""
    events: list[model.Event] = [
        model.CaseStarted(case=LARGE.key, flops=2.0 * 9951**3, bytes_moved=12.0 * 9951**2, operations=1),
        half("cuda:0", 0, {model.AS_WRITTEN: 0.73e6, model.SYNCED: 38.8e6}),
    ]
    for index in range(1, 9):
        wobble = 1 + index / 1000
        events.append(half("cpu", index, {model.LATENCY: 1193e6 * wobble, model.DEVICE: 1193e6}))
        events.append(
            half(
                "cuda:0", index, {model.LATENCY: 38.8e6 * wobble, model.DEVICE: 38.7e6, model.PAGEABLE: 487e6 * wobble}
            )
        )
    finished = [
        model.CaseFinished(case=LARGE.key),
        model.KernelsProfiled(case=LARGE.key, device="cuda:0", count=2, elapsed_ns=38.6e6),
    ]
    return run_of(LARGE, *events, *finished, **more)


def text(run):
    lines = detail_lines(run.rows[LARGE.key], run, 150, UNICODE)
    return "\n".join("".join(part for part, _ in line) for line in lines)


def table(run):
    found = spelled_table(run)
    return {heading: found.lines[0][key] for key, heading in found.headings.items()}


def test_the_detail_says_first_why_a_row_is_less_certain():
    assert "less certain" not in text(h200())
    marked = [half("cpu", index, {model.LATENCY: 1193e6}, ("page-faults",)) for index in range(9, 11)]
    lines = text(folded(marked, h200())).splitlines()
    (line,) = [line for line in lines[:4] if "less certain" in line]
    assert "cpu" in line
    assert MARK_WORDS["page-faults"] in line


def test_the_row_of_a_large_product_says_everything_by_itself():
    run = h200()
    row = run.rows[LARGE.key]
    limit = row_limit(run, row)
    assert limit.kind == "compute"
    assert 0.95 < limit.share < 1.05
    moved = report.judged(run, row, END_TO_END).comparison
    assert round(moved.speedup, 2) == 2.45
    judged = written(run, row, row.gpu)
    assert round(judged.clock_factor) == 53
    cells = table(run)
    assert (cells["speedup"], cells["with copies"]) == ("30.7×", "2.45×")
    assert re.fullmatch(r"compute (9\d %|peak)", cells["limited by"])
    assert cells["paper's error"] == "impossible 53.2×"


def test_the_detail_says_it_in_words():
    said = text(h200())
    kernels = ("2 kernels, warm, 38.6 ms", "1,980 MHz")
    for fact in ("2.45×", "limited by compute:", *kernels, "53.2×", "2,700 TFLOP/s, 52.9×"):
        assert fact in said


def test_without_a_card_nothing_is_guessed_and_the_way_to_one_is_said():
    run = h200(ceilings=())
    assert row_limit(run, run.rows[LARGE.key]) is None
    assert "limited by" not in table(run), "a column of dashes says nothing"
    assert table(run)["paper's error"] == "53.2×"
    said = text(run)
    assert "limited by: unknown" in said
    assert "impossible" not in said


def test_another_gpus_card_is_not_this_ones():
    run = h200(ceilings=(CPU, replace(GPU, uuid="GPU-2")))
    assert row_limit(run, run.rows[LARGE.key]) is None


def test_marked_half_rounds_count_and_what_they_changed_is_said():
    run = h200()
    for index in range(9, 29):
        run = run.apply(half("cuda:0", index, {model.LATENCY: 50e6}, ("throttled",)))
    row = run.rows[LARGE.key]
    assert row.gpu.latency_ns == 50e6, "marks never delete"
    assert "39.0 ms" in text(run)
    assert MARK_WORDS["throttled"] in " ".join(text(run).split())


def test_a_training_shows_its_epochs_and_small_scale_says_so(words):
    run = h200()
    for epoch in (1, 2):
        run = run.apply(
            model.EpochFinished(
                case=LARGE.key, device="cuda:0", epoch=epoch, epochs=2, loss=0.5 / epoch,
                accuracy=0.984 if epoch == 2 else None, elapsed_ns=1.8e9, steps=1875,
            )
        )  # fmt: skip
    said = text(run)
    assert "training: 960 " in said
    assert "s an epoch" in said
    assert re.search(r"0\.500, 0\.250.* 98\.4 ?%", said)
    plan = model.Plan("matmul-sweep", (LARGE,), scale="small")
    small = RunState().apply(model.RunStarted(run_id="r", series_id="s", plan=plan, environment={}))
    words(summary(small, None))
