"""Work that people run: each agrees with float64, a planted error is caught in every workload, costs are torch's."""

import re

import pytest
import torch
from tests.helpers.command_line import ROOT

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import ITEMSIZE_BYTES, Case, CaseFinished, Plan
from cpugpu_tui.timing.own_code import examine
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.timing.timers.timed_operation import operation
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.workloads import PRESETS, Workload, find
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.own_code import own_code
from cpugpu_tui.workloads.presets import MORE, SURVEY, SURVEY_ALL, SURVEYED

NAMES = [name for name, item in REGISTRY.items() if type(item).__module__.startswith("cpugpu_tui.workloads.families.")]
BUILT_IN = [info.name for info in catalogue.catalogue()]
CASES = [(name, dtype) for name in NAMES for dtype in find(name).dtypes]

PLANTED = 1e-2
SURVEY_BYTES = 1e9
"""Memory of a case of the survey on one device, so that it runs with 4 GB in the host and 8 GB in the GPU."""


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    torch.manual_seed(1)  # `random` draws from it; 3 of its 6 standard deviations are exceeded by chance in 1 of 200
    yield
    torch.set_num_threads(before)


def variants(item):
    """Return those that run without a GPU."""
    return [name for name in item.steps() if "graph" not in name and not name.startswith("pinned")]


def checks(name, dtype="float32", size=None):
    """Yield for each variant its check, and a result of one call on the CPU."""
    item = find(name)
    for variant in variants(item):
        case = Case(name, size or item.sizes[0], variant=variant, dtype=dtype)
        machine = TorchMachine(Plan("test", (case,), devices=("cpu",)), {"threads": 1, "cpu": "Xeon"})
        inputs = machine.make_inputs(case)
        op = machine.timer("cpu").load(case, inputs)
        result = op.to_check(op.step(*op.inputs))
        yield (lambda found, c=case, m=machine, i=inputs: m.check(c, i, {"cpu": found}, exact=True)), result


def spoiled(result):
    """Yield the result with each of its tensors of numbers 1e-2 too large, and with all numbers 1e-2 higher."""
    parts = list(result) if isinstance(result, (tuple, list)) else [result]
    for at, part in enumerate(parts):
        if not part.is_floating_point() and not part.is_complex():
            continue
        size = float(part.norm()) / part.numel() ** 0.5
        for planted in (part * (1 + PLANTED), part + PLANTED * size):
            found = [planted if place == at else each for place, each in enumerate(parts)]
            yield tuple(found) if len(parts) > 1 else found[0]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_each_agrees_with_float64_at_its_smallest_size_in_every_element_type_that_it_lists(name, dtype):
    for check, result in checks(name, dtype):
        found = check(result)
        assert found.error <= found.tolerance / 2


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_planted_error_is_caught_in_every_workload(name):
    # Moments tell 1e-2 from chance only if there are many numbers.
    size = find(name).sizes[-1] if find(name).draws else None
    for check, result in checks(name, size=size):
        wrong = list(spoiled(result))
        assert wrong
        for each in wrong:
            with pytest.raises(CaseError) as error:
                check(each)
            assert error.value.kind == "mismatch"


@pytest.mark.parametrize("name", ["sort", "knn", "topk"])
def test_wrong_places_are_caught(name):
    for check, (numbers, places) in checks(name, size=find(name).sizes[1]):
        for wrong in (places.roll(1, 0), places.roll(1, -1) * 0, (places + 1) % places.max()):
            with pytest.raises(CaseError):
                check((numbers, wrong))


@pytest.mark.parametrize("name", NAMES)
def test_none_is_accused_by_the_traps_of_own_code(name, monkeypatch):
    item = find(name)
    for variant in item.steps():

        def inputs(n, variant=variant):
            return item.place(variant, item.inputs(n, torch.float32, torch.default_generator), "cpu")

        monkeypatch.setattr(torch, "made_inputs", inputs, raising=False)
        monkeypatch.setattr(torch, "made_step", item.variant(variant), raising=False)
        typed = CodeWorkload(own_code("torch.made_step(*inputs)", "inputs = torch.made_inputs(n)"))
        monkeypatch.setitem(REGISTRY, typed.name, typed)
        size = item.sizes[0]
        op = operation(
            Case(typed.name, size), typed.inputs(size, torch.float32, torch.Generator().manual_seed(1)), "cpu"
        )
        op.step(*op.inputs)
        traced = examine(op, typed, "cpu", None)
        assert traced.operators > 0
        assert not traced.on_cpu


@pytest.mark.parametrize("name", ["conv2d", "attention", "transformer-decode", "knn", "cnn", "cnn-training", "einsum"])
def test_flops_are_those_that_torch_counts(name):
    item = find(name)
    for size in item.sizes[:2]:
        assert item.flops(size) == Workload.flops(item, size) > 0


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"embedding", "sparse-matmul"}))
def test_bytes_are_those_of_inputs_and_result(name):
    """Except where only a part is read, and where torch has no shapes."""
    item = find(name)
    assert item.bytes_moved(item.sizes[1], 4) == Workload.bytes_moved(item, item.sizes[1], 4)


@pytest.mark.parametrize("part", [*SURVEYED, *MORE], ids=lambda part: part.workload)
def test_a_survey_fits_into_little_memory_and_stays_within_the_default_sizes(part):
    item = find(part.workload)
    assert item.sizes[0] == part.sizes[0] < part.sizes[-1] <= item.sizes[-1]
    for dtype in item.dtypes:
        assert item.costs(part.variants[0], part.sizes[-1], ITEMSIZE_BYTES[dtype]).memory_bytes < SURVEY_BYTES


def test_all_are_listed_after_the_publications_work_and_run_on_a_simulated_gpu(cpugpu):
    presets = [preset for preset in PRESETS.values() if preset.name not in (SURVEY, SURVEY_ALL)]
    parts = {part.workload for preset in presets for part in preset.parts}
    assert max(map(BUILT_IN.index, parts)) < min(map(BUILT_IN.index, NAMES))
    done = cpugpu("run", *NAMES, "--simulate", "default", "--size", "16,64", "--rounds", 2, "--json", "--no-save")
    assert done.code == EXIT_OK
    finished = {event.case.split("/")[0] for event in done.events if isinstance(event, CaseFinished)}
    assert finished == set(NAMES)


def test_the_page_names_each_with_its_default_sizes():
    page = (ROOT / "docs" / "catalogue.md").read_text()
    for name in NAMES:
        (line,) = [row for row in page.splitlines() if row.startswith("|") and f"`{name}`" in row and "…" in row]
        low, *_, high = find(name).sizes
        assert f"| {low:,} … {high:,} |" in line


def test_each_is_held_against_a_published_figure_with_its_source():
    page = (ROOT / "docs" / "crossovers.md").read_text()
    held = set(re.findall(r"^\| `([a-z0-9-]+)` \| .+\]", page, flags=re.MULTILINE))
    assert set(BUILT_IN) - {part.workload for part in MORE} <= held
