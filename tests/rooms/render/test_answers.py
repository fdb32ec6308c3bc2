"""The answers of a run: the rows that count, threads, what-ifs and the paper's clock."""

from dataclasses import replace

import pytest
from tests.helpers.runs.recorder import QUICK, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import CAUSES, END_TO_END, LAUNCH, NO_LAUNCH, ONE_THREAD, PINNED, RESIDENT
from cpugpu_tui.model import PINNED as PINNED_NS
from cpugpu_tui.render.answer_sentences import so_far
from cpugpu_tui.render.answers import answer_lines, answers, as_data, row_with_threads
from cpugpu_tui.report.report import is_column
from cpugpu_tui.report.segments import ALWAYS, FROM, NEVER
from cpugpu_tui.state.folding import folded

CPU, GPU = model.Device("cpu", "Xeon"), model.Device("cuda:0", "H200", "GPU-1")


def run_of(cases, *events, devices=(CPU, GPU)):
    """A run of these cases with these events."""
    started = model.RunStarted(run_id="r", series_id="s", plan=model.Plan("test", cases), environment={})
    return folded([started, model.DevicesFound(devices=devices), *events])


def timed(case, cpu_ns, gpu_ns, threads=4, end=None, cpu=None, gpu=None):
    """The events of a case with these latencies; `cpu` and `gpu` are further metrics of a round."""
    key, events = case.key, list[model.Event]()
    events.append(model.CaseStarted(case=key))
    for place, ns in (("cpu", cpu_ns), ("cuda:0", gpu_ns)):
        if ns is None:
            continue
        events.append(
            model.Calibrated(
                case=key, device=place, estimate_ns=ns, calls_per_block=1, blocks=1, rounds=8, threads=threads,
                stable=True,
            )
        )  # fmt: skip
        for index in range(1, 9):
            wobble = 1 + (index - 4.5) / 100_000 * (1 if place == "cpu" else -1)
            found = {model.LATENCY: ns, **((cpu if place == "cpu" else gpu) or {})}
            samples: dict[str, tuple[float, ...]] = {name: (wobble * value,) for name, value in found.items()}
            events.append(
                model.DeviceSampled(case=key, device=place, round_index=index, calls_per_block=1, samples=samples)
            )
    return [*events, end or model.CaseFinished(case=key)]


def sizes_of(run):
    """The sizes behind the only answer of a run."""
    (answer,) = answers(run)
    return [size.size for size in answer.report.resident.timed]


SMALL, MIDDLE, LARGE = (model.Case("matmul", size) for size in (16, 64, 256))
CASES = (SMALL, MIDDLE, LARGE)
ALL_WELL = [*timed(SMALL, 1e3, 2e4), *timed(MIDDLE, 1e4, 2.1e4), *timed(LARGE, 1e6, 3e4)]


# ------------------------------------------------------------------ which rows


def test_a_run_answers_from_all_its_sizes(words):
    (answer,) = answers(run_of(CASES, *ALL_WELL))
    found = answer.report.resident
    assert (answer.name, answer.report.threads) == ("matmul", 4)
    assert (found.kind, [change[:2] for change in found.changes]) == (FROM, [(64, 256)])
    words(answer.sentences[0])
    assert answer_lines(run_of(CASES, *ALL_WELL, model.RunFinished(status="done"))) == answer.sentences
    assert answer_lines(run_of(CASES, *ALL_WELL))[0] == so_far(answer.sentences[0])


@pytest.mark.parametrize("kind", ["oom", "error", "timeout", "crashed", "mismatch", "skipped", "unsupported"])
def test_a_row_that_failed_is_no_part_of_the_answer_although_it_has_times(kind):
    failed = model.CaseFailed(case=LARGE.key, kind=kind, message="No.")
    run = run_of(CASES, *timed(SMALL, 1e3, 2e4), *timed(MIDDLE, 1e4, 2.1e4), *timed(LARGE, 1e6, 3e4, end=failed))
    assert sizes_of(run) == [16, 64]
    assert "(16–64)" in answer_lines(run)[0]


def test_a_case_that_is_being_timed_counts_with_the_rounds_it_has():
    begun = timed(MIDDLE, 1e4, 2.1e4)[:-1]
    assert sizes_of(run_of(CASES, *timed(SMALL, 1e3, 2e4), *begun)) == [16, 64]


@pytest.mark.parametrize("failing", ["cpu", "cuda:0"])
def test_where_one_device_failed_in_all_cases_there_is_no_answer(words, failing):
    events: list[model.Event] = []
    for case in CASES:
        failed = model.CaseFailed(case=case.key, kind="oom", message="Full.", device=failing)
        events += timed(case, None if failing == "cpu" else 1e3, None if failing != "cpu" else 2e4, end=failed)
    run = run_of(CASES, *events, model.RunFinished(status="done"))
    assert answers(run) == ()
    assert as_data(run) == []
    (line,) = answer_lines(run)
    words(line)


def test_the_only_device_that_failed_in_all_cases_is_not_passed_over(words):
    failed = [model.CaseFailed(case=case.key, kind="error", message="No.", device="cpu") for case in CASES]
    run = run_of(CASES, *failed, model.RunFinished(status="done"), devices=(CPU,))
    words(answer_lines(run))
    assert len(answer_lines(run_of(CASES, *ALL_WELL, *failed[2:], devices=(CPU,)))) == 1


@pytest.mark.parametrize("devices", [(), (GPU,)])
def test_a_run_without_two_devices_does_not_speak_of_both(devices):
    skipped = [model.CaseFailed(case=case.key, kind="skipped", message="No.") for case in CASES]
    (line,) = answer_lines(run_of(CASES, *skipped, devices=devices))
    assert line.startswith("No size was timed, ")


def test_sweeps_of_other_workloads_variants_and_dtypes_answer_for_themselves():
    cases = (SMALL, model.Case("matmul", 16, dtype="float16"), model.Case("vector-dot", 16, variant="dot"))
    events = [event for case, cpu_ns in zip(cases, (1e3, 1e6, 1e6), strict=True) for event in timed(case, cpu_ns, 2e4)]
    run = run_of(cases, *events)
    assert [answer.name for answer in answers(run)] == ["matmul float32", "matmul float16", "vector-dot dot float32"]
    assert [line.partition(":")[0] for line in answer_lines(run)] == [answer.name for answer in answers(run)]
    assert [answer.report.resident.kind for answer in answers(run)] == [NEVER, ALWAYS, ALWAYS]


# ------------------------------------------------------------------ threads


def threaded(*counts, in_force=None):
    """Three sizes for each thread count; one thread takes four times as long."""
    cases = tuple(replace(case, threads=count) for count in counts for case in CASES)
    events: list[model.Event] = []
    for case in cases:
        threads = (in_force or {}).get(case.threads, case.threads)
        cpu_ns = {16: 1e3, 64: 1e4, 256: 1e6}[case.size] * (4 if threads == 1 else 1)
        events += timed(case, cpu_ns, {16: 2e4, 64: 2.1e4, 256: 3e4}[case.size], threads)
    return run_of(cases, *events)


@pytest.mark.parametrize("counts", [(1, 4), (4, 1), (1, 2, 4)])
def test_fewer_threads_are_a_column_of_the_sweep_with_most(counts):
    run = threaded(*counts)
    (answer,) = answers(run)
    assert answer.report.threads == 4
    assert [sweep[-1] for sweep in run.sweeps if not is_column(run, sweep)] == [4]
    assert [change[:2] for change in answer.report.resident.changes] == [(64, 256)]
    assert [change[:2] for change in answer.report.under(ONE_THREAD).changes] == [(16, 64)]
    assert any("one CPU thread" in line for line in answer.sentences)


def test_all_threads_stand_above_any_number():
    run = threaded(1, 0, in_force={0: 4})
    (answer,) = answers(run)
    assert answer.report.threads == 4
    assert [change.high for change in answer.report.under(ONE_THREAD).changes] == [64]


def test_the_row_beside_is_that_of_the_same_size_that_went_well():
    run = threaded(1, 4)
    row, other = (run.rows[replace(MIDDLE, threads=count).key] for count in (4, 1))
    assert row_with_threads(run, row, 1) is other
    assert row_with_threads(run, other, 4) is row
    assert row_with_threads(run, row, 4) is None
    assert row_with_threads(run, row, 2) is None
    failed = run.apply(model.CaseFailed(case=other.case.key, kind="oom", message=""))
    assert row_with_threads(failed, row, 1) is None


# ------------------------------------------------------------------ worlds, causes, clock


def test_worlds_come_from_their_own_rounds_and_those_without_are_absent(words):
    moved = {model.PAGEABLE: 5e6, PINNED_NS: 2e4, model.DEVICE: 4e2, model.DEVICE_WARM: 2e2}
    run = run_of(CASES, *timed(SMALL, 1e3, 2e4, gpu=moved), *timed(MIDDLE, 1e4, 2.1e4, gpu=moved),
                 *timed(LARGE, 1e6, 3e4, gpu=moved))  # fmt: skip
    (answer,) = answers(run)
    kinds = {key: found.kind for key, found in answer.report.conditions.items()}
    assert (kinds[RESIDENT], kinds[END_TO_END], kinds[PINNED], kinds[NO_LAUNCH]) == (FROM, NEVER, FROM, ALWAYS)
    words(answer.sentences[0])
    (plain,) = answers(run_of(CASES, *ALL_WELL))
    assert set(plain.report.conditions) == {RESIDENT}


def test_smallest_and_largest_are_those_of_the_sizes_not_of_the_order_or_the_names(words):
    cases = tuple(model.Case("matmul", size) for size in (1024, 256, 64))
    events: list[model.Event] = []
    for case in cases:
        parts = {model.ENQUEUE: 1e4, model.SYNCHRONISE: 5e3, model.DEVICE_WARM: 5e3}
        once = parts | {model.AS_WRITTEN: 1e3, model.SYNCED: 2e4}
        events += timed(case, case.size * 1e2, 2e4, cpu={model.AS_WRITTEN: case.size * 1e2}, gpu=once)
    (answer,) = answers(run_of(cases, *events))
    words(answer.sentences[1:])


def test_the_simulated_machine_spends_its_planted_launch():
    plan = plan_of(16, 64, simulation=replace(QUICK, noise=0.0, cpu_overhead_ns=20_000.0))
    (answer,) = answers(state_of(plan, swept(plan)[1]))
    resident = answer.report.cause(moved=False)
    assert resident.is_explained
    assert resident.largest[0] == LAUNCH
    assert any("At 16 " in line and CAUSES[LAUNCH] in line for line in answer.sentences)
