"""The parts of one call: they add up, a rest is reported, and kernels behind launches do not count twice."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui.analysis.costs import BACK, CAUSES, KERNELS, LAUNCH, TO_GPU, UNEXPLAINED, WAIT, decompose

TERM_NS = st.floats(1.0, 1e9)
COPY_NS = st.none() | TERM_NS


def taken_apart(measured_ns, launch_ns, device_ns, wait_ns, to_gpu_ns=None, back_ns=None):
    return decompose(measured_ns, launch_ns, device_ns, wait_ns, to_gpu_ns, back_ns)


# ------------------------------------------------------------------ parts and rest


def test_the_parts_of_a_resident_call_come_in_the_order_in_which_they_happen():
    found = taken_apart(20_000.0, 14_000.0, 2_000.0, 3_500.0)
    assert (found.parts, found.rest_ns) == (((LAUNCH, 14_000.0), (KERNELS, 2_000.0), (WAIT, 3_500.0)), 500.0)
    assert found.largest == (LAUNCH, 0.7)


def test_copies_come_first_and_last_and_fetching_is_the_wait():
    found = taken_apart(50_000.0, 14_000.0, 2_000.0, None, 28_000.0, 4_500.0)
    assert found.parts == ((TO_GPU, 28_000.0), (LAUNCH, 14_000.0), (KERNELS, 2_000.0), (BACK, 4_500.0))
    assert (found.rest_ns, found.largest) == (1_500.0, (TO_GPU, 0.56))


@given(TERM_NS, TERM_NS, TERM_NS, TERM_NS, COPY_NS, COPY_NS)
def test_parts_and_rest_add_up_to_what_was_measured(measured, launch, device, wait, to_gpu, back):
    found = taken_apart(measured, launch, device, wait, to_gpu, back)
    parts = dict(found.parts)
    total = math.fsum(parts.values()) + found.rest_ns
    assert total == pytest.approx(measured, rel=1e-9, abs=1e-6 * max(parts.values()))
    name, share = found.largest
    assert name in CAUSES
    assert all(found.share(part) <= share for part in parts.values())
    assert (TO_GPU in parts) == (BACK in parts) == (WAIT not in parts)
    assert (BACK in parts) == (to_gpu is not None and back is not None)


@given(TERM_NS, TERM_NS, TERM_NS, TERM_NS, st.floats(1e-3, 1e3))
def test_a_machine_that_is_slower_in_all_has_the_same_shares(measured, launch, device, wait, factor):
    one = taken_apart(measured, launch, device, wait)
    other = taken_apart(factor * measured, factor * launch, factor * device, factor * wait)
    for (name, part), (same_name, other_part) in zip(one.parts, other.parts, strict=True):
        assert name == same_name
        assert other.share(other_part) == pytest.approx(one.share(part), rel=1e-6, abs=1e-9 * one.largest[1])


@pytest.mark.parametrize("rest", [-0.2, -0.101, -0.099, 0.0, 0.099, 0.101, 0.9])
def test_a_rest_above_a_tenth_is_unexplained_in_either_direction(rest):
    """The rest is negative if launch and wait alone take longer than the whole call."""
    kernels_ns = 1.0
    found = taken_apart(1_000.0, (1 - rest) * 800.0, kernels_ns, (1 - rest) * 200.0 - (kernels_ns if rest > 0 else 0))
    assert found.rest_ns == pytest.approx(rest * 1_000.0, abs=1e-9)
    assert found.is_explained == (abs(rest) <= UNEXPLAINED)


# ------------------------------------------------------------------ kernels


@pytest.mark.parametrize(
    ("device", "visible"),
    [
        (2_000.0, 2_000.0),
        (2_500.0, 2_500.0),
        (9_000.0, 2_500.0),  # of many kernels most run while later ones are being queued
        (1e9, 2_500.0),
    ],
)
def test_of_the_kernels_only_what_the_other_parts_leave_is_waited_for(device, visible):
    found = taken_apart(20_000.0, 14_000.0, device, 3_500.0)
    assert dict(found.parts)[KERNELS] == visible
    assert found.rest_ns == 2_500.0 - visible


@pytest.mark.parametrize("copies", [(None, None), (5_000.0, 6_000.0)])
def test_where_the_others_overlap_no_kernel_is_seen(copies):
    found = taken_apart(10_000.0, 8_000.0, 2_000.0, 3_500.0, *copies)
    assert dict(found.parts)[KERNELS] == 0.0
    assert found.rest_ns < 0
    assert not found.is_explained


@given(TERM_NS, TERM_NS, TERM_NS, TERM_NS, COPY_NS, COPY_NS)
def test_kernels_neither_make_parts_overlap_nor_take_longer_than_they_ran(measured, launch, device, wait, to_gpu, back):
    found = taken_apart(measured, launch, device, wait, to_gpu, back)
    visible = dict(found.parts)[KERNELS]
    assert 0 <= visible <= device
    if visible > 0:
        assert found.rest_ns >= -1e-9 * measured
    if found.rest_ns > 1e-9 * measured:
        assert visible == device


# ------------------------------------------------------------------ what was not measured


@pytest.mark.parametrize("missing", range(4))
@pytest.mark.parametrize("value", [None, 0.0, -1.0, math.nan, math.inf])
def test_without_one_of_its_terms_a_call_is_not_taken_apart(missing, value):
    terms: list[float | None] = [20_000.0, 14_000.0, 2_000.0, 3_500.0]
    terms[missing] = value
    measured, launch, device, wait = terms
    assert decompose(measured, launch, device, wait) is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_nor_with_a_copy_that_has_no_time(value):
    assert decompose(100.0, 50.0, 20.0, 20.0, value, 5.0) is None
    assert decompose(100.0, 50.0, 20.0, 20.0, 5.0, value) is None


@pytest.mark.parametrize(("to_gpu", "back"), [(1.0, None), (None, 1.0)])
def test_one_copy_alone_is_no_way_there_and_back(to_gpu, back):
    assert taken_apart(100.0, 50.0, 20.0, 20.0, to_gpu, back) == taken_apart(100.0, 50.0, 20.0, 20.0)


ANY = TERM_NS | st.none() | st.floats()


@given(ANY, ANY, ANY, ANY, ANY, ANY)
def test_no_numbers_break_it(measured, launch, device, wait, to_gpu, back):
    found = decompose(measured, launch, device, wait, to_gpu, back)
    if found is not None:
        name, share = found.largest
        assert name in CAUSES
        assert not math.isnan(share)
        assert not math.isnan(found.rest_ns)
        assert found.is_explained in (True, False)
