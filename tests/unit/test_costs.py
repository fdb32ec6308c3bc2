"""One call taken apart: parts add up, a rest is told, what hides behind launches is not counted twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui.analysis.costs import (
    BACK,
    CAUSES,
    KERNELS,
    LAUNCH,
    TO_GPU,
    UNEXPLAINED,
    WAIT,
    Decomposition,
    decompose,
)

TERM_NS = st.floats(1.0, 1e9)


def taken_apart(
    measured_ns: float | None, launch_ns: float | None, device_ns: float | None, wait_ns: float | None,
    to_gpu_ns: float | None = None, back_ns: float | None = None, kernels: int = 1,
) -> Decomposition:  # fmt: skip
    found = decompose(measured_ns, launch_ns, device_ns, wait_ns, to_gpu_ns, back_ns, kernels)
    assert found is not None
    return found


# ------------------------------------------------------------------ parts and rest


def test_the_parts_of_a_resident_call_come_in_the_order_in_which_they_happen() -> None:
    found = taken_apart(20_000.0, 14_000.0, 2_000.0, 3_500.0)
    assert found.parts == ((LAUNCH, 14_000.0), (KERNELS, 2_000.0), (WAIT, 3_500.0))
    assert found.rest_ns == 500.0
    assert found.largest == (LAUNCH, 0.7)


def test_copies_come_first_and_last() -> None:
    found = taken_apart(50_000.0, 14_000.0, 2_000.0, 3_500.0, 28_000.0, 4_500.0)
    assert [name for name, _ in found.parts] == [TO_GPU, LAUNCH, KERNELS, WAIT, BACK]
    assert found.rest_ns == -2_000.0
    assert found.largest == (TO_GPU, 0.56)


@given(TERM_NS, TERM_NS, TERM_NS, TERM_NS, st.none() | TERM_NS, st.none() | TERM_NS, st.integers(1, 1000))
def test_parts_and_rest_add_up_to_what_was_measured(
    measured: float, launch: float, device: float, wait: float, to_gpu: float | None, back: float | None, kernels: int
) -> None:
    found = taken_apart(measured, launch, device, wait, to_gpu, back, kernels)
    total = math.fsum(part for _, part in found.parts) + found.rest_ns
    assert total == pytest.approx(measured, rel=1e-9, abs=1e-6 * max(part for _, part in found.parts))
    assert all(part > 0 for _, part in found.parts)
    name, share = found.largest
    assert name in CAUSES
    assert all(found.share(part) <= share for _, part in found.parts)
    assert (TO_GPU in dict(found.parts)) == (BACK in dict(found.parts)) == (to_gpu is not None and back is not None)


@given(TERM_NS, TERM_NS, TERM_NS, TERM_NS, st.integers(1, 1000), st.floats(1e-3, 1e3))
def test_a_machine_that_is_slower_in_all_has_the_same_shares(
    measured: float, launch: float, device: float, wait: float, kernels: int, factor: float
) -> None:
    one = taken_apart(measured, launch, device, wait, kernels=kernels)
    other = taken_apart(factor * measured, factor * launch, factor * device, factor * wait, kernels=kernels)
    for (name, part), (same_name, other_part) in zip(one.parts, other.parts, strict=True):
        assert name == same_name
        assert other.share(other_part) == pytest.approx(one.share(part), rel=1e-6)


@pytest.mark.parametrize("rest", [-0.2, -0.101, -0.099, 0.0, 0.099, 0.101, 0.9])
def test_a_rest_above_a_tenth_is_unexplained_in_either_direction(rest: float) -> None:
    found = taken_apart(1_000.0, (1 - rest) * 800.0, (1 - rest) * 100.0, (1 - rest) * 100.0)
    assert found.rest_ns == pytest.approx(rest * 1_000.0, abs=1e-9)
    assert found.is_explained == (abs(rest) <= UNEXPLAINED)


# ------------------------------------------------------------------ many kernels


@pytest.mark.parametrize(
    ("launch", "device", "kernels", "visible"),
    [
        (10.0, 100.0, 1, 100.0),  # one kernel starts when it is queued
        (10.0, 100.0, 10, 91.0),  # long ones hide nine of ten launches' time
        (100.0, 10.0, 10, 1.0),  # of short ones only the last is waited for
        (100.0, 100.0, 10, 10.0),
        (100.0, 100.0, 0, 100.0),  # an unknown count is one
        (100.0, 100.0, -3, 100.0),
    ],
)
def test_what_runs_while_later_kernels_are_queued_is_not_waited_for(
    launch: float, device: float, kernels: int, visible: float
) -> None:
    assert dict(taken_apart(1_000.0, launch, device, 5.0, kernels=kernels).parts)[KERNELS] == pytest.approx(visible)


@given(st.integers(1, 200), TERM_NS, TERM_NS)
def test_the_law_is_that_of_a_queue(kernels: int, launch: float, device: float) -> None:
    """Equal launches, equal kernels: each starts when it is queued and the one before it is done."""
    queued = done = 0.0
    for _ in range(kernels):
        queued += launch / kernels
        done = max(done, queued) + device / kernels
    visible = dict(taken_apart(1.0, launch, device, 1.0, kernels=kernels).parts)[KERNELS]
    assert launch + visible == pytest.approx(done, rel=1e-9)


# ------------------------------------------------------------------ what was not measured


@pytest.mark.parametrize("missing", range(4))
@pytest.mark.parametrize("value", [None, 0.0, -1.0, math.nan, math.inf])
def test_without_one_of_its_terms_a_call_is_not_taken_apart(missing: int, value: float | None) -> None:
    terms: list[float | None] = [20_000.0, 14_000.0, 2_000.0, 3_500.0]
    terms[missing] = value
    measured, launch, device, wait = terms
    assert decompose(measured, launch, device, wait) is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_nor_with_a_copy_that_has_no_time(value: float) -> None:
    assert decompose(100.0, 50.0, 20.0, 20.0, value, 5.0) is None
    assert decompose(100.0, 50.0, 20.0, 20.0, 5.0, value) is None


@pytest.mark.parametrize(("to_gpu", "back"), [(1.0, None), (None, 1.0)])
def test_one_copy_alone_is_no_way_there_and_back(to_gpu: float | None, back: float | None) -> None:
    assert taken_apart(100.0, 50.0, 20.0, 20.0, to_gpu, back) == taken_apart(100.0, 50.0, 20.0, 20.0)


ANY = TERM_NS | st.none() | st.floats()


@given(ANY, ANY, ANY, ANY, ANY, ANY, st.integers())
def test_no_numbers_break_it(
    measured: float | None, launch: float | None, device: float | None, wait: float | None, to_gpu: float | None,
    back: float | None, kernels: int,
) -> None:  # fmt: skip
    found = decompose(measured, launch, device, wait, to_gpu, back, kernels)
    if found is not None:
        name, share = found.largest
        assert name in CAUSES
        assert not math.isnan(share)
        assert not math.isnan(found.rest_ns)
        assert found.is_explained in (True, False)
