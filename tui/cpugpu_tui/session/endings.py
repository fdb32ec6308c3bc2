"""How a run ends if its agent died, is late or lacks torch."""

from __future__ import annotations

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_USAGE, CpuGpuError, NoTorchError, UnfitError, UsageError
from cpugpu_tui.transport.agent_output import AgentExited
from cpugpu_tui.transport.agent_process import no_agent

FRUITLESS_AGENTS = 1
"""How many agents in a row may die without a result: somebody else may have killed one."""

START_S, SIMULATED_START_S = 30.0, 5.0
"""Time limits in which a process surely starts. On an H200 server it took 5 to 7 s, and 0.5 s if simulated."""


def failed_by(error: CpuGpuError) -> model.RunFinished:
    """Return the end of a run that an error ended."""
    return model.RunFinished(status="failed", message=error.message, remedy=error.remedy, exit_code=error.exit_code)


def error_of(finished: model.RunFinished, otherwise: str = "") -> CpuGpuError:
    """Return the end of a failed run as the error that its exit code stands for."""
    kind = {EXIT_USAGE: UsageError, EXIT_CASES_FAILED: CpuGpuError}.get(finished.exit_code, UnfitError)
    return kind(finished.message or otherwise, finished.remedy)


def without_ceilings(gone: AgentExited | None) -> model.RunFinished:
    """Return the end of a run whose agent died after the last case; `gone` is None if the person stopped it."""
    if gone is None:
        return model.RunFinished(status="done", exit_code=EXIT_OK)
    return model.RunFinished(
        status="done",
        message=f"The agent {gone.manner} while it measured the peak rates of this machine.",
        remedy="Try `cpugpu-tui machine --measure`, or switch this off with --no-ceilings.",
        exit_code=EXIT_OK,
    )


def given_up(plan: model.Plan, python: str | None, hello: model.Hello | AgentExited, gone: AgentExited) -> CpuGpuError:
    """Return the error for agents that died before they had a result."""
    if isinstance(hello, AgentExited):
        return no_agent(python or "This interpreter", gone)
    if plan.codes:
        message = f"The process {gone.manner} while it prepared or ran your code. {gone.last_words}"
        return CpuGpuError(message.strip(), "Remove what ends the process from the code, such as os._exit.")
    return CpuGpuError(
        f"The agent {gone.manner} before its first case. {gone.last_words}".strip(),
        "Try `cpugpu-tui devices`, or another interpreter with --python.",
    )


def late(limit_s: float, *, is_simulated: bool) -> CpuGpuError:
    """Return the error for a process that had not started when the time limit was over, with one that is enough."""
    start_s, why = (SIMULATED_START_S, "") if is_simulated else (START_S, "Importing torch takes most of this time. ")
    return CpuGpuError(
        f"The process that times had not started within the time limit of {limit_s:g} s for a run (--max-seconds).",
        f"{why}Allow {max(start_s, 3 * limit_s):g} s or more for a run.",
    )


def require_torch(plan: model.Plan, hello: model.Hello) -> None:
    """Raise an error if the interpreter of an agent lacks torch and the plan needs it.

    Raises:
        NoTorchError: it lacks torch.
    """
    if plan.simulation is None and (lacking := without_torch(hello)) is not None:
        raise lacking


def without_torch(hello: model.Hello) -> NoTorchError | None:
    """Return the error of an interpreter that cannot import torch; None if it can."""
    facts = hello.environment
    if facts.get("torch") is not None:
        return None
    return NoTorchError(
        f"{facts.get('interpreter')} cannot import torch: {str(facts.get('torch_error')).rstrip('.')}.",
        "Install torch in this interpreter, or use --python auto to find one that has torch.",
    )
