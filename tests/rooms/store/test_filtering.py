"""The filter of saved runs: what matches, and what a wrong one is told."""

from __future__ import annotations

import pytest

from cpugpu_tui.errors import UsageError
from cpugpu_tui.store import RunSummary
from cpugpu_tui.store.filtering import parse_filter

RUN = RunSummary(
    number=7, run_id="abc", series_id="s", name="matmul", status="done", started_wall_ns=1_768_000_000 * 10**9,
    duration_ns=1, hostname="node1", cases_ok=2, cases_failed=0, cases_skipped=0,
    devices=("Xeon 8480", "NVIDIA H200"), simulated=False, tags=("nightly",), baselines=("main",), machine="node7",
    gpus=("NVIDIA H200",), dtypes=("bfloat16",), sizes=(64, 2048),
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "gpu:h200", "GPU:H200 dtype:bf16 n>1000", "dtype:b", "cpu:xeon", "n<=64", "n=2048", "n:64", "n>=2e3",
     "name:mat", "status:do", "date:2026-01", "host:node7", "tag:night", "#nightly", "baseline:main", "xeon matmul",
     "text:baseline"],
)  # fmt: skip
def test_a_run_matches_by_its_content(text: str) -> None:
    assert parse_filter(text).matches(RUN)


@pytest.mark.parametrize(
    "text",
    ["gpu:xeon", "cpu:h200", "gpu:h200 dtype:f32", "n>2048", "n<64", "n=100", "status:failed", "date:2025",
     "host:node2", "#weekly", "matmul jacobian"],
)  # fmt: skip
def test_a_run_without_that_content_does_not(text: str) -> None:
    assert not parse_filter(text).matches(RUN)


@pytest.mark.parametrize(
    ("text", "value", "remedy"),
    [("gpuu:h200", "gpuu:", "gpu:"), ("foo:bar", "foo:", "text:foo:bar"), ("n>x", "'x'", "n>1000"),
     ("n>", "n>", "n>1000"), ("n>1.5", "1.5", "n>1000"), ("dtype:int8", "int8", "bfloat16"),
     ("status:odd", "odd", "stopped"), ("date:today", "today", "date:2026"), ("gpu:", "gpu:", "gpu:h200"),
     ("speedup>3", "speedup>3", "n>1000")],
)  # fmt: skip
def test_a_wrong_filter_is_told_its_value_and_what_to_write(text: str, value: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_filter(f"matmul {text}")
    assert value in caught.value.message
    assert remedy in caught.value.remedy
