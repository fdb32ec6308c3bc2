"""Invalid sizes, threads, devices, percentages and simulated machines: the field at fault, and the error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.helpers.golden import GoldenWords

from cpugpu_tui.config.parsing import (
    MAX_CASES,
    FieldError,
    check_device,
    check_dtype,
    parse_percent,
    parse_simulation,
    parse_sizes,
    parse_threads,
)
from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads import catalogue

WORKLOADS = {info.name: info for info in catalogue()}


@pytest.mark.parametrize(
    ("parse", "field", "texts"),
    [
        (parse_sizes, "sizes", ("x", "16,", "1:", "0", "1.5", "1e99", "10:1:2", "1:2:3:4", f"1:{MAX_CASES * 2}:1")),
        (parse_threads, "threads", ("few", "0", "5000")),
        (check_device, "devices", ("gpu", "cuda:x")),
        (partial(check_dtype, WORKLOADS["mnist-mlp"]), "dtype", ("int8", "float64")),
        (parse_simulation, "simulation", ("nose=1", "qqq=1", "noise=loud", "pace=-1", "noise=inf")),
    ],
    ids=["sizes", "threads", "device", "dtype", "simulation"],
)
def test_an_error_names_the_field_and_the_value(
    parse: Callable[[str], object], field: str, texts: tuple[str, ...], words: GoldenWords
) -> None:
    errors = []
    for text in texts:
        with pytest.raises(FieldError) as caught:
            parse(text)
        assert caught.value.field == field
        assert caught.value.remedy
        errors.append(str(caught.value))
    words(errors)


@pytest.mark.parametrize("text", ["0.05", "-5%", "2000%"])
def test_a_percentage_needs_its_sign(text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_percent(text)
