"""Compare the results of all devices with a float64 reference, with each other, or by the workload's own measure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.model import Case, Check, Sketch
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.workloads import Workload
from cpugpu_tui.workloads.containers import combined, defined_numbers, doubled, moved, numbers
from cpugpu_tui.workloads.outline import default_dtype

REMEDY = "Do not use the times of this case. Report the mismatch."

UNDEFINED_ORDER_REMEDY = (
    "If these are indices, equal values may have theirs in any order: use stable=True, or return the values, too."
)


def check_results(
    case: Case, inputs: tuple[Any, ...], results: dict[str, Any], *, exact: bool, has_sketches: bool = False,
    whose: str = "",
) -> Check | None:  # fmt: skip
    """Compare the results of a case by device, with a float64 reference if `exact`. None if nothing is compared.

    `has_sketches` adds those of the first device's result, for another process that compares its own with it. `whose`
    names the code that is compared, as ` of f`.

    Raises:
        CaseError: `mismatch`, also if a result is NaN.
    """
    workload = catalogue.find(case.workload)
    has_own_error = type(workload).error is not Workload.error
    if workload.draws and not has_own_error:
        return None
    for device, result in results.items():
        require_numbers(result, device)
    doubles = doubled(inputs) if exact else inputs
    if has_own_error:
        if not exact:
            return None
        against = "the inputs"
        errors = [_own_error(workload, case, result, doubles) for result in results.values()]
    elif exact or len(results) > 1 or has_sketches:
        against = "float64 on the CPU" if exact else next(iter(results))
        reference = _reference(workload, case, doubles) if exact else results[against]
        require_numbers(reference, against)
        compared = [(device, *pair) for device, result in results.items() for pair in pairs(result, reference)]
        for device, own, other in compared:
            require_size(own, device, other, against)
        scales = doubled(doubles)
        errors = [relative_error(own, other, workload.scale(other, *scales)) for _, own, other in compared]
    else:
        return None
    tolerance = workload.tolerance(case.dtype)
    if (error := max(errors)) > tolerance:
        raise CaseError(
            "mismatch",
            f"The results have an error of {error:.3g} (allowed: {tolerance:g})."
            if has_own_error
            else f"The results{whose} differ from {against} by {error:.3g} of their scale (allowed: {tolerance:g}).",
            UNDEFINED_ORDER_REMEDY if _all_integers(results) else REMEDY,
        )
    return Check(against, error, tolerance, sketched(next(iter(results.values()))) if has_sketches else ())


def _all_integers(results: dict[str, Any]) -> bool:
    return not any(
        each.is_floating_point() or each.is_complex() for result in results.values() for each in numbers(result)
    )


def _reference(workload: Workload, case: Case, doubles: tuple[Any, ...]) -> Any:
    import torch

    with default_dtype(torch.float64):  # for tensors that the step makes itself
        return workload.reference(case.variant, doubles)


def _own_error(workload: Workload, case: Case, result: Any, doubles: tuple[Any, ...]) -> float:
    """Return the workload's own measure; infinite for NaN, which no comparison would find too large."""
    error = workload.error(case.variant, doubled(moved(numbers(result), "cpu")), doubles)
    return math.inf if error is None or math.isnan(error) else float(error)


def pairs(result: Any, reference: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a result's numbers with those of the reference, float64 on the host: two tensors, or two of each kind.

    Floating-point numbers and integers are compared apart: large indices would hide errors of small values. Indices
    beside values, as of `sort`, are not compared.
    """
    own, other = defined_numbers(result), defined_numbers(reference)
    if len(own) == len(other) == 1:
        yield combined(own), combined(other)
        return
    for mine, right in zip(_by_kind(own), _by_kind(other), strict=True):
        if mine or right:
            yield combined(mine), combined(right)


def _by_kind(parts: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the floating-point and complex numbers, then the integers."""
    kinds: tuple[list[Any], list[Any]] = ([], [])
    for part in parts:
        kinds[not (part.is_floating_point() or part.is_complex())].append(part)
    return kinds


SUMS = 64
"""Sums of a sketch: they estimate the norm of a difference within 9 % (standard deviation)."""

CHUNK = 1 << 22
"""Elements that are summed at once: their numbers and signs take 100 MB."""


def sketched(result: Any) -> tuple[Sketch, ...]:
    """Return the sketches of a result's floating-point numbers and of its integers; those that it has."""
    return tuple(_sketch(combined(each).reshape(-1)) for each in _by_kind(defined_numbers(result)) if each)


def _sketch(values: Any) -> Sketch:
    """Return the sketch of a row of float64. The signs are a hash of the place, the same in every version of torch."""
    import torch

    sums = torch.zeros(SUMS, dtype=torch.float64)
    for start in range(0, len(values), CHUNK):
        part = values[start : start + CHUNK]
        place = torch.arange(start, start + len(part))
        for shift, factor in ((31, 0x1B873593CC9E2D51), (29, 0x5851F42D4C957F2D), (32, 1)):
            place = (place ^ (place >> shift)) * factor
        signed = torch.where(place & 1 == 1, part, -part)
        sums += torch.nn.functional.pad(signed, (0, -len(part) % SUMS)).reshape(-1, SUMS).sum(0)
    return Sketch(len(values), float(values.norm()), tuple(sums.tolist()))


def require_numbers(result: Any, where: str) -> None:
    """Check that a result can be compared.

    Raises:
        CaseError: the result holds no numbers.
    """
    if not numbers(result):
        raise CaseError(
            "error", f"The result ({where}) is not a tensor but {type(result).__name__}.",
            "Return a tensor from the step, or several in a tuple.",
        )  # fmt: skip


def require_size(result: Any, device: str, reference: Any, against: str) -> None:
    """Check that a result has as many elements as its reference.

    Raises:
        CaseError: `mismatch`.
    """
    if result.numel() != reference.numel():
        raise CaseError(
            "mismatch",
            f"The result on {device} has shape {list(result.shape)}, that of {against} has {list(reference.shape)}.",
            "Return the same on all devices and variants, or define `reference` for each variant.",
        )


def relative_error(result: Any, reference: Any, scale: float) -> float:
    """Return ‖result − reference‖ / scale; 0 for 0/0, and infinite for NaN."""
    difference = float((result.cpu().double().reshape(reference.shape) - reference).norm())
    if difference == 0.0:
        return 0.0
    # Infinite instead of NaN, because max() over the devices could return another device's small error.
    return difference / scale if scale and math.isfinite(difference) else math.inf
