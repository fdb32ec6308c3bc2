"""How a run ends whose agent died: as a failure, or without what no result depends on."""

from __future__ import annotations

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_OK, CpuGpuError
from cpugpu_tui.transport.agent_output import Gone
from cpugpu_tui.transport.agent_process import no_agent


def without_ceilings(gone: Gone | None) -> model.RunFinished:
    """Return the end of a run whose agent died after the last case; None if the person stopped it."""
    if gone is None:
        return model.RunFinished(status="done", exit_code=EXIT_OK)
    return model.RunFinished(
        status="done",
        message=f"The agent {gone.manner} while it measured the peak rates of this machine.",
        remedy="Try `cpugpu-tui machine --measure`, or switch this off with --no-ceilings.",
        exit_code=EXIT_OK,
    )


def given_up(plan: model.Plan, python: str | None, hello: model.Hello | Gone, gone: Gone) -> CpuGpuError:
    """Return the error for agents that died before they had a result."""
    if isinstance(hello, Gone):
        return no_agent(python or "This interpreter", gone)
    if plan.codes:
        message = f"The process {gone.manner} while it prepared or ran your code. {gone.last_words}"
        return CpuGpuError(message.strip(), "Remove what ends the process from the code, such as os._exit.")
    return CpuGpuError(
        f"The agent {gone.manner} before its first case. {gone.last_words}".strip(),
        "Try `cpugpu-tui devices`, or another interpreter with --python.",
    )
