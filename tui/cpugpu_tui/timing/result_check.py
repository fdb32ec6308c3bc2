"""Compare the results of all devices with a float64 reference, with each other, or by the workload's own measure."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.model import Case, Check, CodeTraced, Sketch
from cpugpu_tui.timing.changed_inputs import changes_inputs, numbers_beside, same
from cpugpu_tui.timing.own_code import (
    changed_arrays,
    nothing_left,
    refused,
    require_computed,
    require_settings,
    tried_operation,
)
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.timing.timers.timed_operation import Operation
from cpugpu_tui.workloads import Workload
from cpugpu_tui.workloads.code_workload import CodeInputs
from cpugpu_tui.workloads.containers import combined, copied, defined_numbers, doubled, moved, numbers
from cpugpu_tui.workloads.operators import watched_operators
from cpugpu_tui.workloads.outline import default_dtype
from cpugpu_tui.workloads.two_implementations import WAIT, TwoImplementations, leaves, waiting

REMEDY = "Do not use the times of this case. Report the mismatch."

UNDEFINED_ORDER_REMEDY = (
    "If these are indices, equal values may have theirs in any order: use stable=True, or return the values, too."
)


def check_results(
    case: Case, inputs: tuple[Any, ...], results: dict[str, Any], *, exact: bool, has_sketches: bool = False,
    whose: str = "",
) -> Check | None:  # fmt: skip
    """Compare the results of a case by device, with a float64 reference if `exact`. None if nothing is compared.

    `has_sketches` adds sketches of the first device's result, which another process compares with its own. `whose`
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
    """Return the workload's own measure of error; infinite instead of NaN, because no NaN exceeds the tolerance."""
    error = workload.error(case.variant, doubled(moved(numbers(result), "cpu")), doubles)
    return math.inf if error is None or math.isnan(error) else float(error)


def pairs(result: Any, reference: Any) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of tensors to compare, of the result and the reference, in float64 on the host.

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


def tried_sketches(case: Case) -> tuple[Sketch, ...]:
    """Return the sketches of what own code returns on the CPU, for a simulated comparison; none if it draws numbers."""
    op = tried_operation(case)
    if op is None or op.workload.draws:
        return ()
    return sketched(op.step(*op.inputs))


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


OTHER_SEED = 1
"""Added to the seed, for inputs with other numbers."""


def examine_side(
    op: Operation, workload: TwoImplementations, device: str, wait: Callable[[], None] | None,
    before_code: Set[int] | None = None,
) -> CodeTraced:  # fmt: skip
    """Call the implementation of a device three times outside the clock; the last time with other numbers.

    `wait` waits for the GPU; None for the CPU. `before_code`: see `own_code.examine`.

    Raises:
        CaseError: `refused`, with the trap's name and what to do.
    """
    name = workload.code_on(device).statement
    assert isinstance(op.inputs, CodeInputs)
    before = numbers_beside(op.inputs)
    with nothing_left(before_code), watched_operators(device) as seen:
        result = op.step(*op.inputs)
        _wait(wait)
    require_settings(op)
    require_computed(result, name)
    if not same(before, numbers_beside(op.inputs)):
        raise changed_arrays(name)
    library = library_of(result)
    op.waits_itself = any(hasattr(each, WAIT) for each in leaves(result))
    if op.waits_itself and not workload.waits.get(device):
        workload.waits[device], op.step = True, waiting(op.step)
    found = copied(numbers(result))
    reason = f"the result of {name} is {type(result).__name__}, which has no DLPack, no buffer and no numbers"
    if found and not seen.draws:
        again = copied(numbers(op.step(*op.inputs)))
        seen.draws = not same(found, again)
        reason = ""
    if seen.draws:
        reason = f"{name} draws random numbers"
        workload.draws = True
    elif found:
        _require_fresh(workload, op, device, found, name, wait)
    # Other libraries have streams of their own. The events of torch see the work on its stream alone.
    op.waits_for_all = True
    op.stream_seen = is_stream_seen(library, uses_side_stream=seen.uses_side_stream)
    return CodeTraced(
        case=op.case.key, device=device, operators=seen.count, library=library, not_compared=reason,
        peak_host_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )  # fmt: skip


def check_sides(
    case: Case, workload: TwoImplementations, results: dict[str, Any], *, has_sketches: bool = False
) -> Check | None:
    """Compare the results by the names of their code; None if one holds no numbers that can be compared.

    Raises:
        CaseError: `mismatch`, with the names of both.
    """
    named = {workload.code_on(device).statement: result for device, result in results.items()}
    if len(named) < len(results):  # the same text on both sides
        named = {f"{workload.code_on(device).statement} on {device}": each for device, each in results.items()}
    if not all(numbers(result) for result in named.values()):
        return None
    whose = f" of {list(named)[-1]}"
    return check_results(case, (), named, exact=False, has_sketches=has_sketches, whose=whose)


def library_of(result: Any) -> str:
    """Return the library of a result, such as `numpy`; empty for plain numbers."""
    names = [type(each).__module__.partition(".")[0] for each in leaves(result)]
    return next(({"jaxlib": "jax"}.get(name, name) for name in names if name != "builtins"), "")


def is_stream_seen(library: str, *, uses_side_stream: bool) -> bool:
    """Return whether torch's events on its own stream span all work of a call."""
    if library == "torch":
        return not uses_side_stream and "jax" not in sys.modules
    if library == "cupy" and "torch" in sys.modules:
        import torch

        ours: Any = torch.cuda.current_stream()
        return bool(sys.modules["cupy"].cuda.get_current_stream().ptr == ours.cuda_stream)
    return False


def _wait(wait: Callable[[], None] | None) -> None:
    if wait is not None:
        wait()


def _require_fresh(
    workload: TwoImplementations, op: Operation, device: str, found: tuple[Any, ...], name: str,
    wait: Callable[[], None] | None,
) -> None:  # fmt: skip
    """Refuse code that returns the same numbers for other inputs: it kept its result."""
    n, dtype, seed = op.host_inputs
    other = workload.place(op.case.variant, (n, dtype, seed + OTHER_SEED), device)
    results: list[Any] = []

    def call() -> None:
        result = other.function(*other)
        _wait(wait)
        results.append(copied(numbers(result)))

    if changes_inputs(other, call):
        raise changed_arrays(name)
    assert isinstance(op.inputs, CodeInputs)
    if same(found, results[0]) and not same(numbers_beside(op.inputs), numbers_beside(other)):
        raise refused(f"{name} gave the same result for other inputs: it is cached.",
                      "Remove the cache, or time the function below it.")  # fmt: skip
