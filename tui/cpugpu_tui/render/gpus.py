"""Several GPUs in one run, in numbers and sentences: how each compares with its model, and copies between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cpugpu_tui.analysis.slow_gpus import ENOUGH_ALIKE, Standing, grouped, overall, standings
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import DEVICE, RECORDED, RECORDED_GPU, Device, PeerMeasured, place
from cpugpu_tui.model.quantities import counted, joined, percent, significant, time_text
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.folding import MeasuredRun, once
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState


def models_of(run: RunState) -> dict[str, str]:
    """Return GPU → its model, in the order of torch."""
    return {gpu.name: gpu.label for gpu in run.gpus}


def several(run: RunState) -> bool:
    """Whether rows have the times of more than one GPU."""
    return len(run.gpus) > 1


def row_times(run: RunState, row: Row) -> dict[str, float]:
    """Return GPU → ns of a call in a row; see `own_or_waited`."""
    return own_or_waited(row.times, models_of(run)) if row.status in ("active", "ok") else {}


def own_or_waited(times: Mapping[str, DeviceTimes], models: Mapping[str, str]) -> dict[str, float]:
    """Return GPU → ns of a call: kernel time if all GPUs of its model have it, otherwise latency.

    Kernel time is preferred because other load on a CPU core lengthens the latency, although the GPU is not slow.
    """
    found: dict[str, float] = {}
    for names in grouped(models).values():
        timed = [(name, times[name]) for name in names if name in times]
        own = {name: ns for name, each in timed if (ns := each.median_ns(DEVICE))}
        waited = {name: ns for name, each in timed if (ns := each.latency_ns)}
        found |= own if len(own) == len(timed) else waited
    return found


def row_standings(run: RunState, row: Row) -> dict[str, Standing]:
    """Return each GPU's standing in one row; models with one GPU are left out."""
    return standings(row_times(run, row), models_of(run)) if several(run) else {}


@once  # every pane needs it at every paint
def run_standings(run: RunState) -> Mapping[str, Standing]:
    """Return each GPU's standing over all rows."""
    return overall([row_times(run, row) for row in run.rows.values()], models_of(run)) if several(run) else {}


def slow_text(run: RunState, row: Row, gpu: str, standing: Standing) -> str:
    """Return how slow a GPU is in a row, in a few words; empty if it is not slow."""
    if not standing.is_slow:
        return ""
    is_own = row_times(run, row)[gpu] != row.times[gpu].latency_ns
    return f"slow: {'kernels ' if is_own else ''}+{percent(standing.ratio - 1)} %"


def gpu_sentences(run: RunState) -> tuple[str, ...]:
    """Return the sentences about several GPUs: that they ran in parallel, and which are slow."""
    if not several(run):
        return ()
    found = run_standings(run)
    lines = [_shared(run)]
    for model, names in grouped(models_of(run)).items():
        known = [name for name in names if name in found]
        if len(names) == 1:
            lines.append(f"{names[0]} is the only {model}, so it is not compared with another GPU.")
        elif known:
            rows = [row_standings(run, row) for row in run.rows.values()]
            lines += group_sentences(model, {name: found[name] for name in known}, rows)
    return tuple(sentence for sentence in lines if sentence)


def _shared(run: RunState) -> str:
    """Return the warning about a parallel run; empty for other runs."""
    if not run.plan.parallel:
        return ""
    return (
        f"{len(run.gpus)} GPUs ran at the same time. They share power, PCIe and CPU cores, "
        "so each may be slower than alone."
    )


def group_sentences(model: str, found: Mapping[str, Standing], rows: Sequence[Mapping[str, Standing]]) -> list[str]:
    """Return which GPUs of a model are slow, or how alike they are; `rows` holds their standings in each row."""
    slow = {name: standing for name, standing in found.items() if standing.is_slow}
    each = f"the {len(found)} {model}{'s' if model.endswith('GPU') else ''}"
    lines = []
    for name, standing in slow.items():
        judged = [row[name] for row in rows if name in row]
        often = f"marked in {sum(each.is_slow for each in judged)} of {len(judged)} rows"
        if standing.z is None:
            (other,) = (other for other in found if other != name)
            over = f"{percent(standing.ratio / found[other].ratio - 1)} % slower than {other}, the other {model}"
            how = "of two GPUs either may be the unusual one"
        else:
            over = f"{percent(standing.ratio - 1)} % slower than the median of {each}"
            how = "an outlier" if math.isinf(standing.z) else f"an outlier, robust z {significant(standing.z)}"
        lines.append(f"{name} is slow: {over} ({how}; {often}).")
    if not slow:
        widest = max(abs(standing.ratio - 1) for standing in found.values())
        few = "" if len(found) >= ENOUGH_ALIKE else " (two GPUs count as alike within 5 %)"
        mean = f" in the mean of {len(rows)} rows" if len(rows) > 1 else ""  # single rows differ by more
        lines.append(f"{each[0].upper()}{each[1:]} are alike: within {percent(widest)} % of their median{mean}{few}.")
    return lines


def gpus_data(run: RunState) -> list[dict[str, Any]]:
    """Return the run's GPUs as JSON values with their standings over all rows; nulls for the only GPU of a model."""
    found = run_standings(run)
    return [
        {"device": gpu.name, "model": gpu.label, "uuid": gpu.uuid, **_standing_data(found.get(gpu.name))}
        for gpu in run.gpus
    ]


def _standing_data(found: Standing | None) -> dict[str, Any]:
    if found is None:
        return {"alike": 1, "over_model": None, "robust_z": None, "slow": None}
    z = found.z if found.z is not None and math.isfinite(found.z) else None
    return {"alike": found.alike, "over_model": found.ratio, "robust_z": z, "slow": found.is_slow}


SIMULATED = "SIMULATED: no number here was measured."
"""The mark of simulated runs."""

SIMULATED_OWN = "SIMULATED: your code was not timed. No number here was measured."
"""The mark of those of a person's own code."""


def simulated_words(run: RunState | MeasuredRun) -> str:
    """Return the mark of a simulated run, with a space after it; nothing for a measured one."""
    is_own = run.plan.codes or run.plan.own_files
    return (f"{SIMULATED_OWN} " if is_own else f"{SIMULATED} ") if run.simulated else ""


def beside_words(run: RunState) -> str:
    """Return the first words about a run whose GPU was recorded: on what; empty if all was measured here."""
    gpu = run.gpu
    return f"Your CPU against a recorded server ({gpu.label})" if gpu is not None and gpu.name == RECORDED else ""


def gpu_name(run: RunState) -> str:
    """Return what a chart calls the first GPU: `GPU`, its name among several, or `recorded GPU`."""
    return RECORDED_GPU if beside_words(run) else run.gpu.name if run.gpu is not None and len(run.gpus) > 1 else "GPU"


def device_texts(run: RunState) -> list[str]:
    """Return the names of a run's devices, GPUs of one model counted: `4 × NVIDIA H200`."""
    return counted(device.label for device in run.devices if device.name != RECORDED)


def listed(names: Iterable[str]) -> str:
    """Return `cuda:0, cuda:2 and cuda:3`; three or more consecutive ones as `cuda:0 to cuda:3`."""
    runs: list[list[str]] = []
    for name in names:
        if runs and place(name) == place(runs[-1][-1]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = [part for each in runs for part in ([f"{each[0]} to {each[-1]}"] if len(each) > 2 else each)]
    return joined(parts)


def described(gpu: Device) -> str:
    """Return a GPU's name with its model, `cuda:1 (NVIDIA H200)`."""
    return f"{gpu.name} ({gpu.label})"


# ------------------------------------------------------------------ peers


NO_COPY, FAILED_COPY = "–", "failed"
"""Cells without a copy, and of a failed copy."""

WORKLOAD = "transfer"
"""The workload that times these copies."""


class Matrix(NamedTuple):
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
        found.append(_matrix(run, "Peer access", lambda each: {True: "yes", False: "no", None: "?"}[each.has_access]))
    return tuple(found)


def _matrix(run: RunState, title: str, cell: Callable[[PeerMeasured], str]) -> Matrix:
    names = names_of(run)
    rows = [
        (source, *(cell(run.peers[source, target]) if (source, target) in run.peers else NO_COPY for target in names))
        for source in names
    ]
    return Matrix(title, ("from", *names), tuple(rows))


def _rate(found: PeerMeasured) -> str:
    rate = bytes_per_s(found)
    return FAILED_COPY if found.problem else NO_COPY if rate is None else significant(rate / 1e9)


def _wait(found: PeerMeasured) -> str:
    wait_ns = latency_ns(found)
    return FAILED_COPY if found.problem else NO_COPY if wait_ns is None else significant(wait_ns / 1e3)


def peer_sentences(run: RunState) -> tuple[str, ...]:
    """Return the matrices in sentences: rate, latency, peer access and failed pairs."""
    if not run.peers:
        return _why_none(run)
    rates = sorted(rate for found in run.peers.values() if (rate := bytes_per_s(found)) is not None)
    waits = sorted(wait for found in run.peers.values() if (wait := latency_ns(found)) is not None)
    lines = []
    if rates and waits:
        rate_text = span([f"{significant(rate / 1e9)} GB/s" for rate in rates])
        wait_text = span([time_text(wait) for wait in waits])
        gpus = f"the {len(names_of(run))} GPUs"
        lines.append(f"Copies between {gpus}: {rate_text}, latency {wait_text}. {_reach(run)}.")
    for (source, target), found in run.peers.items():
        if found.problem:
            lines.append(f"The copy from {source} to {target} failed: {found.problem}")
    return tuple(lines)


def _why_none(run: RunState) -> tuple[str, ...]:
    """Return why a parallel run has no copies between GPUs: each agent has only one."""
    is_wanted = any(row.case.workload == WORKLOAD for row in run.rows.values())
    if not run.plan.parallel or not is_wanted:
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
            "source": source, "target": target, "source_uuid": found.source.uuid, "target_uuid": found.target.uuid,
            "peer_access": found.has_access, "bytes_per_s": bytes_per_s(found), "latency_ns": latency_ns(found),
            "size_bytes": found.size_bytes, "problem": found.problem,
        }
        for (source, target), found in run.peers.items()
    ]  # fmt: skip
