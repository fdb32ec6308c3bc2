"""Compile the step of a case with `torch.compile`, and find steps that ran eagerly after all, by torch's own counters.

The files of a compilation go to a folder of its own that is removed at once, so that each case pays its whole cost.
Only the compiler's own start-up is kept (`compiler_cache.py`).
torch keeps what it compiled with a function's code object. Each case has a code object of its own, so that a reset for
one case does not make another one compile again in the middle of a timed round.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from time import perf_counter_ns
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakSet

from cpugpu_tui.model import COMPILER_START, COMPILING, CodeCompiled
from cpugpu_tui.timing.compiler_cache import CompilerFolder, kept_folder, temporary_folder
from cpugpu_tui.timing.timers import Announce, CaseError, unannounced
from cpugpu_tui.timing.timers.timed_operation import Operation
from cpugpu_tui.workloads.code_workload import CodeInputs, CodeWorkload, on_default_device, refill

BACKEND = "inductor"
"""The compiler of `torch.compile`."""

FIRST_START_NS = 60e9
"""Estimate of the compiler's first start on a machine, ns: 10 s on two cores, 51 s on an H200 server."""

Around = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Returns a wrapper of a function, for example one that sets the default device."""

EAGER_REMEDY = "Time the default variant instead."

_in_use: WeakSet[Any] = WeakSet()
"""Compiled functions of cases that are not over."""

_loaded: set[str] = set()
"""Devices for which this process has compiled: the first time also starts the compiler."""


def compile_step(
    op: Operation, device: str, wait: Callable[[], None] | None, announce: Announce = unannounced
) -> CodeCompiled:
    """Replace the step of an operation by its compiled form; the cost includes one call.

    `wait` waits for the GPU; None for the CPU. The compiler's start, before its first row, is a phase of its own.

    Raises:
        CaseError: the step cannot be compiled, or torch ran it without compiling it.
    """
    import torch

    eager, around = op.workload.step_for(op.case.variant, op.inputs), _unchanged
    if isinstance(op.workload, CodeWorkload):
        assert isinstance(op.host_inputs, CodeInputs)
        eager = op.host_inputs.function  # without the default device, which torch cannot compile
        around = partial(on_default_device, device=device) if op.workload.makes_tensors else around
    with explained(), _nameless(op.inputs):
        if device not in _loaded:
            start_compiler(device, wait, announce)
            _loaded.add(device)
            announce(COMPILING, device)
        _restore(op)
        with temporary_folder() as folder, _cache_in(folder):
            op.step, op.compiled, elapsed_ns, has_kernels = _compiled(eager, op.inputs, wait, around)
    _restore(op)
    op.compiled_for = torch.get_num_threads(), torch.backends.cuda.matmul.allow_tf32
    return CodeCompiled(
        case=op.case.key, device=device, elapsed_ns=elapsed_ns, variant=next(iter(op.workload.steps())),
        has_kernels=has_kernels,
    )  # fmt: skip


def start_compiler(device: str, wait: Callable[[], None] | None, announce: Announce) -> None:
    """Compile something small, so that no row pays for what the compiler finds out about the machine."""
    import torch

    with kept_folder(torch.device(device).type) as folder:
        if not folder.is_ready:
            note = f"in a temporary folder ({folder.why_temporary})" if folder.why_temporary else "once on this machine"
            announce(COMPILER_START, device, FIRST_START_NS, note)
        else:
            announce(COMPILER_START, device)
        with _cache_in(folder.path):
            _try_instructions(folder)
            _compiled(lambda x: x.sin() + 1, (torch.ones(64, device=device),), wait)
        folder.note_ready()


def _try_instructions(folder: CompilerFolder) -> None:
    """Let torch try out the CPU's vector instructions at the same time, which it does one after the other.

    Each kind takes one or two C++ builds and a child Python for each; torch remembers what it found for this process,
    and the folder what worked for later ones: each child imports torch 2.11 again, in all 20 s on an H100 server.
    """
    from torch._inductor import cpu_vec_isa

    if not hasattr(cpu_vec_isa, "x86_isa_checker"):  # torch then does it by itself
        return
    base: Any = cpu_vec_isa.VecISA
    build = base.check_build

    def remembered(kind: Any, code: str) -> bool:
        probe = f"{kind} {kind.build_arch_flags()} {code}"
        is_known = folder.works(probe)
        works = is_known or bool(build(kind, code))
        if works and not is_known:
            folder.note_works(probe)
        return works

    flags = cpu_vec_isa.x86_isa_checker()
    kinds = [kind for kind in cpu_vec_isa.supported_vec_isa_list if all(flag in flags for flag in str(kind).split())]
    base.check_build = remembered
    try:
        with ThreadPoolExecutor(max(1, len(kinds))) as pool:
            list(pool.map(bool, kinds))
    finally:
        base.check_build = build


def _unchanged(step: Callable[..., Any]) -> Callable[..., Any]:
    return step


def _restore(op: Operation) -> None:
    """Give the inputs the numbers that they had before all calls."""
    if isinstance(op.inputs, CodeInputs):
        refill(op.inputs, 0)
    else:
        op.workload.reset(op.case.variant, op.inputs)


@contextmanager
def _nameless(inputs: tuple[Any, ...]) -> Iterator[None]:
    """Hide the module names of functions that have their own globals, which torch would look for in that module."""
    import torch

    modules = [part for each in inputs if isinstance(each, torch.nn.Module) for part in each.modules()]
    functions = [part.__dict__["forward"] for part in modules if "forward" in part.__dict__]
    hidden = [(each.__globals__, name) for each in functions if (name := each.__globals__.pop("__name__", None))]
    try:
        yield
    finally:
        for names, name in hidden:
            names["__name__"] = name


def _compiled(
    eager: Callable[..., Any], inputs: tuple[Any, ...], wait: Callable[[], None] | None, around: Around = _unchanged
) -> tuple[Callable[..., Any], tuple[CodeType, CodeType], float, bool]:
    """Return a compiled function, its code and form, ns of its first call, and whether the compiler made own code."""
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor import metrics

    if torch._dynamo.config.disable:  # newer versions of torch raise a bare RuntimeError
        raise ran_eagerly()
    gc.collect()  # the harness switches it off, and a compiler leaves many cycles
    if not _in_use:
        torch._dynamo.reset()

    own = _with_own_code(eager)
    step = around(torch.compile(own, backend=BACKEND, fullgraph=True, dynamic=False))
    graphs, kernels = counters["stats"]["unique_graphs"], metrics.generated_kernel_count
    started = perf_counter_ns()
    step(*inputs)
    if wait is not None:
        wait()
    elapsed_ns = float(perf_counter_ns() - started)
    forms = _forms(own.__code__)
    if counters["stats"]["unique_graphs"] != graphs + 1 or len(forms) != 1:
        raise ran_eagerly()
    _in_use.add(own)
    return step, (own.__code__, forms[0]), elapsed_ns, metrics.generated_kernel_count > kernels


def _with_own_code(step: Callable[..., Any]) -> FunctionType:
    """Return a copy of a function with a code object of its own; of anything else, a function that calls it."""

    def call(*placed: Any) -> Any:
        return step(*placed)

    function = step if isinstance(step, FunctionType) else call
    made = FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def require_compiled(op: Operation) -> None:
    """Check that the calls so far ran the code that was compiled before the rounds.

    Raises:
        CaseError: `refused`: torch compiled the step again in a timed round, or dropped the code.
    """
    if op.compiled is not None and _forms(op.compiled[0]) != [op.compiled[1]]:
        raise CaseError(
            "refused", "torch.compile compiled the step again in a timed round, so its times mix two forms.",
            EAGER_REMEDY,
        )  # fmt: skip


def _forms(code: CodeType) -> list[CodeType]:
    """Return the compiled forms that torch holds for a function."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    return [entry.code for entry in _debug_get_cache_entry_list(code)]


def ran_eagerly() -> CaseError:
    """Return the failure of a step that torch ran without compiling it."""
    return CaseError(
        "refused", "torch.compile compiled nothing, so the step ran eagerly.",
        "Remove TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE from the environment.",
    )  # fmt: skip


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """Load the compiler, and keep its files in a folder."""
    wanted = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        import torch._inductor.config  # here, because the import already writes to the folder

        # In this process: a pool of compilers would outlive the row. Before anything else of the compiler is imported.
        torch._inductor.config.compile_threads = 1
        # They would be kept in a folder that all processes share: 150 MB, and times that depend on who was first.
        if hasattr(torch._inductor.config, "cpp_cache_precompile_headers"):  # not in torch 2.6
            torch._inductor.config.cpp_cache_precompile_headers = False
        from torch._inductor.utils import clear_inductor_caches

        clear_inductor_caches()  # those in memory
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            os.environ.update({} if value is None else {name: value})


MISSING = {
    "InvalidCxxCompiler": ("torch.compile found no C++ compiler.", "Install g++, or set CXX to a C++ compiler."),
    "TritonMissing": (
        "torch.compile needs Triton for a GPU, and this Python has none.", "Install triton, or add --device cpu.",
    ),
    "GPUTooOldForTriton": ("This GPU is too old for Triton.", "Add --device cpu."),
}  # fmt: skip
"""Class of torch's exception → cause and remedy."""


OF_THE_DEVICE = ("MemoryError", "OutOfMemoryError", "AcceleratorError")
"""Classes of exceptions that the compiler passes on; the machine explains them."""


@contextmanager
def explained() -> Iterator[None]:
    """Turn the compiler's exceptions into the failure of a case; others pass, such as those of a GPU.

    Raises:
        CaseError: instead of the compiler's exception.
    """
    try:
        yield
    except CaseError:
        raise
    except Exception as error:
        causes = list(_causes(error))
        kinds = {kind.__name__ for each in causes for kind in type(each).__mro__}
        for cause in causes:
            if type(cause).__name__ in OF_THE_DEVICE:
                raise cause from None
        for name in kinds & MISSING.keys():
            raise CaseError("unsupported", *MISSING[name]) from error
        if kinds & {"TorchDynamoException", "OSError"}:  # without a folder for temporary files it is an OSError alone
            raise CaseError("unsupported", f"torch.compile failed: {_reason(causes[-1])}.", EAGER_REMEDY) from error
        raise


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> str:
    """Return the line that tells why: of a C++ compiler's output, its first error."""
    lines = str(getattr(error, "output", "") or error).strip().splitlines() or [type(error).__name__]
    return next((line for line in lines if "error:" in line), lines[0])[-200:].rstrip(".")
