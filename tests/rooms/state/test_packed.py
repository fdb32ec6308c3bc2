"""Packed numbers of settled cases equal the original ones, in less memory."""

from dataclasses import replace
from weakref import ref

from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui import model
from cpugpu_tui.decide.comparison import Comparison
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.packed import Comparisons, Made, Numbers, Readings, Rounds, Series
from cpugpu_tui.state.row import Row

NS = st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.sampled_from((model.LATENCY, model.DEVICE, model.PAGEABLE, "other"))


@given(st.dictionaries(KEYS, st.lists(NS, max_size=9).map(tuple)), st.dictionaries(st.integers(-3, 99), NS))
def test_numbers_are_what_was_put_in_in_its_order(series, numbers):
    assert Series(series) == series
    assert list(Series(series).items()) == list(series.items())
    assert Numbers(numbers) == numbers
    assert list(Numbers(numbers).items()) == list(numbers.items())
    assert Series(series).get("none") is None
    assert 1000 not in Numbers(numbers)
    rounds = {name: dict(enumerate(values)) for name, values in series.items()}
    assert Rounds(rounds) == rounds
    assert [(name, list(found)) for name, found in Rounds(rounds).items()] == [(n, list(r)) for n, r in rounds.items()]


READINGS = st.builds(
    model.Reading, NS | st.none(), st.sampled_from((None, "not-supported")), st.floats(0, 1e3), st.booleans()
)


@given(st.dictionaries(KEYS, READINGS))
def test_readings_are_what_was_put_in(readings):
    assert Readings(readings) == readings
    assert list(Readings(readings)) == list(readings)


COMPARISONS = st.builds(
    Comparison, NS, NS | st.none(), NS | st.none(), st.integers(0, 99), st.sampled_from(("GPU", "tie"))
)


@given(st.dictionaries(KEYS, COMPARISONS))
def test_comparisons_are_what_was_put_in(comparisons):
    assert Comparisons(comparisons) == comparisons
    assert list(Comparisons(comparisons)) == list(comparisons)


def half(index, *ns, marks=()):
    return model.DeviceSampled(
        case="c", device="cuda:0", round_index=index, calls_per_block=1, samples={model.LATENCY: ns,
            model.DEVICE: (ns[0] / 2,)},
        marks=marks, sm_clock_mhz=1980.0, sm_clock_end_mhz=1975.0, power_mw=4e5, throttled_ns={"hot": 5.0},
    )  # fmt: skip


EVENTS = (
    model.MachineRead(case="c", device="cuda:0", edge="begin", readings={"power_mw": model.Reading(None,
        "not-supported")}),
    half(1, 3.0, 5.0), half(2, 4.0, 6.0, marks=("starved",)), half(3, 5.0, 5.0),
)  # fmt: skip


def times_of(*events):
    times = DeviceTimes("cuda:0")
    for event in events:
        times = times.with_edge(event) if isinstance(event, model.MachineRead) else times.with_half_round(event)
    return times


def test_times_are_the_same_and_take_more_events():
    whole, packed = times_of(*EVENTS), times_of(*EVENTS).packed()
    assert packed.round_ns == whole.round_ns == {1: 4.0, 2: 5.0, 3: 5.0}
    assert packed.clean_ns == whole.clean_ns == (3.0, 5.0, 5.0, 5.0)
    assert (packed.other_round_ns, packed.edges) == (whole.other_round_ns, whole.edges)
    assert list(packed.clocks_mhz) == list(whole.clocks_mhz)
    later = packed.with_half_round(half(4, 9.0, 9.0, marks=("starved",)))
    assert later.samples == times_of(*EVENTS, half(4, 9.0, 9.0, marks=("starved",))).samples
    assert later.clean_ns == packed.clean_ns


def test_a_case_that_is_over_is_packed():
    case = model.Case("matmul", 64)
    run = folded([
        model.RunStarted(run_id="r", series_id="s", plan=model.Plan("m", (case,)), environment={}),
        model.DeviceSampled(case=case.key, device="cpu", round_index=1, calls_per_block=1,
                            samples={model.LATENCY: (2.0, 4.0)}), model.CaseFinished(case=case.key),
    ])  # fmt: skip
    assert isinstance(run.rows[case.key].times["cpu"].samples, Series)
    assert run.rows[case.key].times["cpu"].latency_ns == 3.0


def test_a_row_that_was_replaced_is_dropped():
    """Each of 10,000 rows stayed twice in memory."""
    row = Row(model.Case("matmul", 1))
    old, rows = ref(row), Made({"a": row, "b": row}, lambda each: replace(each, saved=False))
    del row
    assert list(rows) == ["a", "b"]
    assert not rows["a"].saved
    assert rows["a"] is rows["a"]
    assert old() is not None
    assert not rows["b"].saved
    assert old() is None
