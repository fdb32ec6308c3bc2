"""Claims of the publications, judged by numbers of an H200 and by planted numbers with other outcomes."""

import platform
from dataclasses import replace

import pytest
from tests.helpers.app.fake_run import DEVICES, finished, rounds

from cpugpu_tui import model
from cpugpu_tui.analysis.claim_numbers import DEPENDS, FAILS, HOLDS, OUTDATED, UNDECIDED, UNMEASURED, Numbers, TimedCase
from cpugpu_tui.analysis.claims import CLAIMS
from cpugpu_tui.compare.claims import REQUESTS, command, judge_all, numbers_of, points_of, stored_points, tally
from cpugpu_tui.decide.comparison import CPU_OBSERVED, CPU_WINS, GPU_OBSERVED, GPU_WINS, TIE, TOO_FEW, Comparison
from cpugpu_tui.decide.comparison import UNDECIDED as NO_WINNER
from cpugpu_tui.session.planning import build_plan
from cpugpu_tui.state.folding import folded
from cpugpu_tui.workloads import find

US, MS, S = 1e3, 1e6, 1e9
CPU = model.Ceilings("cpu", "Xeon", None, "box", "2.11", 0, 16, {"float32": 1.35e12}, {}, 1e11, 1 << 30, 1.3e3)
GPU = model.Ceilings(
    "cuda:0", "H200", "GPU-1", "box", "2.11", 0, 16, {"float32": 5.1e13}, {}, 4.29e12, 1 << 30, 1e4, 8.4e3
)


FEW = {TOO_FEW: 1, CPU_OBSERVED: 2, GPU_OBSERVED: 2}
"""Rounds behind each verdict without an interval."""


def point(workload, variant, size, cpu_ns, gpu_ns, verdict="", source="run 3", gpu=None, cpu=None, bytes_moved=0.0):
    speedup = cpu_ns / gpu_ns
    verdict = verdict or (GPU_WINS if speedup > 1.02 else CPU_WINS if speedup < 0.98 else TIE)
    comparison = Comparison(speedup, 0.995 * speedup, 1.005 * speedup, 8, verdict)
    if verdict in FEW:
        comparison = Comparison(speedup, None, None, FEW[verdict], verdict)
    on_cpu, on_gpu = {model.LATENCY: cpu_ns, **(cpu or {})}, {model.LATENCY: gpu_ns, **(gpu or {})}
    flops = find(workload).flops(size) if workload in ("conv2d", "matmul") else 2.0 * size
    return TimedCase(workload, variant, size, on_cpu, on_gpu, comparison, flops or 0.0, bytes_moved, 1, source)


H200 = (
    point("matmul", "default", 1, 1 * US, 17 * US, gpu={model.DEVICE: 5 * US}),
    point("matmul", "default", 101, 10.1 * US, 18.5 * US),
    point("matmul", "default", 9951, 802 * MS, 38.6 * MS, gpu={model.AS_WRITTEN: 0.73 * MS}),
    point("elementwise", "add", 100, 1.24 * US, 10.6 * US),
    point("elementwise", "add", 10**6, 14.4 * US, 12.2 * US),
    point("elementwise", "add", 10**8, 34.2 * MS, 288 * US),
    point("vector-dot", "matmul", 100, 2 * US, 16 * US),
    point("vector-dot", "matmul", 10**5, 40 * US, 17 * US),
    point("vector-dot", "matmul", 10**8, 760 * MS, 380 * US),
    point(
        "jacobian", "loop", 100, 4.23 * S, 6.85 * S, CPU_OBSERVED,
        gpu={model.MOVING: 60 * US, model.AS_WRITTEN: 7.9 * S}, cpu={model.AS_WRITTEN: 4.7 * S},
    ),
    point("jacobian", "loop", 1000, 500 * S, 70 * S, TOO_FEW),
    point("jacobian", "vectorized", 100, 3.95 * S, 943 * MS, gpu={model.H2D_PAGEABLE: 70 * US,
        model.D2H_PAGEABLE: 2 * MS}),
    point("mnist-mlp-width", "eager", 32, 500 * US, 960 * US),
    point("mnist-mlp-width", "eager", 4096, 9 * MS, 1 * MS),
    point("mnist-mlp", "eager", 32, 591 * US, 965 * US),
    point("mnist-mlp", "eager", 4096, 11.4 * MS, 1.75 * MS),
    point("mnist-mlp", "pageable", 32, 599 * US, 1010 * US),
    point("mnist-mlp-wide", "pageable", 32, 2.59 * MS, 1.24 * MS),
    point(
        "elementwise", "fresh", 10**8, 63.1 * MS, 566 * US, bytes_moved=2.4e9,
        gpu={model.DEVICE: 557 * US, model.AS_WRITTEN: 0.5 * S, model.SYNCED: 0.6 * S}, cpu={model.AS_WRITTEN: 65 * S},
    ),
)  # fmt: skip
"""The numbers of docs/publications.md and README."""


def judged(name, points, ceilings=(CPU, GPU)):
    found = judge_all(numbers_of(points, (), ceilings, simulated=False))
    return next(each for each in found if each.claim.id == name)


# ------------------------------------------------------------------ an H200


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("p1-cpu-rises", HOLDS), ("p1-gpu-flat", DEPENDS), ("p1-gpu-millisecond", FAILS),
        ("p1-addition", FAILS), ("p2-small", FAILS), ("p2-cpu-grows", HOLDS),
        ("p2-gpu-hardly", DEPENDS), ("p3-batch-100", HOLDS), ("p3-batch-1000", UNDECIDED),
        ("p3-moving", FAILS), ("p3-cores", FAILS), ("p3-copies", FAILS),
        ("p3-synchronise", FAILS), ("p3-networks", HOLDS), ("p3-convolutions", UNMEASURED),
        ("p3-batches", HOLDS), ("p4-times", HOLDS), ("p4-units", HOLDS),
        ("p4-reason", FAILS), ("p5-small", HOLDS), ("p5-wide", HOLDS),
        ("p5-copies", FAILS), ("old-variables", OUTDATED),
    ],
)  # fmt: skip
def test_on_an_h200(words, name, outcome):
    found = judged(name, H200)
    assert found.outcome == outcome
    words(found.here)


def test_without_any_number_nothing_is_said_and_every_claim_says_what_it_needs():
    for found in judge_all(Numbers()):
        assert found.outcome == (OUTDATED if found.claim.outdated else UNMEASURED), found
        assert found.here
        assert found.sources == ()
        assert bool(command(found)) != found.claim.outdated, found.claim.id


def test_outdated_claims_say_why():
    assert [claim.id for claim in CLAIMS if claim.outdated] == ["old-static-graphs", "old-variables", "old-one-vendor"]
    assert all(bool(claim.reason) == claim.outdated for claim in CLAIMS)


# ------------------------------------------------------------------ machines that are otherwise


@pytest.mark.parametrize(
    ("name", "points", "outcome"),
    [
        # No size is large enough to say that it stays flat.
        ("p1-gpu-flat", [point("matmul", "default", n, US, 17 * US) for n in (1, 51, 301)], UNMEASURED),
        ("p1-gpu-flat", [point("matmul", "default", n, US, 17 * US) for n in (1, 301, 9951)], HOLDS),
        ("p1-gpu-flat", [point("matmul", "default", n, US, n * US) for n in (1, 301, 9951)], FAILS),
        ("p1-cpu-rises", [point("matmul", "default", n, US, US) for n in (1, 301, 9951)], FAILS),
        ("p1-cpu-rises", [point("matmul", "default", n, US, US) for n in (1, 30, 300)], UNMEASURED),
        ("p1-gpu-millisecond", [point("matmul", "default", 9951, S, 1.2 * MS)], HOLDS),
        ("p1-addition", [point("elementwise", "add", 10**8, 1 * MS, 2 * MS)], HOLDS),
        ("p1-addition", [point("elementwise", "add", 10**4, 1 * US, 9 * US)], UNMEASURED),
        ("p1-addition", [point("elementwise", "add", 10**8, 1, 1, NO_WINNER)], UNDECIDED),
        (
            "p1-addition",
            [point("elementwise", "add", 10**6, 3 * US, US), point("elementwise", "add", 10**8, 3 * MS, 4 * MS)],
            DEPENDS,
        ),
        ("p2-small", [point("vector-dot", "matmul", n, 10 * US, 15 * US) for n in (100, 10**4)], HOLDS),
        (
            "p2-small",
            [point("vector-dot", "matmul", 100, US, 9 * US), point("vector-dot", "matmul", 10**4, 8 * US, 9 * US)],
            DEPENDS,
        ),
        ("p3-batch-100", [point("jacobian", "loop", 100, 9 * S, 4 * S)], FAILS),
        # Timed once each, and 5 % apart: nobody can say.
        ("p3-batch-100", [point("jacobian", "loop", 100, 4 * S, 4.2 * S, TOO_FEW)], UNDECIDED),
        ("p3-batch-1000", [point("jacobian", "loop", 1000, 500 * S, 70 * S, GPU_OBSERVED)], HOLDS),
        ("p3-batch-100", [point("jacobian", "loop", 100, 4 * S, 4 * S)], FAILS),
        ("p3-moving", [point("jacobian", "loop", 100, S, 2 * S, gpu={model.MOVING: 2.1 * MS})], HOLDS),
        ("p3-cores", [point("jacobian", "loop", 100, S, 2 * S, gpu={model.KERNELS: 1.8 * S})], HOLDS),
        ("p3-cores", [point("jacobian", "loop", 100, S, 2 * S, gpu={model.KERNELS: 0.1 * S})], FAILS),
        (
            "p3-copies",
            [point("jacobian", "loop", 100, S, 2 * S, gpu={model.H2D_PAGEABLE: 3 * S, model.D2H_PAGEABLE: S})],
            HOLDS,
        ),
        # A reason for being slower cannot hold where it is not slower.
        (
            "p3-copies",
            [point("jacobian", "loop", 100, 4 * S, 2 * S, gpu={model.H2D_PAGEABLE: 3 * S, model.D2H_PAGEABLE: S})],
            FAILS,
        ),
        ("p3-synchronise", [point("jacobian", "loop", 100, 1, 10 * US, gpu={model.SYNCHRONISE: 8 * US})], HOLDS),
        (
            "p3-batches",
            [point("mnist-mlp", "eager", 32, 2 * MS, MS), point("mnist-mlp", "eager", 256, 2 * MS, MS)],
            FAILS,
        ),
        ("p4-times", [point("elementwise", "fresh", 10**8, MS, 2 * MS)], FAILS),
        ("p4-reason", [point("elementwise", "fresh", 10**8, MS, 2 * MS, bytes_moved=8e9)], FAILS),
        ("p5-small", [point("mnist-mlp", "pageable", 32, 2 * MS, MS)], FAILS),
        ("p5-wide", [point("mnist-mlp-wide", "pageable", 32, MS, 2 * MS)], FAILS),
        (
            "p5-copies",
            [point("mnist-mlp", "pageable", 32, MS, 3 * MS), point("mnist-mlp", "eager", 32, MS, 0.9 * MS)],
            HOLDS,
        ),
        # A size that the publication does not speak of.
        ("p1-gpu-millisecond", [point("matmul", "default", n, S, n * 120) for n in (9951, 64_000)], HOLDS),
    ],
)  # fmt: skip
def test_on_other_machines(words, name, points, outcome):
    found = judged(name, points)
    assert found.outcome == outcome
    words(found.here)


def test_a_difference_is_that_of_two_cases_of_one_run():
    """A step with copies of one run was held against a step without them of a newer one, which was slower."""
    newer = point("mnist-mlp", "eager", 32, MS, 1.26 * MS, source="run 9")
    same = point("mnist-mlp", "eager", 32, MS, 1.09 * MS)
    found = judged("p5-copies", [newer, point("mnist-mlp", "pageable", 32, MS, 1.22 * MS), same])
    assert "Copies are 11 % of the step" in found.here
    assert found.sources == ("run 3",)


def test_arithmetic_is_the_reason_where_memory_is_fast_enough(words):
    fast_memory = replace(GPU, flops={"float32": 1e9}, copy_bytes_per_s=1e15)
    found = judged("p4-reason", [point("elementwise", "fresh", 10**8, S, 250 * MS, bytes_moved=2.4e9)], [fast_memory])
    assert found.outcome == HOLDS
    words(found.here)


def test_a_claim_about_the_machine_is_measured_by_the_machine_card():
    found = judged("p4-units", H200, ceilings=[CPU])
    assert (found.outcome, command(found)) == (UNMEASURED, "cpugpu-tui machine --measure")
    assert command(judged("p4-reason", H200, ceilings=[])) == "cpugpu-tui machine --measure"


@pytest.mark.parametrize(("small", "large", "outcome"), [(8.0, 40.0, HOLDS), (8.0, 20.0, DEPENDS), (4.0, 20.0, FAILS)])
def test_convolutions_are_held_against_products_of_as_many_flops(words, small, large, outcome):
    products = [
        point("matmul", "default", n, 8 * US, (8 / gain) * US) for n, gain in ((144, 5.0), (300, 9.0), (576, 20.0))
    ]
    layers = [point("conv2d", "channels-last", n, 8 * US, (8 / gain) * US) for n, gain in ((9, small), (72, large))]
    found = judged("p3-convolutions", [*products, *layers])
    assert found.outcome == outcome
    words(found.here)
    assert judged("p3-convolutions", [products[1], *layers]).outcome == UNMEASURED


# ------------------------------------------------------------------ what measures them


@pytest.mark.parametrize("name", REQUESTS)
def test_each_request_is_a_plan_that_gives_what_the_claim_needs(name):
    """A GPU that is 4× faster at every size gives each claim an outcome."""
    plan = build_plan(REQUESTS[name])
    gpu = {model.MOVING: MS, model.H2D_PAGEABLE: US, model.D2H_PAGEABLE: US, model.SYNCHRONISE: US}
    points = [point(case.workload, case.variant, case.size, 4 * US * case.size, US * case.size, gpu=gpu, bytes_moved=1)
              for case in plan.cases]  # fmt: skip
    assert judged(name, points).outcome != UNMEASURED
    assert len(plan.cases) <= 8


def test_every_claim_that_can_be_measured_has_a_request_or_needs_the_card():
    without = {claim.id for claim in CLAIMS} - set(REQUESTS)
    assert without == {"p4-units", *(claim.id for claim in CLAIMS if claim.outdated)}


def test_the_command_repeats_the_request():
    assert (
        command(judged("p3-batch-100", H200))
        == "cpugpu-tui run jacobian --size 100 --variant loop,vectorized --rounds 6"
    )
    assert command(judged("p5-copies", H200)) == "cpugpu-tui run mnist-mlp --size 32 --scale small"


def test_the_tally_counts_what_there_is(words):
    claims = judge_all(numbers_of(H200, (), (CPU, GPU), simulated=False))
    words([tally(claims), tally([each for each in claims if each.claim.publication == "P4"])])


# ------------------------------------------------------------------ from runs


def events_of(plan, run_id, cpu_ns, gpu_ns, number=None):
    events: list[model.Event] = [
        model.RunStarted(run_id=run_id, series_id=run_id, plan=plan, environment={}, number=number),
        model.DevicesFound(devices=DEVICES),
    ]
    for case in plan.cases:
        events += [*rounds(case, cpu_ns, gpu_ns), finished(case)]
    return [*events, model.RunFinished(status="done")]


def state_of(plan, cpu_ns=4 * US, gpu_ns=US):
    return folded(events_of(plan, "now", cpu_ns, gpu_ns))


def test_only_finished_rows_of_float32_with_all_threads_count():
    cases = (
        model.Case("matmul", 64),
        model.Case("matmul", 64, "bfloat16"),
        model.Case("matmul", 64, threads=1),
        model.Case("matmul", 128),
    )
    state = state_of(model.Plan("p", cases))
    rows = dict(state.rows)
    rows[cases[3].key] = replace(rows[cases[3].key], status="mismatch")
    found = points_of(replace(state, rows=rows))
    assert [(each.workload, each.variant, each.size) for each in found] == [("matmul", "default", 64)]
    assert (found[0].comparison.verdict, found[0].source) == (GPU_WINS, "this run")


def test_times_with_free_cores_come_before_newer_ones_without():
    waited, free = (replace(point("matmul", "default", 256, ns, US), is_starved=ns > MS) for ns in (16 * MS, 186 * US))
    numbers = numbers_of([waited], [free], (), simulated=False)
    assert numbers.sweep("matmul", "default")[0].cpu_ns[model.LATENCY] == 186 * US


def save(store, plan, cpu_ns, gpu_ns):
    run_id = f"run-{len(store.runs())}"
    started, found, *events = events_of(plan, run_id, cpu_ns, gpu_ns)
    assert isinstance(started, model.RunStarted)
    assert isinstance(found, model.DevicesFound)
    store.begin_run(started)
    store.add_devices(run_id, found)
    for case in plan.cases:
        store.commit_cases(run_id, [[event for event in events if getattr(event, "case", None) == case.key]])
    finished_run = events[-1]
    assert isinstance(finished_run, model.RunFinished)
    store.finish_run(run_id, finished_run)
    return run_id


LOOP = model.Plan("jacobian", (model.Case("jacobian", 100, variant="loop"),))


def saved(store, hostname="", **more):
    options = {"simulated": False, "without": "", **more}
    return stored_points(store, hostname or platform.node(), (), (), **options)  # type: ignore[arg-type]


def test_saved_runs_speak_the_newest_first_and_the_run_on_the_screen_before_them(store):
    save(store, LOOP, 1 * MS, 9 * MS)
    save(store, LOOP, 9 * MS, 1 * MS)
    stored = saved(store)
    found = judge_all(numbers_of((), stored, (), simulated=False))
    batch = next(each for each in found if each.claim.id == "p3-batch-100")
    assert (batch.outcome, batch.sources) == (FAILS, ("run 2",))
    current = points_of(state_of(LOOP, 1 * MS, 9 * MS))
    found = judge_all(numbers_of(current, stored, (), simulated=False))
    batch = next(each for each in found if each.claim.id == "p3-batch-100")
    assert (batch.outcome, batch.sources) == (HOLDS, ("this run",))


def test_simulated_and_real_runs_and_other_machines_never_mix(store):
    save(store, replace(LOOP, simulation=model.Simulation()), 1 * MS, 9 * MS)
    assert saved(store) == ()
    assert [each.source for each in saved(store, simulated=True)] == ["run 1"]
    assert saved(store, "another-box", simulated=True) == ()
    simulated = replace(GPU, simulated=True)
    assert numbers_of((), (), (CPU, simulated), simulated=True).cpu is None


def test_no_more_runs_are_read_than_it_takes(store, monkeypatch):
    for _ in range(5):
        save(store, LOOP, 1 * MS, 9 * MS)
    save(store, model.Plan("transfer", (model.Case("transfer", 4096, variant="d2d"),)), 1 * MS, 9 * MS)
    read: list[str] = []
    load = store.load
    monkeypatch.setattr(store, "load", lambda run_id: read.append(run_id) or load(run_id))
    saved(store)
    assert read == ["run-4"]
    # The run on the screen is among the saved ones; it is not read again.
    read.clear()
    saved(store, without="run-4")
    assert read == ["run-3"]


def test_an_older_run_with_a_gpu_counts_where_the_newest_had_none(store):
    save(store, LOOP, 1 * MS, 9 * MS)
    run_id = "without"
    events = [event for event in events_of(LOOP, run_id, 1 * MS, 1) if getattr(event, "device", "cpu") == "cpu"]
    started, _, *rest = events
    assert isinstance(started, model.RunStarted)
    store.begin_run(started)
    store.add_devices(run_id, model.DevicesFound(devices=DEVICES[:1]))
    store.commit_cases(run_id, [[event for event in rest if not isinstance(event, model.RunFinished)]])
    found = judge_all(numbers_of((), saved(store), (), simulated=False))
    assert next(each.sources for each in found if each.claim.id == "p3-batch-100") == ("run 1",)
