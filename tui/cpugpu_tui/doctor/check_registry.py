"""All checks by their stable ids, and those of a host of a fleet.

A check that raises gives a `fail` line, never a traceback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from cpugpu_tui.doctor import checks_gpu, checks_host, checks_torch
from cpugpu_tui.doctor.facts import WORST_FIRST, Facts, Finding, facts_of_host, fail, unknown
from cpugpu_tui.model import TelemetryRead
from cpugpu_tui.state.state import RunState


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    """Stable: scripts look for it."""
    needs: tuple[str, ...]
    """Sections of `Facts` that the check reads."""
    judge: Callable[[Facts], Finding]
    """Pure function of the facts."""


CHECKS = (
    Check("driver", ("driver",), checks_gpu.driver),
    Check("driver.gpus", ("driver",), checks_gpu.gpus_answer),
    Check("torch", ("agent",), checks_torch.importable),
    Check("torch.build", ("agent", "driver"), checks_torch.build),
    Check("cuda.devices", ("agent", "driver"), checks_torch.devices),
    Check("cuda.clock", ("agent", "driver"), checks_torch.event_clocks),
    Check("cuda.visible", ("driver",), checks_torch.visible),
    Check("cuda.order", ("driver",), checks_torch.order),
    Check("gpu.persistence", ("driver",), checks_gpu.persistence),
    Check("gpu.clocks", ("driver",), checks_gpu.clocks),
    Check("gpu.mig", ("driver",), checks_gpu.mig),
    Check("gpu.ecc", ("driver",), checks_gpu.ecc),
    Check("gpu.pcie", ("driver",), checks_gpu.pcie),
    Check("gpu.processes", ("driver",), checks_gpu.processes),
    Check("cpu.threads", ("host",), checks_host.threads),
    Check("cpu.variables", ("agent",), checks_host.variables),
    Check("cpu.smt", ("host",), checks_host.smt),
    Check("cpu.numa", ("host",), checks_host.numa),
    Check("cpu.denormals", ("host",), checks_host.denormals),
    Check("cpu.governor", ("host",), checks_host.governor),
    Check("runs.others", ("own_runs",), checks_host.own_runs),
    Check("history.file", ("history",), checks_host.history_file),
    Check("history.place", ("history",), checks_host.history_place),
    Check("history.space", ("history",), checks_host.history_space),
    Check("terminal.size", ("terminal",), checks_host.terminal_size),
    Check("terminal.text", ("terminal",), checks_host.terminal_text),
    Check("terminal.colours", ("terminal",), checks_host.terminal_colours),
    Check("terminal.session", ("terminal",), checks_host.terminal_session),
)
"""In the order in which they are printed."""

_SIMULATED = "not judged: the machine is simulated, so its driver was not queried"
_REPORT = "Please report this bug in cpugpu-tui."


def examine(facts: Facts, checks: tuple[Check, ...] = CHECKS) -> tuple[Finding, ...]:
    """Return one finding for each check."""
    reported: set[str] = set()
    return tuple(replace(_finding(check, facts, reported), check=check.name) for check in checks)


def _finding(check: Check, facts: Facts, reported: set[str]) -> Finding:
    if facts.simulated and "driver" in check.needs and "agent" not in check.needs:
        return unknown(_SIMULATED)
    missing = [need for need in check.needs if need in facts.faults]
    for need in missing:
        if need not in reported:  # one line per missing section: repeating it would hide the other checks
            reported.add(need)
            return fail("Not judged.", facts.faults[need], "Run the check again; if it still fails, look in `dmesg`.")
    if missing:
        return unknown("not judged: see the failure above")
    try:
        return check.judge(facts)
    except Exception as error:  # noqa: BLE001 - the other checks are still worth reading
        return fail("The check could not finish.", f"It raised {type(error).__name__}: {error}", _REPORT)


# ------------------------------------------------------------------ hosts of a fleet, from what their agents report


ON_HOSTS = (
    "driver", "driver.gpus", "torch", "cuda.devices", "cuda.clock", "gpu.persistence", "gpu.mig", "gpu.ecc", "gpu.pcie",
    "gpu.processes", "cpu.threads", "cpu.variables",
)  # fmt: skip
"""Checks that need nothing but an agent on the host."""


class HostFinding(NamedTuple):
    """A finding of one host."""

    host: str
    finding: Finding


def findings_of(run: RunState, read: TelemetryRead | None) -> tuple[Finding, ...]:
    """Return the findings of a host whose agent has listed its devices; `read` is what its driver said."""
    checks = tuple(
        check for check in CHECKS if check.name in ON_HOSTS and not (run.simulated and check.name == "torch")
    )
    return examine(facts_of_host(run, read), checks)


def worst_first(hosts: Mapping[str, tuple[Finding, ...]]) -> list[HostFinding]:
    """Return the findings of all hosts: failures, then warnings; of each the check that fewest hosts share first."""
    found = [HostFinding(host, finding) for host, findings in hosts.items() for finding in findings]
    shared = Counter((each.finding.check, each.finding.verdict) for each in found)

    def place(each: HostFinding) -> tuple[int, int]:
        return WORST_FIRST.index(each.finding.verdict), shared[each.finding.check, each.finding.verdict]

    return sorted(found, key=place)
