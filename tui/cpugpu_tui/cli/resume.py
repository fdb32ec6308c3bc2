"""`cpugpu-tui run --resume [RUN]`: the run goes on where it ended, in the same table and under the same number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpugpu_tui.cli.export import Outputs
from cpugpu_tui.cli.options import RunOptions, found_python, one_python
from cpugpu_tui.cli.own import check_unchanged, words_for
from cpugpu_tui.cli.run import failed, print_event, run_once
from cpugpu_tui.cli.saving import save_rest, way_into
from cpugpu_tui.errors import CpuGpuError, StoreError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.session.resume import ResumedSession, Unfinished, unfinished
from cpugpu_tui.store import Store, open_store
from cpugpu_tui.transport.agents import Agents

if TYPE_CHECKING:
    import typer

TAKEN = ("names", "resume", "json", "database", "python", "case_timeout", "workloads", "export", "tensorboard")
"""Parameters of `run` that mean something to a run whose plan is made."""


def from_command_line(context: typer.Context) -> int:
    """Resume as the words of `run --resume` say.

    Raises:
        UsageError: there are options that a made plan cannot follow.
        CpuGpuError: see `resume_headless`.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in TAKEN and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{parameter.opts[0]} cannot change a run that has begun.", "Leave it out with --resume.")
    given = context.params
    files = tuple(map(str, given["workloads"] or ()))
    options = RunOptions(python=one_python(given["python"]), database=given["database"], workloads=files)
    outputs = Outputs(tuple(given["export"] or ()), given["tensorboard"])
    return resume_headless(
        list(given["names"] or ()), options, given["case_timeout"], as_json=given["json"], outputs=outputs
    )


def resume_headless(
    names: list[str], options: RunOptions, case_timeout_s: float | None, *, as_json: bool, outputs: Outputs
) -> int:
    """Run what is missing in a saved run and return the exit code.

    Raises:
        CpuGpuError: there is nothing to go on with (with `--json` it is a `RunFinished` line as well).
    """
    with way_into(options.database, open_store(options.database, keep_aside=False), keep_aside=False) as outbox:
        store = outbox.store
        assert store is not None
        try:
            run = _wanted(store, names)
            outputs.check()
            own = words_for(run.started.plan, options.workloads)
            check_unchanged(run.started.plan)
            _require_python(run, options.python)
        except CpuGpuError as error:
            if as_json:
                print_event(failed(error))
            raise
        plan = run.started.plan
        worker = str(run.started.environment.get("worker") or "process")
        python = found_python(options.python, worker, plan.simulation)
        agents = Agents(python, worker, simulated=plan.simulation is not None, own=own)
        try:
            session = ResumedSession(run, agents, outbox, case_timeout_s)
            code = run_once(session, agents, plan, store.remark, as_json=as_json, outputs=outputs)
        finally:
            agents.close()
        return save_rest(outbox, code or outputs.exit_code)


def _require_python(run: Unfinished, python: str | None) -> None:
    """Refuse to start an interpreter that nobody named: a run may come from a stranger's export."""
    used = run.started.environment.get("python_option")
    if used and python is None:
        raise UsageError(f"Run {run.summary.number} was measured with --python {printable(str(used))}.", "Add that.")


def _wanted(store: Store, names: list[str]) -> Unfinished:
    if len(names) > 1:
        raise UsageError("--resume goes on with one run.", "Name one, or none for the newest that is unfinished.")
    if store.notice:
        raise StoreError(store.notice)
    return unfinished(store, names[0] if names else None)
