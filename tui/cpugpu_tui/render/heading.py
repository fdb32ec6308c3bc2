"""The line above every table of a run, on the terminal and in exports: what was measured, and with what."""

from __future__ import annotations

from cpugpu_tui.machine.text import printable
from cpugpu_tui.render.gpus import device_texts
from cpugpu_tui.state.state import RunState


def heading(state: RunState) -> str:
    """Return processors, threads, torch, and each setting that is not the usual one; simulated runs say so first."""
    facts = state.run.environment if state.run is not None else {}
    host = facts.get("fleet_host")
    parts = [*([f"on {printable(str(host))}"] if host else []), *device_texts(state)]
    if state.threads:
        parts.append(f"{state.threads} CPU thread{'s' if state.threads != 1 else ''}")
    if facts.get("torch"):
        parts.append(f"torch {facts['torch']}")
    if facts.get("tf32_matmul"):
        parts.append("TF32 on")
    if state.run is not None and state.run.plan.cache != "cold":
        parts.append(f"caches {state.run.plan.cache}")
    if facts.get("worker") == "thread":
        parts.append("worker: thread")
    text = " · ".join(parts)
    return f"SIMULATED: no number here was measured. {text}" if state.simulated else text
