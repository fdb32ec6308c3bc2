"""`cpugpu-tui run`: the same session as the app's, with a table or the events on stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from cpugpu_tui.cli.export import Outputs
from cpugpu_tui.cli.options import RunOptions
from cpugpu_tui.cli.own import with_own
from cpugpu_tui.cli.progress import Progress
from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE, CpuGpuError, StoreError
from cpugpu_tui.model import Event, Plan, RunFinished
from cpugpu_tui.runs.answers import as_data
from cpugpu_tui.runs.condition import conditions_data
from cpugpu_tui.runs.launch import Agents
from cpugpu_tui.runs.parallel import named
from cpugpu_tui.runs.planning import PlanRequest, build_plan, nth_plan
from cpugpu_tui.runs.saving import NOT_SAVED, new_id
from cpugpu_tui.runs.session import Session
from cpugpu_tui.runs.signs import with_micro
from cpugpu_tui.runs.state import RunState
from cpugpu_tui.runs.store import Store, open_store
from cpugpu_tui.runs.wire import encode
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.telemetry.simulated import SimulatedSampler


class Stoppable(Protocol):
    """What a signal stops: a session, or a fleet of them."""

    signal_exit: int

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for."""

    def stop(self) -> None:
        """Stop after the block in flight."""

    def kill(self) -> None:
        """Stop at once."""


TELEMETRY_S = 1.0
"""Between two sweeps over the machine."""


def run_headless(request: PlanRequest, options: RunOptions, *, as_json: bool, outputs: Outputs | None = None) -> int:
    """Run a request to its end and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all (with `--json` it is a `RunFinished` line as well).
    """
    outputs = outputs or Outputs()
    try:
        request = with_own(request, options.workloads, options.python)
        plan = build_plan(request)
        outputs.check()
    except CpuGpuError as error:
        if as_json:
            print_event(failed(error))
        raise
    store, notice = writable_store(options)
    agents = Agents(
        options.python, options.worker, simulated=plan.simulation is not None, own=request.own.words()
    )  # fmt: skip
    series_id = new_id()
    code = 0
    try:
        plan = with_names(plan, agents, as_json=as_json)
        for number in range(1, request.repeat + 1):
            each = nth_plan(plan, number)
            session = Session(each, agents, store, series_id, request.case_timeout_s, facts())
            code = max(code, run_once(session, agents, each, notice, as_json=as_json, outputs=outputs))
            if session.stopping or code in (EXIT_USAGE, EXIT_UNFIT):
                break  # what could not be run once cannot be run again
    finally:
        agents.close()
        if store is not None:
            store.close()
    return code


def with_names(plan: Plan, agents: Agents, *, as_json: bool) -> Plan:
    """Return the plan as it is run: a parallel one names its GPUs.

    Raises:
        CpuGpuError: there are not two (with `--json` it is a `RunFinished` line as well).
    """
    try:
        return named(plan, agents)
    except CpuGpuError as error:
        if as_json:
            print_event(failed(error))
        raise


def facts() -> dict[str, object]:
    """Return what the controller adds to a run's environment."""
    return {"argv": sys.argv[1:]}


def failed(error: CpuGpuError) -> RunFinished:
    """Return the last event of a run that could not begin."""
    return RunFinished(status="failed", message=error.message, remedy=error.remedy, exit_code=error.exit_code)


def writable_store(options: RunOptions) -> tuple[Store | None, str | None]:
    """Return the history, and what to say of it: why there is none, or what became of a damaged or older one."""
    if not options.save:
        return None, None
    try:
        store = open_store(options.database)
    except StoreError as error:
        return None, f"{NOT_SAVED} {error}"
    return (None, f"{NOT_SAVED} {store.notice}") if store.notice else (store, store.remark)


def run_once(
    session: Session, agents: Agents, plan: Plan, notice: str | None, *, as_json: bool, outputs: Outputs
) -> int:
    """Run one session; print its events as they come, or its table at the end, and write what else was asked for."""
    state = RunState()
    progress = Progress()

    def deliver(event: Event) -> None:
        nonlocal state
        state = state.apply(event)
        outputs.see(state, event)
        if as_json:
            if isinstance(event, RunFinished):
                print_answer(state)
            print_event(event)
        progress.show(state, event)

    with signals_stop(session), telemetry(session, agents, plan):
        finished = session.run(deliver)
    progress.clear()
    notice = session.notice or notice
    if finished.status == "failed" and (as_json or state.run is None):
        print(f"cpugpu-tui: {finished.message} {finished.remedy}".strip(), file=sys.stderr)
    if as_json:
        if notice:
            print(notice, file=sys.stderr)
    elif state.run is not None:
        from cpugpu_tui.cli.tables import print_state

        print_state(state, notice)
        sys.stdout.flush()
    for line in outputs.write():
        print(line, file=sys.stderr)
    return session.signal_exit or finished.exit_code or outputs.exit_code


def print_event(event: Event) -> None:
    """Print one event as a line, at once."""
    sys.stdout.buffer.write(encode(event))
    sys.stdout.buffer.flush()


def print_answer(state: RunState) -> None:
    """Print what the run says as a line of JSON; it is derived, so it is no event and nothing reads it back."""
    said = with_micro({"event": "Answer", "sweeps": as_data(state), "machine": conditions_data(state)})
    sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")


@contextmanager
def telemetry(session: Session, agents: Agents, plan: Plan) -> Iterator[None]:
    """Sample the machine while the session runs; its readings become events of the run."""
    if plan.simulation is not None and plan.simulation.pace == 0:
        yield
        return
    sampler = (
        Sampler(TELEMETRY_S, session.add_telemetry, agents.pids)
        if plan.simulation is None
        else SimulatedSampler(TELEMETRY_S, session.add_telemetry, plan.simulation.gpus)
    )

    def hush(live: bool) -> None:
        """Leave readings that cost the driver milliseconds to the seconds before the plan is sent."""
        sampler.quiet = live

    session.on_live = hush
    sampler.start()
    try:
        yield
    finally:
        sampler.stop()


@contextmanager
def signals_stop(session: Stoppable) -> Iterator[None]:
    """ctrl+c stops after the block, twice at once; SIGTERM and SIGHUP stop at once and exit 143 and 129."""

    def interrupted(_number: int, _frame: object) -> None:
        if session.stopping:
            session.kill()
            return
        session.stop()
        if sys.stderr.isatty():
            os.write(2, b"\r\x1b[KStopping after the block in flight; ctrl+c again stops at once.\n")

    def ended(number: int, _frame: object) -> None:
        session.signal_exit = 128 + number
        session.kill()

    wanted = {signal.SIGINT: interrupted, signal.SIGTERM: ended, signal.SIGHUP: ended}
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        if session.stopping:
            # What is left is to end the agents and close the history: a third ctrl+c must not cut that short.
            before[signal.SIGINT] = signal.SIG_IGN
        for number, handler in before.items():
            signal.signal(number, handler)
