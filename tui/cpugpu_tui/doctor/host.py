"""Checks of the host: what the CPU side is allowed, and what makes it slow in silence."""

from __future__ import annotations

from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, ok, unknown, warn

_FLUSHING = ("x86_64", "amd64", "aarch64", "arm64")
"""Architectures whose processors flush denormals when torch asks them to."""

_OLD_POWERSAVE = ("intel_pstate", "amd-pstate", "amd-pstate-epp")
"""Drivers whose `powersave` follows the load; everywhere else it stays at the lowest clock."""


def threads(facts: Facts) -> Finding:
    """Judge the cgroup's quota against the cores that the affinity mask shows."""
    host = facts.host
    found = f"{_threads(host.threads)} on {host.physical_cores} cores"
    if host.quota_cores is None:
        return ok(f"{found}; no quota")
    found = f"{found}; the quota is {host.quota_cores:g} cores"
    if host.quota_cores >= host.physical_cores:
        return ok(found)
    return warn(
        found,
        "The CPU side stands for a share of this machine, and threads over the quota are stopped for parts of 0.1 s.",
        "Ask the container or the scheduler for more cores, or compare with other machines by this number of threads.",
    )


def _threads(count: int) -> str:
    return f"{count} thread" if count == 1 else f"{count} threads"


def variables(facts: Facts) -> Finding:
    """Judge variables with which launchers (Ray, Dask, torchrun) bind the CPU side to one thread."""
    if facts.agent.environment is None:
        return unknown("not judged: no agent came up to say what it inherits")
    inherited: dict[str, str] = facts.agent.environment.get("inherited") or {}
    if not inherited:
        return ok("no OMP or MKL variable is inherited")
    return warn(
        ", ".join(f"{name}={value}" for name, value in sorted(inherited.items())),
        "We set the number of threads ourselves, but places and pools of threads follow these.",
        f"Start without them: env {' '.join(f'-u {name}' for name in sorted(inherited))} cpugpu-tui",
    )


def smt(facts: Facts) -> Finding:
    """Say whether two hardware threads share a core: we use one of each core."""
    host = facts.host
    known = {True: "on: one thread a core is used", False: "off", None: "unknown"}
    return ok(f"SMT {known[host.smt]}; {host.logical_cores} logical CPUs, {host.physical_cores} cores")


def numa(facts: Facts) -> Finding:
    """Say over how many memory nodes the threads are spread."""
    nodes = facts.host.numa_nodes
    if len(nodes) <= 1:
        return ok("1 memory node" if nodes else "memory nodes unknown")
    # No warning: half of all servers have two, and results of a whole machine are results too.
    return ok(f"{len(nodes)} memory nodes in use; for one: numactl --cpunodebind=0 --membind=0 cpugpu-tui")


def denormals(facts: Facts) -> Finding:
    """Judge whether the processor can flush denormals to zero, as a run does unless its plan says otherwise."""
    architecture = facts.host.architecture
    if architecture.lower() in _FLUSHING:
        return ok(f"flushed to zero before the first parallel operation ({architecture})")
    return warn(
        f"torch may not flush denormals on {architecture or 'this processor'}.",
        "Sums that fade towards zero then take 16 times longer on the CPU (measured on x86_64).",
        "Read CPU times of long iterations with care.",
    )


def governor(facts: Facts) -> Finding:
    """Judge the clock governor."""
    host = facts.host
    clock = "" if host.frequency_mhz is None else f", fastest core at {host.frequency_mhz:.0f} MHz now"
    if host.governor is None:
        return ok(f"governor cannot be read (virtual machines have none){clock}")
    found = f"governor {host.governor}{f' of {host.frequency_driver}' if host.frequency_driver else ''}{clock}"
    if host.governor == "powersave" and host.frequency_driver not in _OLD_POWERSAVE:
        return warn(
            found,
            "It keeps the cores at their lowest clock.",
            "An administrator can change it: cpupower frequency-set -g performance.",
        )
    return ok(found)


def own_runs(facts: Facts) -> Finding:
    """Judge whether this program runs a second time here: two of our runs disturb each other."""
    if not facts.own_runs:
        return ok("no other cpugpu-tui on this machine, as far as can be seen from here")
    return warn(
        ", ".join(f"{run.user or '?'}: {run.command or '?'} (pid {run.pid})" for run in facts.own_runs),
        "Two of our runs at a time measure each other.",
        "End the other, or start yours when it is done.",
    )
