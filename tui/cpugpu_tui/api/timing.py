"""`crossover` and `time_on`: time code from Python scripts and notebooks as the command line does."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from cpugpu_tui.api.result import Result
from cpugpu_tui.api.subject import Subject, in_python, subject_of
from cpugpu_tui.cli.running.one_run import facts, telemetry
from cpugpu_tui.cli.running.options import RunOptions, simulation
from cpugpu_tui.cli.running.saving import as_saved, save_rest, saving
from cpugpu_tui.config.parsing import parse_sizes
from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_UNFIT, EXIT_USAGE, CpuGpuError, UnfitError, UsageError
from cpugpu_tui.model import MAX_SIZE, Event, RunFinished
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.state import RunState
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.workloads.caller_code import held

Sizes = int | str | Iterable[int]
What = str | Callable[..., Any]

THREAD_PATIENCE_S = 1.0
"""How long ctrl+c waits for code in the caller's process: it stops after the block in flight."""


def crossover(
    what: What,
    n: Sizes = "16:4096",
    *,
    setup: str = "",
    let: Mapping[str, object] | None = None,
    inputs: Callable[[int], Any] | None = None,
    dtype: object = None,
    threads: int | str | None = None,
    device: str | Sequence[str] | None = None,
    in_place: bool = False,
    rounds: int | None = None,
    max_seconds: float | None = None,
    simulate: str | None = None,
    save: bool = False,
) -> Result:
    """Search for the size from which the GPU is faster, between the smallest and the largest of `n`.

    Args:
        what: an expression, `file.py:function`, or a callable.
        n: both ends, as `"16:4096"` or `(16, 4096)`.
        setup: lines of Python that make the inputs of an expression, run on the host for each size.
        let: further names. Text is Python, as in `--let`; a function is called with the size; the rest is a value.
        inputs: called with the size, returns the arguments of a function: a tuple, a dictionary, or one value.
        dtype: floating-point type of what the code makes, such as `"float64"` or `torch.float64`.
        threads: CPU threads; a number or `"all"`.
        device: `"auto"`, `"cpu"`, `"cuda"` or `"cuda:0"`, or several of them.
        in_place: allow the code to change its inputs, which are restored before each call.
        rounds: exact number of rounds, instead of as many as the interval needs.
        max_seconds: end the search after this time.
        simulate: use a simulated machine, such as `"default"`.
        save: save the run to the history.

    Raises:
        UsageError: an argument or the code is wrong. A failure of a single size is in its row instead.
        UnfitError: the machine cannot run it.
    """
    subject = subject_of(what, setup, let or {}, inputs, in_place=in_place)
    sizes = _sizes(n)
    is_range = sizes.count(":") == 1 and "," not in sizes
    # A range without a step would be every size of it: a step beyond its end checks both ends and nothing else.
    if len(parse_sizes(f"{sizes}:{MAX_SIZE}" if is_range else sizes)) < 2 and not is_range:
        raise UsageError(f"Cannot search at one size, {sizes}.", "Give both ends, as in n='16:4096', or use time_on().")
    request = _request(
        subject, ",".join(sizes.split(":")) if is_range else sizes, dtype, threads, device, rounds, max_seconds,
        simulate, find_crossover=True,
    )  # fmt: skip
    return _run(subject, request, save=save)


def time_on(
    what: What,
    n: Sizes = 512,
    *,
    setup: str = "",
    let: Mapping[str, object] | None = None,
    inputs: Callable[[int], Any] | None = None,
    dtype: object = None,
    threads: int | str | None = None,
    device: str | Sequence[str] | None = None,
    in_place: bool = False,
    rounds: int | None = None,
    max_seconds: float | None = None,
    simulate: str | None = None,
    save: bool = False,
) -> Result:
    """Time code on both devices at the sizes `n`: `512`, `[16, 64, 256]` or `"16:4096:16"`.

    The other arguments are those of `crossover`.

    Raises:
        UsageError: an argument or the code is wrong. A failure of a single size is in its row instead.
        UnfitError: the machine cannot run it.
    """
    subject = subject_of(what, setup, let or {}, inputs, in_place=in_place)
    sizes = _sizes(n)
    if sizes.count(":") == 1 and "," not in sizes:
        raise UsageError(f"The range {sizes!r} has no step.", "Add one, as in 16:4096:16, or search with crossover().")
    request = _request(subject, sizes, dtype, threads, device, rounds, max_seconds, simulate, find_crossover=False)
    return _run(subject, request, save=save)


def _sizes(n: Sizes) -> str:
    """Return sizes as `--n` takes them."""
    if isinstance(n, str):
        return n.strip()
    return ",".join(map(str, n)) if isinstance(n, Iterable) else str(n)


def _request(
    subject: Subject,
    sizes: str,
    dtype: object,
    threads: int | str | None,
    device: str | Sequence[str] | None,
    rounds: int | None,
    max_seconds: float | None,
    simulate: str | None,
    *,
    find_crossover: bool,
) -> PlanRequest:
    simulate = simulate if simulate is not None else os.environ.get("CPUGPU_SIMULATE") or None
    return PlanRequest(
        names=(subject.code.name,), sizes=sizes, find_crossover=find_crossover,
        dtype=None if dtype is None else str(dtype).removeprefix("torch."),
        threads=None if threads is None else str(threads),
        devices=(device,) if isinstance(device, str) else tuple(device or ["auto"]),
        rounds=rounds, max_seconds=max_seconds, simulation=simulation(simulate),
        own=OwnWorkloads(codes=(subject.code,)),
    )  # fmt: skip


def _run(subject: Subject, request: PlanRequest, *, save: bool) -> Result:
    """Run a request to its end. ctrl+c raises KeyboardInterrupt after the agent's process has ended."""
    plan = build_plan(request)
    is_simulated = plan.simulation is not None
    state = RunState()

    def see(event: Event) -> None:
        nonlocal state
        state = state.apply(event)

    with ExitStack() as stack:
        if subject.own is not None:
            stack.enter_context(held(subject.code, subject.own, is_simulated=is_simulated))
        outbox = stack.enter_context(saving(RunOptions(save=save)))
        worker = "process" if subject.own is None else "thread"
        agents = Agents(None, worker, simulated=is_simulated, own=request.own.words())
        stack.callback(_close, agents)
        session = Session(plan, agents, outbox, facts=facts(), ceilings=True)
        if save:  # without a history nothing shows the readings
            stack.enter_context(telemetry(session, agents, plan))
        finished = session.run(see)
        if finished.status == "failed":
            raise _error(finished, session.error)
        save_rest(outbox, 0)
        state, _, _ = as_saved(state, session.saver.unsaved, None)
    return Result.of(state)


_abandoned: list[Agents] = []
"""Agents whose thread did not stop in time."""


def _close(agents: Agents) -> None:
    agents.close(THREAD_PATIENCE_S)
    if agents.has_live_thread:
        _abandoned.append(agents)


@atexit.register
def _leave() -> None:
    """End the process at once if a thread is still in a call of torch: Python would abort with a core dump."""
    if any(agents.has_live_thread for agents in _abandoned):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED)


def _error(finished: RunFinished, cause: CpuGpuError | None) -> CpuGpuError:
    """Return the end of a failed run as the error that its exit code stands for."""
    kind = {EXIT_USAGE: UsageError, EXIT_UNFIT: UnfitError}.get(finished.exit_code, CpuGpuError)
    return (type(cause) if cause is not None else kind)(finished.message, in_python(finished.remedy))
