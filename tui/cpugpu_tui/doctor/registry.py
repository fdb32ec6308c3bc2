"""All checks by their stable ids. A check that crashes is a `fail` line of its own, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cpugpu_tui.doctor import cuda_visibility, driver, gpus, history, host, terminal, torch_build
from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, fail, unknown


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    """Stable: scripts look for it."""
    needs: tuple[str, ...]
    """The sections of `Facts` without any of which it cannot judge."""
    judge: Callable[[Facts], Finding]
    """Pure."""


CHECKS = (
    Check("driver", ("driver",), driver.driver),
    Check("driver.gpus", ("driver",), driver.gpus_answer),
    Check("torch", ("agent",), torch_build.importable),
    Check("torch.build", ("agent", "driver"), torch_build.build),
    Check("cuda.devices", ("agent", "driver"), torch_build.devices),
    Check("cuda.visible", ("driver",), cuda_visibility.visible),
    Check("cuda.order", ("driver",), cuda_visibility.order),
    Check("gpu.persistence", ("driver",), gpus.persistence),
    Check("gpu.clocks", ("driver",), gpus.clocks),
    Check("gpu.mig", ("driver",), gpus.mig),
    Check("gpu.ecc", ("driver",), gpus.ecc),
    Check("gpu.pcie", ("driver",), gpus.pcie),
    Check("gpu.processes", ("driver",), gpus.processes),
    Check("cpu.threads", ("host",), host.threads),
    Check("cpu.variables", ("agent",), host.variables),
    Check("cpu.smt", ("host",), host.smt),
    Check("cpu.numa", ("host",), host.numa),
    Check("cpu.denormals", ("host",), host.denormals),
    Check("cpu.governor", ("host",), host.governor),
    Check("runs.others", ("own_runs",), host.own_runs),
    Check("history.file", ("history",), history.file),
    Check("history.place", ("history",), history.place),
    Check("history.space", ("history",), history.space),
    Check("terminal.size", ("terminal",), terminal.size),
    Check("terminal.text", ("terminal",), terminal.text),
    Check("terminal.colours", ("terminal",), terminal.colours),
    Check("terminal.session", ("terminal",), terminal.session),
)
"""In the order in which they are printed."""

_MADE_UP = "not judged: a simulated machine, the driver of this one is not asked"
_REPORT = "This is a fault of cpugpu-tui, not of this machine: please report it."


def examine(facts: Facts, checks: tuple[Check, ...] = CHECKS) -> tuple[Finding, ...]:
    """Return one finding for each check."""
    blamed: set[str] = set()
    return tuple(replace(_finding(check, facts, blamed), check=check.name) for check in checks)


def _finding(check: Check, facts: Facts, blamed: set[str]) -> Finding:
    if facts.simulated and "driver" in check.needs and "agent" not in check.needs:
        return unknown(_MADE_UP)
    missing = [need for need in check.needs if need in facts.faults]
    for need in missing:
        if need not in blamed:  # said once; five more lines of it would hide the others
            blamed.add(need)
            return fail("Not judged.", facts.faults[need], "See whether it lasts; `dmesg` may say why.")
    if missing:
        return unknown("not judged, see above")
    try:
        return check.judge(facts)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are still worth reading
        return fail("The check itself failed.", f"It raised {type(error).__name__}: {error}", _REPORT)
