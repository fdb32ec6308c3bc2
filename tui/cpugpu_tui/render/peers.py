"""Copies between GPUs as matrices of source by target: rate, latency and peer access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import PeerMeasured, place
from cpugpu_tui.model.quantities import micro, significant, time_text
from cpugpu_tui.state.state import RunState

NONE, FAILED = "–", "failed"
"""Cells without a copy, and of a failed copy."""

WORKLOAD = "transfer"
"""The workload that times these copies."""


@dataclass(frozen=True)
class Matrix:
    """A table with a line for each source and a column for each target."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The source's name, then a cell for each target."""


def bytes_per_s(found: PeerMeasured) -> float | None:
    """Return the rate of the large copies by their median time."""
    elapsed_ns = median(found.elapsed_ns) if found.elapsed_ns else 0.0
    return found.size_bytes / elapsed_ns * 1e9 if elapsed_ns > 0 and found.size_bytes > 0 else None


def latency_ns(found: PeerMeasured) -> float | None:
    """Return the median latency of the smallest copies."""
    return median(found.latencies_ns) if found.latencies_ns else None


def names_of(run: RunState) -> list[str]:
    """Return the GPUs between which copies were timed, in the order of torch."""
    return sorted({name for pair in run.peers for name in pair}, key=place)


def matrices(run: RunState) -> tuple[Matrix, ...]:
    """Return rate and latency, and peer access if it differs between pairs; nothing without copies."""
    if not run.peers:
        return ()
    size_bytes = max(found.size_bytes for found in run.peers.values())
    large = f", {size_bytes >> 20} MiB" if size_bytes else ""
    found = [
        _matrix(run, f"Copies between GPUs, GB/s (row to column{large})", _rate),
        _matrix(run, "Latency of the smallest copy, µs (until both GPUs have finished)", _wait),
    ]
    if len({each.has_access for each in run.peers.values()}) > 1:
        found.append(_matrix(run, "Peer access", _access))
    return tuple(found)


def _matrix(run: RunState, title: str, cell: Callable[[PeerMeasured], str]) -> Matrix:
    names = names_of(run)
    rows = [
        (source, *(cell(run.peers[source, target]) if (source, target) in run.peers else NONE for target in names))
        for source in names
    ]
    return Matrix(title, ("from", *names), tuple(rows))


def _rate(found: PeerMeasured) -> str:
    rate = bytes_per_s(found)
    return FAILED if found.problem else NONE if rate is None else significant(rate / 1e9)


def _wait(found: PeerMeasured) -> str:
    wait_ns = latency_ns(found)
    return FAILED if found.problem else NONE if wait_ns is None else significant(wait_ns / 1e3)


def _access(found: PeerMeasured) -> str:
    return {True: "yes", False: "no", None: "?"}[found.has_access]


def peer_sentences(run: RunState) -> tuple[str, ...]:
    """Return the matrices in sentences: rate, latency, peer access and failed pairs."""
    if not run.peers:
        return _why_none(run)
    rates = sorted(rate for found in run.peers.values() if (rate := bytes_per_s(found)) is not None)
    waits = sorted(wait for found in run.peers.values() if (wait := latency_ns(found)) is not None)
    lines = []
    if rates and waits:
        rate_text = span([f"{significant(rate / 1e9)} GB/s" for rate in rates])
        wait_text = span([micro(time_text(wait)) for wait in waits])
        gpus = f"the {len(names_of(run))} GPUs"
        lines.append(f"Copies between {gpus}: {rate_text}, latency {wait_text}. {_reach(run)}.")
    for (source, target), found in run.peers.items():
        if found.problem:
            lines.append(f"The copy from {source} to {target} failed: {found.problem}")
    return tuple(lines)


def _why_none(run: RunState) -> tuple[str, ...]:
    """Return why a parallel run has no copies between GPUs: each agent has only one."""
    is_wanted = any(row.case.workload == WORKLOAD for row in run.rows.values())
    if run.run is None or not run.run.plan.parallel or not is_wanted:
        return ()
    return ("Copies between GPUs are not timed with --parallel. Run again without it.",)


def _reach(run: RunState) -> str:
    """Return which GPUs have peer access."""
    without = [pair for pair, found in run.peers.items() if found.has_access is False]
    if not without:
        known = all(found.has_access for found in run.peers.values())
        return "All pairs have peer access" if known else "Peer access is not known for all pairs"
    if len(without) == len(run.peers):
        return "No pair has peer access, so copies pass through the host"
    return f"{len(without)} of {len(run.peers)} pairs have no peer access; their copies pass through the host"


def span(texts: Sequence[str]) -> str:
    """Return `first to last` of ordered texts, or one text if both are the same."""
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def peers_data(run: RunState) -> list[dict[str, Any]]:
    """Return the copies as JSON values, one for each pair."""
    return [
        {
            "source": source,
            "target": target,
            "source_uuid": found.source.uuid,
            "target_uuid": found.target.uuid,
            "peer_access": found.has_access,
            "bytes_per_s": bytes_per_s(found),
            "latency_ns": latency_ns(found),
            "size_bytes": found.size_bytes,
            "problem": found.problem,
        }
        for (source, target), found in run.peers.items()
    ]
