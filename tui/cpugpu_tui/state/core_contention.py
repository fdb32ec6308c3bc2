"""Explain rows whose threads lacked a core: how long they waited, which processes used the cores, and a remedy."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import CoreUse, CoreWait
from cpugpu_tui.model.quantities import percent, time_text
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.timing.host_watch import STARVED_SHARE
from cpugpu_tui.workloads.contract import REGISTRY

WORD = "no core"
"""Verdict of rows whose threads lacked a core."""

LEAST_CORES = 0.05
"""Smaller uses of cores are not shown."""

MOST_CORES, MOST_NAMED = 1e6, 5
"""Limits of the number of cores and names shown."""


def no_core_lines(run: RunState) -> tuple[str, ...]:
    """Return a sentence for each sweep with rows whose threads lacked a core; these rows have no winner."""
    found = []
    for rows in run.sweeps.values():
        starved = [row for row in rows if row.is_starved]
        if starved:
            found.append(f"{_cases_text(starved)}: {WORD}: {_why(starved)}")
    return tuple(found)


def _cases_text(rows: Sequence[Row]) -> str:
    case = rows[0].case
    name = case.workload if case.variant == "default" else f"{case.workload} {case.variant}"
    workload = REGISTRY.get(case.workload)
    axis = f"{workload.axis.split()[0]} = " if workload is not None else ""
    sizes = sorted(row.case.size for row in rows)
    if len(sizes) == 1:
        return f"{name} {axis}{sizes[0]:,}"
    return f"{name} {axis}{sizes[0]:,} to {sizes[-1]:,} ({len(sizes)} sizes)"


def _why(rows: Sequence[Row]) -> str:
    """Return the reason in the row with the longest wait. The latency of one thread is that of the smallest size."""
    known = [(row, times) for row in rows for times in row.times.values() if times.is_starved and times.cores]
    if not known:
        return "the threads waited for a core."
    worst = max(known, key=lambda each: each[1].cores.share if each[1].cores else 0.0)[1]
    sentences = [waited_text(worst, at_most=len(known) > 1), *use_lines(worst.cores.use if worst.cores else None)]
    single = next((each for each in sorted(known, key=lambda each: each[0].case.size) if _one_thread_ns(each[1])), None)
    if single is not None:
        where = f"At {single[0].case.size:,}, one" if len(rows) > 1 else "One"
        sentences.append(f"{where} thread takes {time_text(_one_thread_ns(single[1]) or 0.0)}.")
    return " ".join(filter(None, (*sentences, remedy(worst))))


def reason_lines(times: DeviceTimes) -> tuple[str, ...]:
    """Return the sentences about one row and device; none if its threads had their cores."""
    cores = times.cores
    if cores is None:
        return ("The threads waited for a core.",) if times.is_starved else ()
    count = len(cores.discarded)
    repeated = f"{count} half-round{'s were' if count != 1 else ' was'} repeated because threads waited for a core."
    sentences = [*([waited_text(times)] if times.is_starved else []), *([repeated] if count else [])]
    sentences += use_lines(cores.use)
    if times.is_starved:
        sentences += [single] if (single := one_thread_text(cores)) else []
        sentences += [remedy(times)]
    return tuple(filter(None, sentences))


def waited_text(times: DeviceTimes, *, at_most: bool = False) -> str:
    """Return a sentence like `the 2 threads waited for a core 43 % of the time.`; `at_most` adds `up to`."""
    cores = times.cores
    if cores is None:
        return "the threads waited for a core."
    share = f"{'up to ' if at_most else ''}{percent(cores.share)} % of the time"
    if times.device != "cpu":
        return f"the launching thread waited for a core {share}."
    if cores.threads > cores.cores:
        return f"{cores.threads} threads on {_count(cores.cores, 'core')} waited for a core {share}."
    if cores.threads == 1:
        return f"the only thread waited for a core {share}."
    return f"the {cores.threads} threads waited for a core {share}."


def use_lines(use: CoreUse | None) -> list[str]:
    """Return sentences about other users of the cores, as far as they are known."""
    if use is None:
        return []
    sentences = []
    if use.other_processes:
        named = use.others[:MOST_NAMED]
        names = ", ".join(f"{user.command or 'a process'} {min(user.cores, MOST_CORES):.1f}" for user in named)
        processes = f"{use.other_processes} other process{'es' if use.other_processes != 1 else ''}"
        sentences.append(f"{processes} used {_cores(use.other_cores)} ({names}).")
    if use.ended_cores is not None and use.ended_cores >= LEAST_CORES:
        sentences.append(f"Processes that have ended since used {_cores(use.ended_cores)}.")
    if use.unseen_cores is not None and use.unseen_cores >= LEAST_CORES:
        sentences.append(f"Work outside this container used {_cores(use.unseen_cores)}.")
    if use.stolen_cores is not None and use.stolen_cores >= LEAST_CORES:
        sentences.append(f"The hypervisor gave {_cores(use.stolen_cores)} to other virtual machines.")
    if use.throttled_periods:
        held = time_text(use.throttled_ns or 0.0)
        sentences.append(f"The CPU quota paused threads for {held}, in {_count(use.throttled_periods, 'period')}.")
    return sentences


def one_thread_text(cores: CoreWait) -> str:
    """Return the latency of one thread, or that it waited as well; empty if it was not timed."""
    if not cores.one_thread_ns:
        return ""
    if _is_single_starved(cores):
        return f"One thread also waited, {percent(cores.one_thread_share or 0.0)} % of the time."
    return f"One thread takes {time_text(median(cores.one_thread_ns))}."


def remedy(times: DeviceTimes) -> str:
    """Return the remedy for rows whose threads lacked a core."""
    cores = times.cores
    if cores is not None and cores.threads > cores.cores:
        return f"Run with --threads {cores.cores}."
    is_quota = cores is not None and cores.use is not None and bool(cores.use.throttled_periods)
    what = "Raise the CPU quota" if is_quota else "Stop other work on this machine"
    helps = cores is not None and cores.threads > 1 and not _is_single_starved(cores)
    return f"{what}{', or run with --threads 1' if helps else ''}."


def _one_thread_ns(times: DeviceTimes) -> float | None:
    cores = times.cores
    if cores is None or not cores.one_thread_ns or _is_single_starved(cores):
        return None
    return median(cores.one_thread_ns)


def _is_single_starved(cores: CoreWait) -> bool:
    return cores.one_thread_share is not None and cores.one_thread_share > STARVED_SHARE


def _cores(number: float) -> str:
    text = f"{min(number, MOST_CORES):.1f}"  # limited, so that any agent's number stays short
    return f"{text} core{'' if text == '1.0' else 's'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
