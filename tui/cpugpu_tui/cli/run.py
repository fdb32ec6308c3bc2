"""`cpugpu-tui run`: the same session as the app's, with a table or the events on stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from cpugpu_tui.cli.export import Outputs
from cpugpu_tui.cli.options import RunOptions
from cpugpu_tui.cli.own import with_own
from cpugpu_tui.cli.progress import Progress
from cpugpu_tui.cli.saving import remark_of, save_rest, saving
from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE, CpuGpuError, print_notice
from cpugpu_tui.model import Event, Plan, RunFinished
from cpugpu_tui.render.answers import as_data
from cpugpu_tui.render.signs import with_micro
from cpugpu_tui.session.devices import named
from cpugpu_tui.session.planning import PlanRequest, build_plan, nth_plan
from cpugpu_tui.session.saving import new_id
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.condition import conditions_data
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store.outbox import Unsaved
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.telemetry.simulated import SimulatedSampler
from cpugpu_tui.transport.agents import Agents
from cpugpu_tui.transport.signal_watch import watch_signals
from cpugpu_tui.transport.wire import encode


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
    agents = Agents(
        options.python, options.worker, simulated=plan.simulation is not None, own=request.own.words()
    )  # fmt: skip
    series_id = new_id()
    code = 0
    with saving(options) as outbox:
        try:
            plan = with_names(plan, agents, as_json=as_json)
            for number in range(1, request.repeat + 1):
                each = nth_plan(plan, number)
                session = Session(
                    each, agents, outbox, series_id, request.case_timeout_s, facts(), ceilings=options.ceilings
                )  # fmt: skip
                remark = remark_of(outbox) if number == 1 else None
                code = max(code, run_once(session, agents, each, remark, as_json=as_json, outputs=outputs))
                if session.stopping or code in (EXIT_USAGE, EXIT_UNFIT):
                    break  # what could not be run once cannot be run again
        finally:
            agents.close()
        return save_rest(outbox, code or outputs.exit_code)


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


def run_once(
    session: Session, agents: Agents, plan: Plan, remark: str | None, *, as_json: bool, outputs: Outputs
) -> int:
    """Run one session; print its events as they come, or its table at the end, and write what else was asked for.

    `remark` is what opening the history did that a person should know. Returns the exit code of the run itself: files
    that could not be written are told by `outputs`.
    """
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
    if finished.status == "failed" and (as_json or state.run is None):
        print_notice(f"cpugpu-tui: {finished.message} {finished.remedy}".strip())
    if as_json:
        if remark:
            print_notice(remark)
    elif state.run is not None:
        from cpugpu_tui.cli.tables import print_state

        print_state(*as_saved(state, session.saver.unsaved, remark))
        sys.stdout.flush()
    for line in outputs.write():
        print_notice(line)
    return session.signal_exit or finished.exit_code


def as_saved(state: RunState, unsaved: Unsaved | None, remark: str | None) -> tuple[RunState, str | None, bool]:
    """Return a run as the history has it now, what to say of that, and whether it is saved whole."""
    if unsaved is None or state.run is None:
        return state, remark, state.run is not None and state.run.number is not None
    run_id = state.run.run_id
    marked = state.with_saving(unsaved.numbers.get(run_id), unsaved.cases.get(run_id, ()))
    return marked, unsaved.text or remark, not unsaved


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

    def obey(number: int) -> None:
        if number != signal.SIGINT:
            session.signal_exit = 128 + number
            session.kill()
        elif session.stopping:
            session.kill()
        else:
            session.stop()
            if sys.stderr.isatty():
                with suppress(OSError):  # the terminal may be gone
                    os.write(2, b"\r\x1b[KStopping after the block in flight; ctrl+c again stops at once.\n")

    with watch_signals(obey):
        yield
