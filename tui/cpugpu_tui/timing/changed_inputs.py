"""Whether calls of a person's own code change what they work on, so that later calls do other work.

Tensors of torch count their changes; arrays of other libraries, such as NumPy's, are compared before and after.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from cpugpu_tui.workloads.code_workload import CodeInputs
from cpugpu_tui.workloads.containers import as_tensor, combined, copied, numbers
from cpugpu_tui.workloads.two_implementations import leaves


def named(inputs: CodeInputs) -> Iterator[Any]:
    """Yield what the code takes by name from its set-up, and what lies in tuples, lists and dicts of it."""
    function: Any = inspect.unwrap(inputs.function)
    for name in function.__code__.co_names:
        yield from leaves(function.__globals__.get(name))


def has_arrays(inputs: CodeInputs) -> bool:
    """Return whether the code takes arrays of other libraries than torch."""
    return any(as_tensor(each) is not None for each in named(inputs))


def _numbers_of(inputs: CodeInputs) -> tuple[Any, ...]:
    return tuple(number for each in (*inputs, *named(inputs)) for number in numbers(each))


def numbers_beside(inputs: CodeInputs) -> tuple[Any, ...]:
    """Return copies of all numbers that the code takes: its arguments, and what its set-up made beside them."""
    return copied(_numbers_of(inputs))  # type: ignore[no-any-return]


def same(found: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether numbers are equal; those that are none are equal to 0."""
    import torch

    return len(found) == len(other) and all(
        each.shape == that.shape and torch.equal(combined([each]).nan_to_num(), combined([that]).nan_to_num())
        for each, that in zip(found, other, strict=True)
    )


def changes_inputs(inputs: CodeInputs, call: Callable[[], None]) -> bool:
    """Call the code on inputs that no call has seen; return whether it changes what later calls work on.

    NumPy code that found its array sorted was timed without a word, up to 30,000 times too fast. A buffer that is only
    written, as by `out=`, does not count: whatever else a second call finds there, it leaves the same.
    """
    import torch

    before = numbers_beside(inputs)
    call()
    after = numbers_beside(inputs)
    if same(before, after):
        return False
    for number, was, left in zip(_numbers_of(inputs), before, after, strict=False):  # these share the arrays' memory
        if not same((was,), (left,)):
            number.copy_(left.logical_not() if left.dtype == torch.bool else left + 1)
    if same(after, numbers_beside(inputs)):
        return True
    call()
    return not same(after, numbers_beside(inputs))
