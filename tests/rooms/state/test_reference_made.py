"""`cpugpu-tui reference make`: a compact file of a GPU's times, whatever ends the program."""

import gzip
import json
from typing import Any

import pytest

from cpugpu_tui.cli.running import reference
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE
from cpugpu_tui.render.gpus import SIMULATED
from cpugpu_tui.state.reference import read, shipped
from cpugpu_tui.workloads import PRESETS


@pytest.fixture
def short(monkeypatch):
    """Two of the twenty workloads."""
    preset = PRESETS["survey"]
    monkeypatch.setitem(PRESETS, "survey", preset._replace(parts=(preset.parts[0], preset.parts[13])))


def held(path):
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


@pytest.mark.usefixtures("short")
def test_each_size_is_timed_in_three_starts_that_differ(cpugpu, tmp_path):
    path = tmp_path / "gpu.json.gz"
    made = cpugpu.here("reference", "make", "-o", path, "--simulate", "gpu_start=0.1", code=EXIT_OK)
    assert made.out.startswith(SIMULATED)
    found = held(path)
    assert (found["gpu"], found["starts"], found["simulated"]) == ("simulated GPU", 3, True)
    sizes = [case[2] for case in found["cases"] if case[0] == "matmul"]
    assert sizes[:2] == [16, 2048]  # what matters most comes first
    assert sorted(sizes) == [16, 20, 30, 50, 70, 100, 140, 200, 300, 500, 700, 1000, 1400, 2000, 2048]
    for _, _, _, _, starts, _ in found["cases"]:
        assert len(starts) == 3
        assert all({"latency", "device", "end_to_end_pageable", "end_to_end_pinned"} <= {*each} for each in starts)
        assert len({tuple(each["latency"]) for each in starts}) == 3
    assert found["ceilings"]["flops"]["float32"] > 1e12
    assert found["readings"]["pcie_width"] == 16
    assert "Missing" not in made.err


@pytest.mark.usefixtures("short")
def test_the_file_names_no_machine_and_no_person(cpugpu, tmp_path):
    path = tmp_path / "gpu.json.gz"
    for _ in range(2):  # a file of the program's own is written again
        assert cpugpu.here("reference", "make", "-o", path, "--simulate", "default").code == EXIT_OK
    assert read(path.read_bytes(), "gpu").ceilings is not None
    ceilings = held(path)["ceilings"]
    assert (ceilings["hostname"], ceilings["uuid"], ceilings["clock"]) == ("", None, None)


@pytest.mark.usefixtures("short")
def test_a_start_that_is_cut_off_leaves_those_before_it(cpugpu, tmp_path, monkeypatch):
    starts = reference._starts

    def cut(*arguments):
        for number, state in enumerate(starts(*arguments)):
            if number == 2:
                raise KeyboardInterrupt
            yield state

    monkeypatch.setattr(reference, "_starts", cut)
    path = tmp_path / "gpu.json.gz"
    cpugpu.here("reference", "make", "-o", path, "--simulate", "default")
    assert held(path)["starts"] == 2
    assert [each.name for each in tmp_path.glob("*.gz*")] == ["gpu.json.gz"]


def test_what_the_time_leaves_out_matters_least(cpugpu, tmp_path):
    path = tmp_path / "gpu.json.gz"
    made = cpugpu.here("reference", "make", "-o", path, "--simulate", "pace=0.5", "--max-seconds", "20")
    found = held(path)
    assert made.code == EXIT_OK
    assert 0 < len(found["cases"]) < 400
    assert f"Missing: {423 - len(found['cases'])} of 423 sizes" in made.err
    plan = reference.plan_of(None)
    assert {case.workload for case in plan.cases[:20]} == {part.workload for part in PRESETS["survey"].parts}
    order = [(case.workload, case.size) for case in plan.cases]
    timed = [order.index((case[0], case[2])) for case in found["cases"]]
    assert max(timed) < len(timed) + plan.window  # cases of a window end together


@pytest.mark.usefixtures("short")
def test_a_failed_case_is_named(cpugpu, tmp_path):
    path = tmp_path / "gpu.json.gz"
    made = cpugpu.here("reference", "make", "-o", path, "--simulate", "error_size=100", code=EXIT_CASES_FAILED)
    assert "matmul/default/100/float32/tall: " in made.err
    assert 100 not in [case[2] for case in held(path)["cases"] if case[0] == "matmul"]


def test_it_needs_a_gpu_and_a_file(cpugpu, tmp_path):
    path = tmp_path / "gpu.json.gz"
    assert cpugpu.here("reference", "make", "-o", path, "--simulate", "gpus=0").code == EXIT_UNFIT
    assert not path.exists()
    assert cpugpu.here("reference", "make", "--simulate", "default").code == EXIT_USAGE


def test_the_shipped_references_are_small_and_of_real_gpus():
    assert {"h100", "h200"} <= set(shipped())
    for name, data in shipped().items():
        found = read(data, name)
        assert len(data) <= 300_000
        assert not found.simulated
        assert found.text.lower().startswith(f"{name}, ")
        assert found.ceilings is not None
        assert {case.workload for case in found.cases} == {part.workload for part in PRESETS["survey"].parts}
        assert all(len(case.starts) == found.starts == reference.STARTS for case in found.cases)
