"""The chart as text: places of its signs, and its sentences, in UTF-8 and in ASCII."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.helpers.app.chart_runs import EDGE, timed
from tests.helpers.app.fake_run import DEVICES, finished
from tests.helpers.golden import assert_golden, paragraphs

from cpugpu_tui.analysis.costs import END_TO_END, NO_LAUNCH, ONE_THREAD, RESIDENT, TEN_CALLS, WHAT_IFS
from cpugpu_tui.model import Case, CaseFailed, DevicesFound, Plan, RunStarted
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render.curves import finished_rows
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.chart.drawing import (
    Axis,
    axis_over,
    chart_lines,
    round_numbers,
    size_labels,
    sizes_to_label,
    time_labels,
)
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.panes.lines import plain, width_of
from cpugpu_tui.ui.panes.run_answer import next_what_if, what_if_sentence

SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)
ALL = tuple(Case("matmul", size) for size in SIZES)
BOTH = pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])


def run_of(cases=ALL, *events, gpu=True):
    plan = Plan("sweep", tuple(cases))
    devices = DevicesFound(devices=DEVICES if gpu else DEVICES[:1])
    return folded([RunStarted(run_id="r", series_id="s", plan=plan, environment={}), devices, *events])


def whole(cases=ALL):
    return run_of(cases, *all_timed(cases))


def chart(run, width=78, height=22, glyphs=UNICODE, in_words=True, **state):
    sweep = next(iter(run.sweeps))
    lines = chart_lines(AppState(run=run, **state), sweep, width, height, glyphs, in_words=in_words)
    return [plain(line) for line in lines]


def field(lines):
    """Return the cells right of the frame, top line first."""
    found = [(line, EDGE.match(line)) for line in lines]
    return [line[edge.end() :] for line, edge in found if edge is not None]


def places(lines, sign):
    """Column → line of a sign in the field."""
    return {x: y for y, line in enumerate(field(lines)) for x, found in enumerate(line) if found == sign}


def columns_of_sizes(lines):
    """Size → column, from the points of the end-to-end curve, which nothing else covers."""
    return dict(zip(SIZES, sorted(places(lines, "E") | places(lines, "*")), strict=True))


def all_timed(cases, threads=16):
    return [event for case in cases for event in (*timed(case, threads=threads), finished(case))]


LAST = ALL[-1]
SINGLE = [replace(case, threads=1) for case in ALL]
EAGER = [Case("matmul", size, variant="eager") for size in SIZES]
MISMATCH = CaseFailed(case=ALL[2].key, kind="mismatch", message="m")
WITHOUT_CPU = run_of(ALL, *all_timed(ALL[:-1]), *timed(LAST, ("cuda:0",)), finished(LAST))
CPU_ALONE = run_of(ALL[:4], *(each for case in ALL[:4] for each in (*timed(case, ("cpu",)), finished(case))), gpu=False)
ONE_THREADED = run_of((*ALL, *SINGLE), *all_timed(ALL), *all_timed(SINGLE, threads=1))

LOW: dict[str, object] = {"width": 116, "height": 8, "in_words": False}

CHARTS: dict[str, tuple[RunState, dict[str, object]]] = {
    "as it opens": (whole(), {}),
    "linear sizes": (whole(), {"linear_sizes": True}),
    "linear times": (whole(), {"linear_times": True}),
    "a highlighted row": (whole(), {"cursor": ALL[4].key}),
    "a highlighted row that has not finished":
        (run_of(ALL, *all_timed(ALL[:2]), *timed(ALL[2])), {"cursor": ALL[2].key}),
    "without launches": (whole(), {"what_if": NO_LAUNCH}),
    "without launches, in ASCII": (whole(), {"what_if": NO_LAUNCH, "glyphs": ASCII}),
    "with copies": (whole(), {"what_if": END_TO_END}),
    "one thread that was not timed": (whole(), {"what_if": ONE_THREAD}),
    "one thread": (ONE_THREADED, {"what_if": ONE_THREAD}),
    "a row without CPU ends that curve alone": (WITHOUT_CPU, {}),
    "a failed row is not drawn": (run_of(ALL, *all_timed(ALL[1:2]), *timed(ALL[2]), MISMATCH), {}),
    "a machine without GPU": (CPU_ALONE, {}),
    "nothing has finished": (run_of(), {}),
    "low, UTF-8": (whole(ALL[:6]), LOW | {"cursor": ALL[4].key}),
    "low, ASCII": (whole(ALL[:6]), LOW | {"cursor": ALL[4].key, "glyphs": ASCII}),
    "low, many decades": (whole(), LOW),
    "low, several workloads": (whole([*ALL, *EAGER]), LOW),
    "narrow, with room for the name of the row alone":
        (whole(), {"width": 53, "height": 20, "in_words": False, "cursor": ALL[4].key}),
    "narrow, four sizes": (whole(ALL[:4]), {"width": 53, "height": 12, "in_words": False}),
    "narrower, three sizes": (whole(ALL[1:4]), {"width": 42, "height": 12, "in_words": False}),
}  # fmt: skip
"""A run, and how it is drawn."""


def test_what_a_person_sees():
    told = {name: "\n".join(chart(run, **options)) for name, (run, options) in CHARTS.items()}
    several = run_of((*ALL, EAGER[2]), *all_timed((*ALL, EAGER[2])))
    first = ALL[0].sweep
    told["of several sweeps"] = what_if_sentence(several, first, finished_rows(several, first), NO_LAUNCH)
    told["one copy for 10 calls"] = what_if_sentence(whole(), first, finished_rows(whole(), first), TEN_CALLS)
    assert_golden("frames/chart", paragraphs(told))


# -------------------------------------------------------------------- where things stand


@BOTH
def test_doubled_sizes_stand_equally_far_apart_and_the_bracket_reaches_from_size_to_size(glyphs):
    lines = chart(whole(), glyphs=glyphs)
    columns = sorted(places(lines, "E") | places(lines, "*"))
    assert len(columns) == len(SIZES)
    steps = [b - a for a, b in pairwise(columns)]
    assert max(steps) - min(steps) <= 1
    shaded = [x for x, sign in enumerate(field(lines)[0]) if sign == glyphs.empty]
    assert (shaded[0], shaded[-1]) == (columns[2], columns[3]), "from 64 to 128"
    assert shaded == list(range(columns[2], columns[3] + 1))


def test_the_marker_stands_in_the_bracket_where_the_curves_meet():
    lines = chart(whole())
    (x,), (y,) = places(lines, "X").keys(), places(lines, "X").values()
    gpu = places(lines, "G")
    assert y in (gpu[min(gpu)], gpu[min(gpu)] - 1), "on the level part of the GPU's curve"
    assert columns_of_sizes(lines)[64] <= x <= columns_of_sizes(lines)[128]


# -------------------------------------------------------------------- what is left out


def test_only_finished_rows_are_drawn():
    before = run_of(ALL, *timed(ALL[0]), finished(ALL[0]), *timed(ALL[1]), finished(ALL[1]))
    during = before
    for event in timed(ALL[2])[:-3]:
        during = during.apply(event)
        assert chart(during)[:-1] == chart(before)[:-1], "all but the sentence"
    assert chart(during.apply(finished(ALL[2]))) != chart(before)


# -------------------------------------------------------------------- words and signs


@pytest.mark.parametrize("what_if", [each.key for each in WHAT_IFS])
def test_at_60x16_the_legend_names_each_sign_in_the_field(what_if):
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
    width, height, ascii_only, what_if, linear_sizes, linear_times, sizes
):
    run = whole([Case("matmul", size) for size in sizes])
    state = AppState(run=run, what_if=what_if, linear_sizes=linear_sizes, linear_times=linear_times)
    lines = chart_lines(state, next(iter(run.sweeps)), width, height, ASCII if ascii_only else UNICODE)
    assert len(lines) <= height
    text = [plain(line) for line in lines]
    drawn = [line for line in lines if EDGE.match(plain(line))]
    assert all(width_of(line) <= width for line in drawn)
    assert not ascii_only or all(ord(sign) < 128 for line in text for sign in line)


def test_80_by_24_has_room_for_the_curves():
    assert len(field(chart(whole(), 78, 22, what_if=NO_LAUNCH))) >= 12


def test_the_three_curves_differ_in_sign_and_in_role():
    run = whole()
    found = chart_lines(AppState(run=run), next(iter(run.sweeps)), 116, 20, UNICODE)
    roles = {sign: {role for line in found for text, role in line if text == sign} for sign in "CGE"}
    assert roles == {"C": {"cpu"}, "G": {"gpu"}, "E": {"copies"}}


# -------------------------------------------------------------------- what if


def test_the_key_goes_through_the_worlds_that_were_timed_and_wraps():
    run, seen = whole(), [RESIDENT]
    while (key := next_what_if(run, seen[-1])) != RESIDENT:
        seen.append(key)
    assert seen == [RESIDENT, END_TO_END, "10 calls", "100 calls", NO_LAUNCH, ONE_THREAD]
    assert next_what_if(run_of(), RESIDENT) == ONE_THREAD
    assert next_what_if(run, "unknown") == RESIDENT


# -------------------------------------------------------------------- axes


@given(st.floats(1e-3, 1e12), st.floats(1.0, 1e9), st.integers(2, 60), st.booleans(), st.integers(2, 20))
@example(low=16.0, ratio=24.0, cells=2, linear=False, most=2)
def test_numbers_beside_an_axis_lie_on_it_and_rise(low, ratio, cells, linear, most):
    axis = axis_over([low, low * ratio], cells, linear=linear, least_ratio=2.0)
    numbers = round_numbers(axis, most)
    assert numbers == sorted(set(numbers))
    assert 1 <= len(numbers) <= max(most, cells) + 1
    assert all(axis.low * 0.999 <= number <= axis.high * 1.001 for number in numbers)
    assert all(0 <= axis.cell(number) < cells for number in numbers)


def test_a_narrow_axis_has_numbers_too():
    assert len(time_labels(axis_over([1_010.0, 1_020.0], 12, linear=False, least_ratio=2.0))) >= 2


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=60, unique=True), st.integers(12, 150), st.booleans())
def test_sizes_below_the_axis_never_touch_and_the_largest_is_there(sizes, cells, linear):
    axis = axis_over(sizes, cells, linear=linear)
    line = plain(tuple(size_labels(axis, sizes_to_label(axis, sorted(sizes)))))
    assert len(line) <= cells
    assert size_text(max(sizes)) in line.split()
    assert not re.search(r"\S \S", line)


def test_an_axis_has_its_ends_in_its_first_and_last_cell():
    axis = Axis(10.0, 1000.0, 21)
    assert [axis.cell(value) for value in (1, 10, 100, 1000, 5000)] == [0, 0, 10, 20, 20]
