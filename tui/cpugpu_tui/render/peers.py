"""Copies between GPUs as matrices, source by target: rate, wait, and who reaches whose memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import PeerMeasured, place
from cpugpu_tui.model.quantities import micro, significant, time_text
from cpugpu_tui.state.state import RunState

NONE, FAILED = "–", "failed"
"""What stands where a GPU would copy to itself, and where there are no times."""

WORKLOAD = "transfer"
"""The experiment that the copies belong to."""


@dataclass(frozen=True)
class Matrix:
    """One table: a line for each source, a column for each target."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The source's name, then a cell for each target."""


def bytes_per_s(found: PeerMeasured) -> float | None:
    """Return the rate of the large copies, by their median time."""
    elapsed_ns = median(found.elapsed_ns) if found.elapsed_ns else 0.0
    return found.size_bytes / elapsed_ns * 1e9 if elapsed_ns > 0 and found.size_bytes > 0 else None


def latency_ns(found: PeerMeasured) -> float | None:
    """Return the median wait for the smallest copies."""
    return median(found.latencies_ns) if found.latencies_ns else None


def names_of(run: RunState) -> list[str]:
    """Return the GPUs between which copies were timed, as torch counts them."""
    return sorted({name for pair in run.peers for name in pair}, key=place)


def matrices(run: RunState) -> tuple[Matrix, ...]:
    """Return rate and wait, and the peer access where it differs between pairs; nothing without copies."""
    if not run.peers:
        return ()
    size_bytes = max(found.size_bytes for found in run.peers.values())
    large = f", {size_bytes >> 20} MiB" if size_bytes else ""
    found = [
        _matrix(run, f"Copies between GPUs in GB/s (from the row's to the column's{large})", _rate),
        _matrix(run, "The smallest copy in µs, until both GPUs had finished", _wait),
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
    """Return the matrices in short: how fast, whether memory is reached directly, and which pair failed."""
    if not run.peers:
        return _why_none(run)
    rates = sorted(rate for found in run.peers.values() if (rate := bytes_per_s(found)) is not None)
    waits = sorted(wait for found in run.peers.values() if (wait := latency_ns(found)) is not None)
    said = []
    if rates and waits:
        rate_text = span([f"{significant(rate / 1e9)} GB/s" for rate in rates])
        wait_text = span([micro(time_text(wait)) for wait in waits])
        gpus = f"the {len(names_of(run))} GPUs"
        said.append(f"Between {gpus}: {rate_text}, the smallest copy {wait_text}; {_reach(run)}.")
    for (source, target), found in run.peers.items():
        if found.problem:
            said.append(f"No copy from {source} to {target}: {found.problem}")
    return tuple(said)


def _why_none(run: RunState) -> tuple[str, ...]:
    """Return why a parallel run of the experiment has no copies between GPUs: each agent has but one."""
    is_wanted = any(row.case.workload == WORKLOAD for row in run.rows.values())
    if run.run is None or not run.run.plan.parallel or not is_wanted:
        return ()
    return ("Copies between GPUs need an agent that has them all: leave --parallel out.",)


def _reach(run: RunState) -> str:
    """Return who reaches whose memory."""
    without = [pair for pair, found in run.peers.items() if found.has_access is False]
    if not without:
        known = all(found.has_access for found in run.peers.values())
        return "each reaches the others' memory (peer access)" if known else "peer access is not known for all"
    if len(without) == len(run.peers):
        return "none reaches another's memory (no peer access), so that copies go by way of the host"
    return f"{len(without)} of {len(run.peers)} ways have no peer access and go by way of the host"


def span(texts: Sequence[str]) -> str:
    """Return the first and the last of texts in order, or the one that both are."""
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def peers_data(run: RunState) -> list[dict[str, Any]]:
    """Return the copies as JSON values, a pair each."""
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
