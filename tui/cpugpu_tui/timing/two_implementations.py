"""What one call of an implementation did, of two that need not use torch, and what would make its times wrong."""

from __future__ import annotations

import inspect
import resource
import sys
from collections.abc import Callable, Set
from typing import Any

from cpugpu_tui.model import Case, Check, CodeTraced
from cpugpu_tui.timing.own_code import LAZY, nothing_left, refused, require_settings
from cpugpu_tui.timing.result_check import check_results
from cpugpu_tui.timing.timers.timed_operation import Operation
from cpugpu_tui.workloads.code_workload import CodeInputs
from cpugpu_tui.workloads.containers import combined, copied, numbers
from cpugpu_tui.workloads.operators import watched_operators
from cpugpu_tui.workloads.two_implementations import TwoImplementations, waiting

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
    before = _snapshot(op.inputs)
    with nothing_left(before_code), watched_operators(device) as seen:
        result = op.step(*op.inputs)
        _wait(wait)
    require_settings(op)
    if isinstance(result, LAZY):
        raise refused(f"{name} returns a {type(result).__name__}, which has computed nothing yet.",
                      "Use up its values inside, for example with list(...).")  # fmt: skip
    if not _same(before, _snapshot(op.inputs)):
        raise refused(f"{name} changes its inputs, so later calls do other work.",
                      "Let it work on a copy, for example x.copy().")  # fmt: skip
    library = library_of(result)
    if any(hasattr(each, "block_until_ready") for each in _leaves(result)):
        workload.waits, op.step = True, waiting(op.step)
    found = copied(numbers(result))
    reason = f"the result of {name} is {type(result).__name__}, which has no DLPack, no buffer and no numbers"
    if found and not seen.draws:
        again = copied(numbers(op.step(*op.inputs)))
        seen.draws = not _same(found, again)
        reason = ""
    if seen.draws:
        reason = f"{name} draws random numbers"
        workload.draws = True
    elif found:
        _require_fresh(workload, op, device, found, name, wait)
    # Other libraries have streams of their own. The events of torch see the work on its stream alone.
    op.waits_for_all = True
    op.stream_seen = is_stream_seen(library, uses_side_stream=seen.uses_side_stream)
    op.has_end_to_end = False
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
    names = [type(each).__module__.partition(".")[0] for each in _leaves(result)]
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


def _leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        result = list(result.values())
    return [leaf for each in result for leaf in _leaves(each)] if isinstance(result, (list, tuple)) else [result]


def _snapshot(inputs: CodeInputs) -> tuple[Any, ...]:
    """Return copies of all numbers that the code takes: its arguments, and what its set-up made beside them."""
    function: Any = inspect.unwrap(inputs.function)
    names = [name for name in function.__code__.co_names if name in function.__globals__]
    arrays = (*inputs, *(function.__globals__[name] for name in names))
    return tuple(copied(each) for array in arrays for each in numbers(array))


def _same(found: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    import torch

    return len(found) == len(other) and all(
        each.shape == that.shape and torch.equal(combined([each]).nan_to_num(), combined([that]).nan_to_num())
        for each, that in zip(found, other, strict=True)
    )


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
    result = other.function(*other)
    _wait(wait)
    assert isinstance(op.inputs, CodeInputs)
    if _same(found, copied(numbers(result))) and not _same(_snapshot(op.inputs), _snapshot(other)):
        raise refused(f"{name} gave the same result for other inputs: it is cached.",
                      "Remove the cache, or time the function below it.")  # fmt: skip
