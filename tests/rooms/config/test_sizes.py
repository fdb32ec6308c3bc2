"""Sizes are read as people write them and as the program prints them, in one way everywhere."""

import pytest
from tests.helpers.command_line import FAST

from cpugpu_tui import time_on
from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.config.sizes import parse_size, parse_sizes, search_ends
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.store.filtering import parse_while_typed

READ = {
    "10M": [10_000_000], "100k": [100_000], "1.5k": [1500], "1.1M": [1_100_000], "256Ki": [262_144], "1 Mi": [2**20],
    "2^12": [4096], "2**12": [4096], "10^6": [10**6], "1e6": [10**6], "100k,1M": [10**5, 10**6],
    "1,000,000": [10**6], "4,096": [4096], "1,048,576": [2**20], "4,096, 65,536": [4096, 65, 536],
    "16,64,256": [16, 64, 256], "64,128": [64, 128], "100,300": [100, 300], "512, 256": [512, 256],
    "64,16, 32 ,16": [64, 16, 32], "1:10:4": [1, 5, 9], "1:4": [1, 2, 3], "8,1:4,2": [8, 1, 2, 3], "2^2:2^3:2": [4, 6],
    "1,000:1,004": [1000, 1001, 1002, 1003], "16, 1k,2,048": [16, 1000, 2048], "1000000000000": [10**12],
    "1e6,2.5e3": [10**6, 2500],
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_a_size_is_read_as_it_is_written(text):
    assert list(parse_sizes(text)) == READ[text]


AMBIGUOUS = ("262,144", "512,256", "1,000,2,000", "16,777,216", "10,32,064")


def test_a_comma_that_could_be_either_is_refused(words):
    said = []
    for text in (*AMBIGUOUS, "10X", "2^99", "1.5", "0k", "1,,2", "16:64:0", "16:"):
        with pytest.raises(FieldError) as refused:
            parse_sizes(text)
        said.append(str(refused.value))
    words(said)


def test_both_ends_of_a_search_are_read(cpugpu, tmp_path):
    assert search_ends("1,000:2^20") == (1000, 2**20)
    assert search_ends("1k:2k:500") is search_ends("16,32") is None
    plan = build_plan(PlanRequest(("matmul",), sizes="1,000:4k"))
    assert plan.search is not None
    assert (plan.cases[0].size, plan.cases[-1].size) == (1000, 4000)
    most = build_plan(PlanRequest(("matmul",), find_crossover=True, max_size="16,384"))
    assert max(case.size for case in most.cases) == parse_size("16,384") == 16_384


def test_every_face_reads_them(cpugpu, agents_here, write):
    cpugpu.here("time", "torch.ones(n)", "--n", "1k,4,096", "--simulate", FAST, "--rounds", "6", code=0)
    with cpugpu.store() as store:
        assert [case.size for case in store.plan_of(store.find("latest")).cases] == [1000, 4096]
        (run,) = store.runs(1)
    assert [parse_while_typed(text)[0](run) for text in ("n>=4k", "n=2^12", "n>1,000,000")] == [True, True, False]
    assert [row.size for row in time_on("torch.ones(n)", "1k,2^11", simulate=FAST).rows] == [1000, 2048]
    write('[presets.mine]\nworkload = "matmul"\nsizes = ["1,024", "2^11"]\n')
    cpugpu.here("run", "mine", "--simulate", FAST, code=0)
    with cpugpu.store() as store:
        assert [case.size for case in store.plan_of(store.find("latest")).cases] == [1024, 2048]
