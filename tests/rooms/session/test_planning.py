"""From typed text to a plan: accepted values, and errors for the others."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui.config.parsing import FieldError, parse_simulation, parse_threads
from cpugpu_tui.config.sizes import MAX_CASES, parse_sizes, sizes_text
from cpugpu_tui.errors import EXIT_USAGE
from cpugpu_tui.model import AS_WRITTEN, KERNELS, MAX_SIZE, METRICS, THROUGHPUT, Case, Simulation
from cpugpu_tui.session.planning import PlanRequest, build_plan

SIZES = st.integers(1, MAX_SIZE)


def assert_said_well(error):
    """Assert that an error has a sentence of cause and one of remedy, without names of exceptions."""
    assert error.exit_code == EXIT_USAGE
    for sentence in (error.message, error.remedy):
        assert re.fullmatch(r"[^\n]+[.…?]", sentence), sentence
        assert "Error" not in sentence


# ------------------------------------------------------------------ sizes


@given(st.lists(SIZES, min_size=1, max_size=20, unique=True))
def test_a_list_of_sizes_comes_back(sizes):
    assert parse_sizes(", ".join(map(str, sizes))) == parse_sizes(sizes_text(sizes)) == tuple(sizes)
    assert parse_sizes(",".join(map(str, sorted(sizes)))) == tuple(sorted(sizes))
    assert parse_sizes(", ".join(f"{size:,}".replace(",", "_") for size in sizes)) == tuple(sizes)


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 200))
def test_a_range_of_sizes_is_pythons(start, step, count):
    stop = start + step * count
    assert parse_sizes(f"{start}:{stop}:{step}") == tuple(range(start, stop, step))


@given(st.text() | st.text("0123456789:,.e+- ", max_size=20))
def test_any_text_gives_sizes_or_a_sentence(text):
    try:
        sizes = parse_sizes(text)
    except FieldError:
        return
    assert sizes
    assert len(set(sizes)) == len(sizes)
    assert all(1 <= size <= MAX_SIZE for size in sizes)


# ------------------------------------------------------------------ threads, simulation


def test_threads_are_counts_and_all():
    assert parse_threads("all") == (0,)
    assert parse_threads("1, 4,all,4") == (1, 4, 0)


def test_a_simulated_machine_is_default_or_what_is_said():
    assert parse_simulation("default") == Simulation()
    assert parse_simulation("") == Simulation()
    assert parse_simulation("noise=0.5, seed=3,gpus=0") == Simulation(noise=0.5, seed=3, gpus=0)


# ------------------------------------------------------------------ plans


def test_a_first_run_needs_no_word():
    plan = build_plan(PlanRequest())
    assert plan.name == "quick"
    assert [case.size for case in plan.cases] == [16, 50, 100, 200, 500, 1000, 2048]
    assert {(case.workload, case.dtype, case.threads, case.variant) for case in plan.cases} == {
        ("matmul", "float32", 0, "default")
    }
    # The profiler takes 4 s to load on an H200, and a first look has ten.
    assert set(plan.metrics) == set(METRICS) - {KERNELS, THROUGHPUT, AS_WRITTEN}, "no publication's clock"
    assert build_plan(PlanRequest(("matmul",))).metrics == METRICS
    assert plan.devices == ("auto",)


def test_the_publications_sweeps_are_theirs():
    sweep = build_plan(PlanRequest(("matmul-sweep",)))
    assert [case.size for case in sweep.cases] == list(range(1, 10_000, 50))
    assert sweep.budget_s == 1.0
    dot = build_plan(PlanRequest(("vector-dot",)))
    assert [(case.size, case.variant) for case in dot.cases] == [
        (10**k, variant) for k in range(2, 9) for variant in ("matmul", "dot")
    ]
    assert dot.budget_s == 5.0


def test_a_sweep_of_over_20_sizes_has_a_second_per_device_and_case():
    assert build_plan(PlanRequest(("vector-dot",), sizes="1:21:1", variant="dot")).budget_s == 5.0
    assert build_plan(PlanRequest(("vector-dot",), sizes="1:22:1", variant="dot")).budget_s == 1.0


def test_a_workload_runs_at_its_own_sizes_and_a_case_only_once():
    plan = build_plan(PlanRequest(("matmul", "quick"), threads="1,all", devices=("cpu", "cuda", "cpu")))
    assert (plan.name, plan.devices, len(plan.cases)) == ("matmul+quick", ("cpu", "cuda"), 16)
    assert plan.cases[:2] == (Case("matmul", 16, threads=1), Case("matmul", 16))
    assert len({case.key for case in plan.cases}) == 16


def test_what_a_person_names_is_for_the_workloads_of_a_preset_that_have_it():
    moved = build_plan(PlanRequest(("transfer",), variant="h2d-pageable"))
    assert {(case.workload, case.variant) for case in moved.cases} == {
        ("transfer", "h2d-pageable"), ("transfer-model", "h2d"), ("transfer-model", "d2h"),
    }  # fmt: skip
    searched = build_plan(PlanRequest(("transfer",), find_crossover=True, max_size="1e6"))
    highest = {w: max(c.size for c in searched.cases if c.workload == w) for w in ("transfer", "transfer-model")}
    assert highest == {"transfer": 1_000_000, "transfer-model": 1}


@pytest.mark.parametrize(
    "request_",
    [
        PlanRequest(("mnist-mlp",), find_crossover=True),
        PlanRequest(("transfer-model",), find_crossover=True),
        PlanRequest(("matmul",), sizes="64", find_crossover=True),
        PlanRequest(("matmul", "transfer-model"), find_crossover=True),
    ],
    ids=lambda request: "+".join(request.names),
)
def test_a_search_with_one_size_is_refused(request_, words):
    with pytest.raises(FieldError) as caught:
        build_plan(request_)
    assert caught.value.field == "sizes"
    assert_said_well(caught.value)
    assert "--max-size" in caught.value.remedy
    assert ("mnist-width" in caught.value.remedy) == (request_.names == ("mnist-mlp",))
    words(str(caught.value))


def test_a_search_of_one_size_has_a_range_with_a_larger_end():
    plan = build_plan(PlanRequest(("mnist-mlp",), find_crossover=True, max_size="4096"))
    sizes = [case.size for case in plan.cases]
    assert (min(sizes), max(sizes)) == (32, 4096)


def test_a_range_without_a_step_is_a_search_with_exactly_these_rounds():
    plan = build_plan(PlanRequest(("matmul",), sizes="16:4096", rounds=7))
    assert plan.search is not None
    assert (plan.rounds, plan.max_rounds) == (7, 7)
    assert len(plan.cases) < 10
    listed = build_plan(PlanRequest(("matmul",), sizes="16:64:16", rounds=7))
    assert (listed.search, len(listed.cases)) == (None, 3)


def test_a_variant_has_one_name():
    """Otherwise `default` and `matmul` would be two rows of the same case."""
    named = build_plan(PlanRequest(("vector-dot",), sizes="100", variant="matmul"))
    assert build_plan(PlanRequest(("vector-dot",), sizes="100", variant="default")).cases == named.cases


def test_several_variants_make_a_row_each_and_each_must_exist():
    both = build_plan(PlanRequest(("softmax",), sizes="8,16", variant="default,compiled"))
    assert [(case.size, case.variant) for case in both.cases] == [
        (size, variant) for size in (8, 16) for variant in ("default", "compiled")
    ]
    for wrong in ("default,compield", "default,,compiled", "compiled"):
        with pytest.raises(FieldError) as error:
            build_plan(PlanRequest(("softmax" if wrong != "compiled" else "sparse-matmul",), variant=wrong))
        assert error.value.field == "variant"


def test_a_survey_searches_each_workload_and_leaves_out_those_without_the_dtype():
    plan = build_plan(PlanRequest(("survey",)))
    assert plan.search.limit_s
    surveyed = {case.workload for case in plan.cases}
    assert {"matmul", "attention", "svd", "random"} <= surveyed
    half = build_plan(PlanRequest(("survey",), dtype="half"))
    lacking = {"svd", "fft", "knn"}
    assert surveyed - {case.workload for case in half.cases} > lacking
    assert {case.dtype for case in half.cases} == {"float16"}


def test_a_survey_can_be_of_some_workloads_only(words):
    plan = build_plan(PlanRequest(("survey",), only=("svd", "matmul")))
    assert plan.name == "survey"
    assert list(dict.fromkeys(case.workload for case in plan.cases)) == ["matmul", "svd"]
    for only, dtype, field in ((("svd", "fftt"), None, "only"), (("svd",), "bfloat16", "dtype")):
        with pytest.raises(FieldError) as caught:
            build_plan(PlanRequest(("survey",), only=only, dtype=dtype))
        assert caught.value.field == field
        words(str(caught.value))


def test_what_was_asked_for_is_in_the_plan():
    machine = Simulation(seed=5)
    plan = build_plan(
        PlanRequest(
            ("matmul",), "32", "float64", "2", devices=("cuda:1",), rounds=3, max_seconds=1.5, cache="warm",
            simulation=machine, gaps=True,
        )
    )  # fmt: skip
    assert plan.cases == (Case("matmul", 32, "float64", 2),)
    assert (plan.rounds, plan.max_seconds, plan.cache, plan.simulation) == (3, 1.5, "warm", machine)
    assert plan.devices == ("cuda:1",)
    assert plan.gaps


def test_the_runs_of_a_series_share_its_time():
    """Help said "of the whole run", and each of them had the whole limit."""
    assert build_plan(PlanRequest(("matmul",), "32", repeat=3, max_seconds=60.0)).max_seconds == 20


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("sizes", {"sizes": f"1:{MAX_CASES}:1", "threads": "1,all"}),
        ("dtype", {"names": ("vector-dot",), "dtype": "float16"}),
        ("devices", {"devices": ("cuda:",)}),
        ("devices", {"devices": ("cuda:-1",)}),
        ("devices", {"devices": ("cpu\n",)}),
        ("rounds", {"rounds": 1001}),
        ("max_seconds", {"max_seconds": float("nan")}),
        ("case_timeout_s", {"case_timeout_s": -1.0}),
        ("rounds", {"names": ("matmul",), "sizes": "16:4096", "rounds": 4}),
    ],
)
def test_a_wrong_field_is_named_in_a_sentence(field, changes, words):
    with pytest.raises(FieldError) as caught:
        build_plan(PlanRequest(**changes))
    assert caught.value.field == field
    assert_said_well(caught.value)
    words(str(caught.value))


def test_sizes_are_those_of_the_first_axis_of_a_preset():
    cases = build_plan(PlanRequest(("transfer",), sizes="4,268435456")).cases
    assert {case.size for case in cases if case.workload == "transfer"} == {4, 268435456}
    assert {case.size for case in cases if case.workload == "transfer-model"} == {1}
    both = build_plan(PlanRequest(("mnist-mlp",), sizes="64")).cases
    assert {(case.workload, case.size) for case in both} == {("mnist-mlp", 64), ("mnist-mlp-wide", 64)}
