"""The chart as text: places of its signs, and its sentences, in UTF-8 and in ASCII."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.helpers.app.chart_runs import EDGE, timed
from tests.helpers.app.fake_run import DEVICES, finished
from tests.helpers.golden import GoldenWords

from cpugpu_tui.analysis.costs import END_TO_END, NO_LAUNCH, ONE_THREAD, RESIDENT, WHAT_IFS
from cpugpu_tui.model import Case, CaseFailed, DevicesFound, Event, Plan, RunStarted
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render.curves import finished_rows
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.chart.axis import Axis, axis_over, round_numbers, size_labels, sizes_to_label, time_labels
from cpugpu_tui.ui.chart.drawing import ChartOptions, chart_lines
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from cpugpu_tui.ui.panes.lines import plain, width_of
from cpugpu_tui.ui.panes.run_answer import next_world, what_if_sentence

SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)
ALL = tuple(Case("matmul", size) for size in SIZES)
BOTH = pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
DTYPE = "float32"


def run_of(cases: Sequence[Case] = ALL, *events: Event, gpu: bool = True) -> RunState:
    state = RunState()
    plan = Plan("sweep", tuple(cases))
    devices = DevicesFound(devices=DEVICES if gpu else DEVICES[:1])
    for event in (RunStarted(run_id="r", series_id="s", plan=plan, environment={}), devices, *events):
        state = state.apply(event)
    return state


def whole(cases: Sequence[Case] = ALL) -> RunState:
    return run_of(cases, *(event for case in cases for event in (*timed(case), finished(case))))


def chart(run: RunState, width: int = 78, height: int = 22, glyphs: Glyphs = UNICODE, **options: object) -> list[str]:
    sweep = next(iter(run.sweeps))
    lines = chart_lines(run, sweep, width, height, ChartOptions(**options), glyphs)  # type: ignore[arg-type]
    return [plain(line) for line in lines]


def sentence_of(run: RunState, what_if: str = RESIDENT) -> str:
    sweep = next(iter(run.sweeps))
    return what_if_sentence(run, sweep, finished_rows(run, sweep), what_if)


def field(lines: list[str]) -> list[str]:
    """Return the cells right of the frame, top line first."""
    found = [(line, EDGE.match(line)) for line in lines]
    return [line[edge.end() :] for line, edge in found if edge is not None]


def places(lines: list[str], sign: str) -> dict[int, int]:
    """Column → line of a sign in the field."""
    return {x: y for y, line in enumerate(field(lines)) for x, found in enumerate(line) if found == sign}


def columns_of_sizes(lines: list[str]) -> dict[int, int]:
    """Size → column, from the points of the end-to-end curve, which nothing else covers."""
    return dict(zip(SIZES, sorted(places(lines, "E") | places(lines, "*")), strict=True))


# -------------------------------------------------------------------- where things stand


@BOTH
def test_doubled_sizes_stand_equally_far_apart_and_the_bracket_reaches_from_size_to_size(glyphs: Glyphs) -> None:
    lines = chart(whole(), glyphs=glyphs)
    columns = sorted(places(lines, "E") | places(lines, "*"))
    assert len(columns) == len(SIZES)
    steps = [b - a for a, b in pairwise(columns)]
    assert max(steps) - min(steps) <= 1
    shaded = [x for x, sign in enumerate(field(lines)[0]) if sign == glyphs.empty]
    assert (shaded[0], shaded[-1]) == (columns[2], columns[3]), "from 64 to 128"
    assert shaded == list(range(columns[2], columns[3] + 1))


def test_the_marker_stands_in_the_bracket_where_the_curves_meet() -> None:
    lines = chart(whole())
    (x,), (y,) = places(lines, "X").keys(), places(lines, "X").values()
    gpu = places(lines, "G")
    assert y in (gpu[min(gpu)], gpu[min(gpu)] - 1), "on the level part of the GPU's curve"
    assert columns_of_sizes(lines)[64] <= x <= columns_of_sizes(lines)[128]


def test_rising_times_stand_higher_and_larger_sizes_further_right() -> None:
    cpu = places(chart(whole()), "C")
    heights = [cpu[x] for x in sorted(cpu)]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) > 4


@pytest.mark.parametrize(("key", "left"), [(NO_LAUNCH, True), (END_TO_END, False)])
def test_another_world_moves_the_marker_and_says_by_how_much(key: str, left: bool, words: GoldenWords) -> None:
    run = whole()
    before, after = (chart(run, what_if=world) for world in (RESIDENT, key))
    (x_before,), (x_after,) = places(before, "X"), places(after, "X")
    assert (x_after < x_before) is left
    words(sentence_of(run, key))
    assert sentence_of(run, key) in " ".join(after)


def test_a_derived_world_has_a_curve_of_its_own() -> None:
    assert not any("W GPU" in line for line in chart(whole()))
    lines = chart(whole(), what_if=NO_LAUNCH)
    assert any("W GPU, " in line for line in lines)
    own, gpu = places(lines, "W"), places(lines, "G")
    assert own[min(own)] > gpu[min(gpu)], "without launches the small sizes take less: further down"


def test_an_even_axis_of_sizes_puts_the_middle_in_the_middle() -> None:
    lines = chart(whole(), linear_sizes=True)
    assert "linear sizes" in lines[0]
    cpu = sorted(places(lines, "C"))
    assert (cpu[-2] + 1) / (cpu[-1] + 1) == pytest.approx(0.5, abs=0.03), "1024 of 2048"


def test_an_even_axis_of_times_begins_at_0_in_the_unit_of_the_longest() -> None:
    lines = chart(whole(), linear_times=True)
    assert "linear times" in lines[0]
    numbers = [line.split("┤")[0].strip() for line in lines if "┤" in line]
    assert numbers[-1] == "0"
    assert "300 ms" in numbers


def test_the_highlighted_row_has_a_line_and_its_times_in_words() -> None:
    lines = chart(whole(), cursor=ALL[4].key)
    dotted = {x for y, row in enumerate(field(lines)) for x, sign in enumerate(row) if sign == ":"}
    assert dotted == {columns_of_sizes(lines)[256]}
    assert any("n = 256, CPU 672 µs, GPU 25.4 µs" in line for line in lines)


def test_without_a_finished_row_under_the_cursor_the_last_finished_one_is_marked() -> None:
    pending = run_of(ALL, *timed(ALL[0]), finished(ALL[0]), *timed(ALL[1]), finished(ALL[1]), *timed(ALL[2]))
    lines = chart(pending, cursor=ALL[2].key)
    assert any("largest finished row (dotted line): n = 32, CPU" in line for line in lines), "not the selected one"


# -------------------------------------------------------------------- what is left out


def test_only_finished_rows_are_drawn() -> None:
    before = run_of(ALL, *timed(ALL[0]), finished(ALL[0]), *timed(ALL[1]), finished(ALL[1]))
    during = before
    for event in timed(ALL[2])[:-3]:
        during = during.apply(event)
        assert chart(during)[:-1] == chart(before)[:-1], "all but the sentence"
    assert chart(during.apply(finished(ALL[2]))) != chart(before)


def test_a_row_without_cpu_ends_that_curve_alone() -> None:
    last = ALL[-1]
    run = run_of(
        ALL, *(event for case in ALL[:-1] for event in (*timed(case), finished(case))),
        *timed(last, ("cuda:0",)), finished(last),
    )  # fmt: skip
    lines = chart(run)
    assert max(places(lines, "C")) < max(places(lines, "G"))
    assert any("n = 2,048, GPU 6.88 ms" in line for line in lines)


def test_a_failed_row_is_not_drawn() -> None:
    failed = CaseFailed(case=ALL[2].key, kind="mismatch", message="m")
    run = run_of(ALL, *timed(ALL[1]), finished(ALL[1]), *timed(ALL[2]), failed)
    assert len(places(chart(run), "C") | places(chart(run), "*")) == 1


def test_a_machine_without_gpu_has_one_curve() -> None:
    cases = ALL[:4]
    events = [event for case in cases for event in (*timed(case, ("cpu",)), finished(case))]
    lines = chart(run_of(cases, *events, gpu=False))
    assert len(places(lines, "C")) == 4
    assert not any("GPU" in line for line in lines)


def test_before_anything_has_finished_it_is_one_sentence(words: GoldenWords) -> None:
    _, line = chart(run_of())
    words(line)


# -------------------------------------------------------------------- words and signs


def test_every_sign_is_explained_in_words(words: GoldenWords) -> None:
    lines = chart(whole(), what_if=NO_LAUNCH, glyphs=ASCII)
    above = lines[: next(index for index, line in enumerate(lines) if EDGE.match(line))]
    assert {item.split()[0] for line in above[1:] for item in line.split("   ")} >= set("CGEWX") | {".."}
    words(above)


@pytest.mark.parametrize("what_if", [each.key for each in WHAT_IFS])
def test_at_60x16_the_legend_names_each_sign_in_the_field(what_if: str) -> None:
    run = whole()
    lines = chart(run, 58, 14, what_if=what_if, cursor=ALL[1].key)
    field = "".join(line.partition("│")[2] or line.partition("┤")[2] for line in lines if EDGE.match(line))
    above = " ".join(line for line in lines[: next(i for i, line in enumerate(lines) if EDGE.match(line))])
    assert set(":*") <= set(field)
    assert "* curves overlap" in above
    assert "row (dotted line): n = " in above or ": selected n = " in above


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(10, 200), height=st.integers(1, 60), ascii_only=st.booleans(),
    what_if=st.sampled_from([each.key for each in WHAT_IFS]), linear_sizes=st.booleans(), linear_times=st.booleans(),
    sizes=st.lists(st.integers(1, 10**8), min_size=1, max_size=30, unique=True),
)  # fmt: skip
def test_it_fits_whatever_the_room_and_is_ascii_where_it_has_to_be(
    width: int, height: int, ascii_only: bool, what_if: str, linear_sizes: bool, linear_times: bool, sizes: list[int]
) -> None:
    run = whole([Case("matmul", size) for size in sizes])
    options = ChartOptions(what_if, None, linear_sizes, linear_times)
    lines = chart_lines(run, next(iter(run.sweeps)), width, height, options, ASCII if ascii_only else UNICODE)
    assert len(lines) <= height
    text = [plain(line) for line in lines]
    drawn = [line for line in lines if EDGE.match(plain(line))]
    assert all(width_of(line) <= width for line in drawn)
    assert not ascii_only or all(ord(sign) < 128 for line in text for sign in line)


def test_80_by_24_has_room_for_the_curves() -> None:
    assert len(field(chart(whole(), 78, 22, what_if=NO_LAUNCH))) >= 12


@BOTH
def test_a_low_chart_has_one_line_of_legend_and_labels_that_read(glyphs: Glyphs) -> None:
    lines = chart(whole(ALL[:6]), 116, 8, glyphs, in_words=False, cursor=ALL[4].key)
    assert len(lines) == 8
    assert len(field(lines)) == 6
    for wanted in ("C CPU", "G GPU", "E GPU with copies", "X crossover", "between 64 and 128", "selected n = 256"):
        assert wanted in lines[0]
    labels = [line.split(glyphs.tick)[0].strip() for line in lines[1:-1] if glyphs.tick in line[:10]]
    assert labels == ["1 ms", f"100 {glyphs.micro}s", f"10 {glyphs.micro}s", f"1 {glyphs.micro}s"], "every decade"
    assert re.search(r"size +16 .*crossover [≈~] 66 .* 256 .*512", lines[-1])


def test_decades_without_a_line_of_their_own_are_left_out_evenly() -> None:
    labels = [line.split("┤")[0].strip() for line in chart(whole(), 116, 8, in_words=False) if "┤" in line]
    assert labels == ["10 ms", "100 µs", "1 µs"]


def test_a_narrow_chart_drops_the_times_of_the_selected_row_instead_of_cutting_them() -> None:
    lines = chart(whole(), 53, 40, in_words=False, cursor=ALL[4].key)
    assert "selected row (dotted line): n = 256" in lines
    assert all(len(line) <= 53 for line in lines[1:])


def test_the_three_curves_differ_in_sign_and_in_role() -> None:
    run = whole()
    found = chart_lines(run, next(iter(run.sweeps)), 116, 20, ChartOptions(), UNICODE)
    roles = {sign: {role for line in found for text, role in line if text == sign} for sign in "CGE"}
    assert roles == {"C": {"cpu"}, "G": {"gpu"}, "E": {"copies"}}


def test_of_several_workloads_a_low_chart_names_its_own() -> None:
    cases = (*ALL, *(Case("matmul", size, variant="eager") for size in SIZES))
    lines = chart(whole(cases), 116, 8, in_words=False)
    assert lines[0].startswith("matmul float32   C CPU")


# -------------------------------------------------------------------- what if


def test_the_key_goes_through_the_worlds_that_were_timed_and_wraps() -> None:
    run, seen = whole(), [RESIDENT]
    while (key := next_world(run, seen[-1])) != RESIDENT:
        seen.append(key)
    assert seen == [RESIDENT, END_TO_END, "10 calls", "100 calls", NO_LAUNCH, ONE_THREAD]
    assert next_world(run_of(), RESIDENT) == ONE_THREAD
    assert next_world(run, "unknown") == RESIDENT


def test_one_thread_says_how_to_get_it_and_moves_the_marker_once_it_is_there(words: GoldenWords) -> None:
    alone = chart(whole(), what_if=ONE_THREAD)
    assert sentence_of(whole(), ONE_THREAD) in " ".join(alone)
    words(sentence_of(whole(), ONE_THREAD))
    assert not places(alone, "X")
    single = [replace(case, threads=1) for case in ALL]
    run = run_of(
        (*ALL, *single),
        *(event for case in ALL for event in (*timed(case), finished(case))),
        *(event for case in single for event in (*timed(case, threads=1), finished(case))),
    )
    lines = chart(run, what_if=ONE_THREAD)
    assert any("W one CPU thread" in line for line in lines)
    assert min(places(lines, "X")) < min(places(chart(run), "X"))
    assert sentence_of(run, ONE_THREAD) in " ".join(lines)
    words(sentence_of(run, ONE_THREAD))


def test_several_sweeps_say_whose_what_if_it_is() -> None:
    cases = (*ALL, Case("matmul", 64, variant="eager"))
    run = run_of(cases, *(event for case in cases for event in (*timed(case), finished(case))))
    first = cases[0].sweep
    assert what_if_sentence(run, first, finished_rows(run, first), NO_LAUNCH).startswith("matmul: ")


# -------------------------------------------------------------------- axes


@given(st.floats(1e-3, 1e12), st.floats(1.0, 1e9), st.integers(2, 60), st.booleans(), st.integers(2, 20))
@example(low=16.0, ratio=24.0, cells=2, linear=False, most=2)
def test_numbers_beside_an_axis_lie_on_it_and_rise(
    low: float, ratio: float, cells: int, linear: bool, most: int
) -> None:
    axis = axis_over([low, low * ratio], cells, linear=linear, least_ratio=2.0)
    numbers = round_numbers(axis, most)
    assert numbers == sorted(set(numbers))
    assert 1 <= len(numbers) <= max(most, cells) + 1
    assert all(axis.low * 0.999 <= number <= axis.high * 1.001 for number in numbers)
    assert all(0 <= axis.cell(number) < cells for number in numbers)


def test_a_narrow_axis_has_numbers_too() -> None:
    assert len(time_labels(axis_over([1_010.0, 1_020.0], 12, linear=False, least_ratio=2.0))) >= 2


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=60, unique=True), st.integers(12, 150), st.booleans())
def test_sizes_below_the_axis_never_touch_and_the_largest_is_there(sizes: list[int], cells: int, linear: bool) -> None:
    axis = axis_over(sizes, cells, linear=linear)
    line = plain(tuple(size_labels(axis, sizes_to_label(axis, sorted(sizes)))))
    assert len(line) <= cells
    assert size_text(max(sizes)) in line.split()
    assert not re.search(r"\S \S", line)


def test_the_crossover_is_named_beside_its_place_where_another_size_is_too_close() -> None:
    line = chart(whole(ALL[:4]), 53, 40, in_words=False)[-1]
    assert re.search(r"16 .*crossover ≈ 66", line)
    line = chart(whole(ALL[1:4]), 42, 40, in_words=False)[-1]
    assert re.search(r"(crossover|X) ≈ 66", line)


def test_an_axis_has_its_ends_in_its_first_and_last_cell() -> None:
    axis = Axis(10.0, 1000.0, 21)
    assert [axis.cell(value) for value in (1, 10, 100, 1000, 5000)] == [0, 0, 10, 20, 20]


# -------------------------------------------------------------------- start-up
