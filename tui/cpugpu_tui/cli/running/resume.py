"""`cpugpu-tui run --resume [RUN]`: continue a run where it ended, under the same number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cpugpu_tui.cli.output.json_lines import failure_as_event
from cpugpu_tui.cli.running.one_run import run_once
from cpugpu_tui.cli.running.options import check_unchanged, found_python, words_for
from cpugpu_tui.cli.running.saving import Outputs, save_rest, way_into
from cpugpu_tui.errors import StoreError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.session.planning import PlanRequest, check_positive
from cpugpu_tui.session.resume import Unfinished, unfinished
from cpugpu_tui.session.session import Session
from cpugpu_tui.store import Store, open_store
from cpugpu_tui.transport.agent_pool import Agents

if TYPE_CHECKING:
    import typer

TAKEN = ("names", "resume", "json", "database", "python", "case_timeout", "workloads", "export", "tensorboard")
"""Parameters of `run` that can be used with --resume. The plan is fixed."""


def resume_run(context: typer.Context) -> int:
    """Run the missing cases of a saved run and return the exit code.

    Raises:
        UsageError: an option would change the plan.
        CpuGpuError: no run can be resumed. With `--json` it is also printed as a `RunFinished` line.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in TAKEN and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{parameter.opts[0]} cannot be combined with --resume.", "Leave it out.")
    given = context.params
    as_json, database, pythons = given["json"], given["database"], given["python"] or ()
    if len(pythons) > 1:
        raise UsageError(f"--resume runs one interpreter, not {len(pythons)}.", "Use --python once.")
    named_python = pythons[0] if pythons else None
    outputs = Outputs(given["export"] or (), given["tensorboard"])
    with way_into(database, open_store(database, keep_aside=False), keep_aside=False) as outbox:
        store = outbox.store
        assert store is not None
        with failure_as_event(as_json=as_json):
            check_positive(PlanRequest((), case_timeout_s=given["case_timeout"]))
            run = _wanted(store, given["names"] or ())
            plan = run.started.plan
            outputs.check()
            own = words_for(plan, map(str, given["workloads"] or ()))
            check_unchanged(plan)
            _require_python(run, named_python)
        worker = str(run.started.environment.get("worker") or "process")
        python = found_python(named_python, worker, plan.simulation)
        agents = Agents(python, worker, simulated=plan.simulation is not None, own=own)
        try:
            session = Session.resumed(run, agents, outbox, given["case_timeout"])
            code = run_once(session, agents, plan, store.remark, as_json=as_json, outputs=outputs)
        finally:
            agents.close()
        return save_rest(outbox, code or outputs.exit_code)


def _require_python(run: Unfinished, python: str | None) -> None:
    """Refuse to start an interpreter that the user did not name: the run may come from someone else's export."""
    used = run.started.environment.get("python_option")
    if used and python is None:
        raise UsageError(
            f"Run {run.summary.number} was measured with --python {printable(str(used))}.", "Add this option."
        )


def _wanted(store: Store, names: Sequence[str]) -> Unfinished:
    if len(names) > 1:
        raise UsageError(
            f"--resume takes one run, not {len(names)}.", "Give one run, or none for the newest unfinished run."
        )
    if store.notice:
        raise StoreError(store.notice)
    return unfinished(store, names[0] if names else None)
