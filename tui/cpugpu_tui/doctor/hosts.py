"""The checks of a host of a fleet, from what its agent reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from cpugpu_tui.doctor.check_registry import CHECKS, examine
from cpugpu_tui.doctor.facts import AgentFacts, DriverFacts, DriverSetup, Facts, Finding, HostSetup
from cpugpu_tui.model import TelemetryRead
from cpugpu_tui.state.state import RunState

ON_HOSTS = (
    "driver", "driver.gpus", "torch", "cuda.devices", "cuda.clock", "gpu.persistence", "gpu.mig", "gpu.ecc", "gpu.pcie",
    "gpu.processes", "cpu.threads", "cpu.variables",
)  # fmt: skip
"""Checks that need nothing but an agent on the host."""

SEVERITIES = ("fail", "warn", "unknown", "ok")
"""Verdicts, worst first."""


class HostFinding(NamedTuple):
    """A finding of one host."""

    host: str
    finding: Finding


def findings_of(run: RunState, read: TelemetryRead | None) -> tuple[Finding, ...]:
    """Return the findings of a host whose agent has listed its devices; `read` is what its driver said."""
    environment = dict(run.run.environment) if run.run is not None else {}
    driver = DriverFacts(DriverSetup(version=environment.get("driver")))
    if read is not None:
        problem = None if read.gpus or run.simulated else read.problem
        driver = DriverFacts(driver.setup, read.gpus, problem, has_hardware=bool(read.gpus))
    host = HostSetup(
        logical_cores=environment.get("affinity_cores") or 0, physical_cores=environment.get("physical_cores") or 0,
        quota_cores=environment.get("quota_cores"), threads=environment.get("threads") or 0,
    )  # fmt: skip
    agent = AgentFacts(environment, devices=run.devices, no_gpu=run.no_gpu, clocks=run.clocks)
    checks = tuple(
        check for check in CHECKS if check.name in ON_HOSTS and not (run.simulated and check.name == "torch")
    )
    return examine(Facts(driver=driver, agent=agent, host=host), checks)


def worst_first(hosts: Mapping[str, tuple[Finding, ...]]) -> list[HostFinding]:
    """Return the findings of all hosts: failures, then warnings; of each the check that fewest hosts share first."""
    found = [HostFinding(host, finding) for host, findings in hosts.items() for finding in findings]
    shared = Counter((each.finding.check, each.finding.verdict) for each in found)

    def place(each: HostFinding) -> tuple[int, int]:
        return SEVERITIES.index(each.finding.verdict), shared[each.finding.check, each.finding.verdict]

    return sorted(found, key=place)
