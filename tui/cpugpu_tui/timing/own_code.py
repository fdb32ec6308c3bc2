"""What one call of a person's own code executed, and what about that code would make its times wrong.

`examine` runs the code three times outside the clock. Code with a trap gets no time: it is refused with the reason.
"""

from __future__ import annotations

import math
import resource
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from importlib.util import find_spec
from time import perf_counter_ns, process_time_ns
from types import CoroutineType, GeneratorType
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.machine.processes import children, kill_children
from cpugpu_tui.model import ITEMSIZE_BYTES, Case, CodeTraced, OwnCode, torch_dtype
from cpugpu_tui.timing.changed_inputs import changes_inputs, has_arrays
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.timing.timers.timed_operation import OWN, Operation, operation
from cpugpu_tui.timing.torch_devices import first_line, sentence
from cpugpu_tui.workloads.code_workload import CodeInputs, CodeWorkload, refill
from cpugpu_tui.workloads.containers import combined, copied, fill, numbers, tensors
from cpugpu_tui.workloads.operators import Operators, memory_of, put_back, remedy_for, watched_operators
from cpugpu_tui.workloads.own_code import place_of, remedy_of

MOST_TRIED_FLOPS = 1e10
"""Largest call that is tried out for a simulated machine, FLOPs: six calls of 0.2 s on two cores."""

LOOKS, LOOK_NS = 15, 20e6
"""How often, and for how long, the threads of code without torch are counted, ns."""

SAMPLED = 4096
"""Numbers of a result that are kept to be compared with those of later calls."""

REMOVE_CACHE = "Remove the cache, or time the function below it."

LAZY = (GeneratorType, CoroutineType, map, filter, zip)


def refused(message: str, remedy: str) -> CaseError:
    """Return the refusal of code whose times would be wrong."""
    return CaseError("refused", message, remedy)


def changed_arrays(name: str) -> CaseError:
    """Return the refusal of code that changes arrays, which are not restored as tensors are."""
    return refused(f"{name} changes its inputs, so later calls do other work.",
                   "Let it work on a copy, for example x.copy().")  # fmt: skip


def raised_by(error: Exception | SystemExit, case: Case) -> CaseError:
    """Return the failure of a case whose workload raised, with the place in own code and what to do."""
    what = f"{type(error).__name__}: {sentence(first_line(error))}"
    where, remedy = "", "Correct the workload, or leave out this case."
    if isinstance(error, SystemExit):
        what, remedy = f"The code ends the program (exit code {error.code}).", "Remove the exit."
    workload = catalogue.find(case.workload)
    if isinstance(workload, OWN):
        codes = workload.code.sides or (workload.code,)
        code = next((each for each in codes if place_of(error, each)), codes[0])
        where, remedy = place_of(error, code), remedy_of(error, code)
    return CaseError("error", f"{where}{what}", remedy)


def require_computed(result: Any, what: str) -> None:
    """Refuse the result of `what` if it is computed only when it is used.

    Raises:
        CaseError: `refused`.
    """
    if isinstance(result, LAZY):
        remedy = "Use up its values inside, for example with list(...)."
        if isinstance(result, CoroutineType):
            remedy = "Time a function or statement that calls it through asyncio.run(...)."
        raise refused(f"{what} returns a {type(result).__name__}, which has computed nothing yet.", remedy)


def examine(
    op: Operation,
    workload: CodeWorkload,
    device: str,
    wait: Callable[[], None] | None,
    before_code: Set[int] | None = None,
) -> CodeTraced:
    """Trace one call on a device, and look for traps. `wait` waits for the GPU; None for the CPU.

    `before_code` are the children that this process had before it ran any of the code; None in the caller's process.

    Raises:
        CaseError: `refused`, with the trap's name and what to do.
    """
    assert isinstance(op.inputs, CodeInputs)
    _require_untouched(op, workload, device, wait)
    refill(op.inputs, 1)
    with nothing_left(before_code), _peak_memory(device, wait) as peak:
        versions = [each._version for each in _plain_tensors(op.inputs)]
        with watched_operators(device) as seen:
            result = op.step(*op.inputs)
        if wait is not None:
            wait()
        changed = versions != [each._version for each in _plain_tensors(op.inputs)]
    require_settings(op)
    _require_shapes(op)
    if seen.other_gpus:  # which no clock of this device waits for
        raise refused(f"The statement worked on {' and '.join(seen.other_gpus)} while {device} was timed.",
                      "Use the name device in it, in place of a certain device.")  # fmt: skip
    _require_numbers(result, workload.code)
    if changed and not workload.code.in_place:
        raise refused("The statement changes its inputs, so later calls do other work.",
                      "Add --in-place: the inputs are then restored before each call.")  # fmt: skip
    if wait is not None and not seen.count and seen.on_cpu:
        raise _never_on_gpu(seen, workload.code.setup_option)
    if not changed:
        _require_work(op, result, seen, wait)
        _require_repeated_work(op, device, seen)
    is_elsewhere = not (seen.count or seen.copies_to_gpu or seen.copies_to_host)
    if wait is not None and is_elsewhere and not any(each.is_cuda for each in tensors(result)):
        raise _never_on_gpu(seen, workload.code.setup_option)
    op.restore = _restorer(op, wait) if changed else None
    # Not those of operators: attention in bfloat16 has sums in float32 inside. A plain number has no type of its own.
    found = (*tensors(op.inputs), *(each for each in numbers(result) if each.dim()))
    is_wider = any(each.is_floating_point() and each.element_size() > ITEMSIZE_BYTES[op.case.dtype] for each in found)
    lower = ("lower-precision",) if seen.narrowest_bytes < _narrowest_bytes(op.inputs) else ()
    op.own_marks = (*lower, *(("higher-precision",) if is_wider else ()))
    op.waits_for_all = seen.uses_side_stream
    op.has_end_to_end = op.plainly_placed and any(True for _ in tensors(result))
    op.expected = None if workload.draws or changed else [_sample_of(op, number) for number in (0, 1)]
    is_unread = any(True for _ in tensors(op.inputs)) and not seen.read & memory_of(op.inputs)
    if is_unread and op.expected is not None and _distance(*op.expected) == 0.0:
        raise refused("No operator read the inputs, and other inputs gave the same result: the result is cached.",
                      REMOVE_CACHE)  # fmt: skip
    return CodeTraced(
        case=op.case.key, device=device, operators=seen.count, on_cpu=tuple(seen.on_cpu[:10]),
        copies_to_gpu=seen.copies_to_gpu, bytes_to_gpu=seen.bytes_to_gpu, copies_to_host=seen.copies_to_host,
        bytes_to_host=seen.bytes_to_host, synchronisations=seen.synchronisations,
        peak_bytes=peak.get("gpu"), peak_host_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        sets_default_device=workload.makes_tensors, not_compared="it draws random numbers" if workload.draws else "",
    )  # fmt: skip


def require_threads(op: Operation) -> None:
    """Check that code without torch keeps to the threads that were asked for: torch's setting is not known to it.

    Raises:
        CaseError: `refused`: it uses more.
    """
    asked = op.case.threads
    if not asked or op.runs_torch:
        return
    for _ in range(LOOKS):  # idle threads of OpenBLAS spin for 100 ms after their last work
        began_ns, used_ns = perf_counter_ns(), process_time_ns()
        while (elapsed_ns := perf_counter_ns() - began_ns) < LOOK_NS:
            for _ in op.spans(1):
                op.step(*op.inputs)
        used = (process_time_ns() - used_ns) / elapsed_ns
        if used <= asked + 0.5:
            return
        if elapsed_ns > LOOKS * LOOK_NS:  # one long call has seen them end
            break
    raise refused(f"The code used {used:.1f} CPU threads, where --threads asks for {asked}.",
                  "Set OMP_NUM_THREADS; NumPy and SciPy obey --threads if threadpoolctl is installed.")  # fmt: skip


def try_out(case: Case, device: str, tried: CodeTraced | None) -> CodeTraced | None:
    """Return what one call executes on the CPU, for a simulated device; `tried`: what an earlier one did.

    None where `tried_operation` has none.

    Raises:
        CaseError: `refused`, as on a real device.
    """
    if device != "cpu" and tried is not None and not tried.operators:
        raise _never_on_gpu(Operators("cuda"))
    if tried is not None or device != "cpu" or (op := tried_operation(case)) is None:
        return tried
    assert isinstance(op.workload, CodeWorkload)
    return examine(op, op.workload, device, None)


def tried_operation(case: Case) -> Operation | None:
    """Return own code with its inputs, on the CPU; None for other work, for too large work, or without torch."""
    workload = catalogue.find(case.workload)
    if not isinstance(workload, CodeWorkload) or find_spec("torch") is None:
        return None
    outline = workload.outline(case.size, ITEMSIZE_BYTES[case.dtype])
    if outline is not None and outline.flops > MOST_TRIED_FLOPS:
        return None
    import torch

    dtype, generator = getattr(torch, torch_dtype(case.dtype)), torch.Generator().manual_seed(0)
    return operation(case, workload.inputs(case.size, dtype, generator), "cpu")


def check_later_call(op: Operation) -> None:
    """Call once after a half-round, and compare with what these inputs gave before the first one.

    Raises:
        CaseError: `refused`: the result belongs to other inputs.
    """
    if op.expected is None or not isinstance(op.inputs, CodeInputs):
        return
    number = op.inputs.turn
    found = _sample(op.step(*op.inputs))
    own, other = (_distance(found, each) for each in (op.expected[number], op.expected[1 - number]))
    if own > other:
        raise refused("A later call returned the result of other inputs: the code keeps results.", REMOVE_CACHE)


def _distance(found: Any, expected: Any) -> float:
    """Return how far two samples are apart; infinite if their sizes differ, as for `nonzero`."""
    return float((found - expected).norm()) if found.shape == expected.shape else math.inf


def _narrowest_bytes(inputs: Any) -> int:
    """Return the bytes of an element of the narrowest floating-point tensor; 0 if there is none."""
    return min((each.element_size() for each in tensors(inputs) if each.is_floating_point()), default=0)


def _plain_tensors(inputs: CodeInputs | tuple[Any, ...]) -> Iterator[Any]:
    """Yield the input tensors without parameters of modules, which a training step may change."""
    import torch

    for each in inputs:
        if not isinstance(each, torch.nn.Module):
            yield from tensors(each)


def _require_untouched(op: Operation, workload: CodeWorkload, device: str, wait: Callable[[], None] | None) -> None:
    """Refuse code that changes arrays of other libraries, also in its first call alone: only tensors are restored."""
    import torch

    assert isinstance(op.host_inputs, CodeInputs)
    if not has_arrays(op.host_inputs):
        return
    made = workload.made(op.case.size, getattr(torch, torch_dtype(op.case.dtype)), 0)
    placed = made if device == "cpu" else workload.place(op.case.variant, made, device)

    def call() -> None:
        placed.function(*placed)
        if wait is not None:
            wait()

    if changes_inputs(CodeInputs.of((), made.function, ()), call):  # tensors count their changes themselves
        raise changed_arrays("The code")


def require_settings(op: Operation) -> None:
    """Refuse code that changes settings of torch since it was loaded, and put them back."""
    if changed := put_back(op.settings or {}):
        raise refused(f"The statement changes {' and '.join(changed)} of torch for all later calls.",
                      remedy_for(changed))  # fmt: skip


def _require_shapes(op: Operation) -> None:
    """Refuse code that changes the shape of its inputs: it is not restored, and later calls would find them empty."""
    assert isinstance(op.inputs, CodeInputs)
    made = CodeInputs.of(op.inputs.sets[0], op.inputs.function, ())
    shapes = ([each.shape for each in _plain_tensors(inputs)] for inputs in (op.inputs, made))
    if any(now != before for now, before in zip(*shapes, strict=False)):
        raise refused("The statement changes the shape of its inputs, so later calls do other work.",
                      "Let it work on a copy, for example x.clone().")  # fmt: skip


def _require_numbers(result: Any, code: OwnCode) -> None:
    what = "The function" if code.target else "The statement"
    require_computed(result, what)
    if not numbers(result):
        remedy = "End it with an expression that gives a tensor, for example y."
        if code.target:
            remedy = "Return a tensor from the function."
        elif callable(result):
            remedy = f"Call it: {code.statement}()."
        raise refused(f"{what} returns {type(result).__name__}, which holds no numbers to compare.", remedy)


def _never_on_gpu(seen: Operators, setup_option: str = "--setup") -> CaseError:
    line = f" at {seen.cpu_line}" if seen.cpu_line and not seen.cpu_line.startswith("<") else ""
    ran = f" {', '.join(seen.on_cpu[:3])} ran on the CPU{line}." if seen.on_cpu else ""
    remedy = f"Make the tensors in {setup_option} or inputs(n), or name device in the code."
    if not seen.on_cpu:
        remedy = "Add --device cpu, or set code for the GPU beside it: --on-cpu CODE --on-gpu CODE."
    return refused(f"Never used the GPU: 0 operators of torch ran there.{ran}", remedy)


def _require_work(op: Operation, result: Any, seen: Operators, wait: Callable[[], None] | None) -> None:
    """Refuse a result that no operator of this call wrote: an input, or what an earlier call left.

    A kernel that torch does not see may have written into a buffer that is kept, so a kept result is put to the test.
    """
    found = list(tensors(result))
    own = memory_of(found)
    if any(each.device.type == "meta" for each in found):  # an outline of the code was made there
        raise refused("The result has no numbers: it is that of an earlier call on shapes alone, so it is cached.",
                      REMOVE_CACHE)  # fmt: skip
    if not own or own & seen.written or not _is_kept(op, found, wait):
        return
    if own & memory_of(op.inputs):
        raise refused("The result is a view of an input: nothing was computed.",
                      "Add .clone() if the copy is what you want to time.")  # fmt: skip
    raise refused("The result was already there before the call: it is cached.", REMOVE_CACHE)


def _is_kept(op: Operation, found: list[Any], wait: Callable[[], None] | None) -> bool:
    """Overwrite a result and call again; return whether what was written stays. The result is put back."""
    import torch

    before = [each.detach().clone() for each in found]
    try:
        with torch.no_grad():
            for each in found:
                each.fill_(0 if each.any() else 1)
    except RuntimeError:  # elements that share memory, sparse ones
        return False
    marked = [each.detach().clone() for each in found]
    op.step(*op.inputs)
    if wait is not None:
        wait()
    stays = all(torch.equal(each, mark) for each, mark in zip(found, marked, strict=True))
    with torch.no_grad():
        for each, old in zip(found, before, strict=True):
            each.copy_(old)
    return stays


def _require_repeated_work(op: Operation, device: str, first: Operators) -> None:
    """Refuse code whose second call with the same inputs does less than the first."""
    with watched_operators(device) as again:
        op.step(*op.inputs)
    if again.count < first.count:
        raise refused(
            f"The second call with the same inputs ran {again.count} of {first.count} operators: the result is cached.",
            REMOVE_CACHE,
        )


def _restorer(op: Operation, wait: Callable[[], None] | None) -> Callable[[], None]:
    """Return a function that restores the first numbers of the inputs and waits for the device."""
    assert isinstance(op.inputs, CodeInputs)
    refill(op.inputs, 0)
    targets = list(tensors(op.inputs))
    sources = copied(targets)

    def restore() -> None:
        fill(targets, sources)
        if wait is not None:
            wait()

    return restore


def _sample_of(op: Operation, number: int) -> Any:
    assert isinstance(op.inputs, CodeInputs)
    refill(op.inputs, number)
    return _sample(op.step(*op.inputs))


def _sample(result: Any) -> Any:
    """Return up to `SAMPLED` numbers of a result, spread over it, in float64 on the host."""
    found = numbers(result)
    step = max(1, sum(each.numel() for each in found) // SAMPLED)
    return combined([each.reshape(-1)[::step] for each in found]).reshape(-1)[:SAMPLED]


@contextmanager
def nothing_left(before_code: Set[int] | None) -> Iterator[None]:
    """Refuse code whose work goes on after the call has returned, in a thread or another process.

    These processes are killed, and those of earlier calls, too, except in the caller's process.
    """
    threads, processes = set(threading.enumerate()), children()
    yield
    left = [thread.name for thread in threading.enumerate() if thread not in threads]
    if left:
        raise refused(f"The statement leaves a thread at work ({left[0]}), which no clock waits for.",
                      "Wait for it inside the statement, for example with join().")  # fmt: skip
    names = [name for pid, name in children().items() if pid not in processes]
    if names:
        kill_children(set(processes) if before_code is None else processes.keys() & before_code)
        raise refused(f"The statement leaves a process at work ({names[0]}), which no clock waits for.",
                      "Wait for it inside the statement.")  # fmt: skip


@contextmanager
def _peak_memory(device: str, wait: Callable[[], None] | None) -> Iterator[dict[str, int]]:
    """Yield a table that holds the GPU's peak in bytes afterwards."""
    found: dict[str, int] = {}
    if wait is None:
        yield found
        return
    import torch

    torch.cuda.reset_peak_memory_stats(device)
    yield found
    found["gpu"] = int(torch.cuda.max_memory_allocated(device))
