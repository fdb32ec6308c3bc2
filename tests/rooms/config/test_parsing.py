"""Invalid sizes, threads, devices, percentages and simulated machines: the field at fault, and the error."""

from functools import partial

import pytest

from cpugpu_tui.config import parsing
from cpugpu_tui.config.sizes import MAX_CASES, parse_sizes
from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads import catalogue

WORKLOADS = {info.name: info for info in catalogue()}


@pytest.mark.parametrize(
    ("parse", "field", "texts"),
    [
        (parse_sizes, "sizes", (
            "x", "", "16,,", "16;32", "1:", ":5", "5:5", "::", "0", "-5", "1.5", "0x10", "nan", "inf", "1e99",
            "9" * 5000, "10:1:2", "1:10:0", "1:10:-1", "1:2:3:4", "1:1e9", f"1:{MAX_CASES * 2}:1",
        )),
        (parsing.parse_threads, "threads", ("few", "", "0", "-1", "1.5", "1,,2", "4097")),
        (parsing.check_device, "devices", ("gpu", "cuda:x")),
        (partial(parsing.check_dtype, WORKLOADS["mnist-mlp"]), "dtype", ("int8", "float64", "5,5,abc", "fp32,bf16")),
        (parsing.parse_simulation, "simulation", ("nose=1", "qqq=1", "noise", "noise=", "noise=loud", "noise=nan",
                                                        "seed=1.5", "pace=-1", "noise=inf")),
    ],
    ids=["sizes", "threads", "device", "dtype", "simulation"],
)  # fmt: skip
def test_an_error_names_the_field_and_the_value(parse, field, texts, words):
    errors = []
    for text in texts:
        with pytest.raises(parsing.FieldError) as caught:
            parse(text)
        assert caught.value.field == field
        assert caught.value.remedy
        assert len(caught.value.message) < 200
        errors.append(str(caught.value))
    words(errors)


@pytest.mark.parametrize(("text", "named"), [("1" * 400, "too large"), ("1e999", "too large"), ("16:", "'16:'")])
def test_a_size_is_called_what_it_is(text, named):
    """A long number "is not a whole number", and `16:` was answered with the end that a search adds to it."""
    with pytest.raises(UsageError) as error:
        parse_sizes(text)
    assert named in error.value.message


def test_a_comma_at_the_end_of_a_list_separates_nothing():
    """`--dtype float32,` was refused as several dtypes, `--size 1,2,` because a number was missing."""
    assert parse_sizes("1,2,") == parse_sizes("1, 2, ") == (1, 2)
    assert parsing.parse_threads("1,all,") == (1, 0)
    assert parsing.check_dtype(WORKLOADS["mnist-mlp"], "fp32,") == "float32"
    assert parsing.parse_bands("latency=2%,", {"latency": 0.0}) == {"latency": 0.02}
