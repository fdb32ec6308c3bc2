"""Folding all events at once gives the same state as one by one, in linear time."""

from functools import reduce

from hypothesis import given, settings
from tests.helpers.runs import export_runs
from tests.rooms.store.test_store import streams

from cpugpu_tui import model
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState


def one_by_one(events):
    return reduce(RunState.apply, (event for event in events if not isinstance(event, model.TelemetryRead)), RunState())


@settings(max_examples=30, deadline=None)
@given(stream=streams())
def test_a_stream_at_once_is_its_events_one_by_one(stream):
    for end in {len(stream) // 3, len(stream) // 2, len(stream)}:
        at_once, slowly = folded(stream[:end]), one_by_one(stream[:end])
        assert (at_once, list(at_once.rows)) == (slowly, list(slowly.rows))
        in_parts = folded(stream[end:], at_once)
        assert (in_parts, list(in_parts.rows)) == (one_by_one(stream), list(one_by_one(stream).rows))


def test_what_a_search_adds_and_what_concerns_no_case_is_folded_too():
    first, *rest = export_runs.stream()
    key = model.Case("matmul", 128).key
    energy = model.EnergyMeasured(case="", device="cpu", elapsed_ns=1.0)
    added = [
        model.CasesChosen(cases=(model.Case("matmul", 128), model.Case("matmul", 64))),
        model.CaseStarted(case=key),
        model.Progressed(case=key, device="cpu", phase="round"),
        model.DeviceSampled(case=key, device="cpu", round_index=1, calls_per_block=1, samples={"latency": (5.0,)}),
        model.CaseFailed(case=key, kind="crashed", message="Gone.", remedy=""),
        model.CaseStarted(case=key),
        model.CaseFinished(case=key),
        energy,
        model.CaseFinished(case="none/of/these"),
    ]
    for stream in ([first, *rest[:-1], *added, rest[-1]], [first, *rest[:30], *added], [*rest, first, *added, first]):
        at_once, slowly = folded(stream), one_by_one(stream)
        assert (at_once, list(at_once.rows)) == (slowly, list(slowly.rows))


def test_no_event_of_a_case_copies_the_rows_of_all_others(monkeypatch):
    cases = tuple(model.Case("matmul", size) for size in range(1, 401))
    rows, apply = list[object](), RunState.apply

    def keeping(state, event):
        rows.append(state.rows)
        return apply(state, event)

    monkeypatch.setattr(RunState, "apply", keeping)
    started = model.RunStarted(run_id="r", series_id="s", plan=model.Plan("matmul", cases), environment={})
    state = folded([started, *(model.CaseFinished(case=case.key) for case in cases)])
    assert (state.settled, len(state.rows)) == (400, 400)
    assert len(set(map(id, rows))) == 2  # those before and after the first event: 401 when each event copies them
