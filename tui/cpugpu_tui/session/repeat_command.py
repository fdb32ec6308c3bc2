"""The shortest command that repeats a run with the same plan."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import ENERGY, MAX_SIZE, Case, OwnCode, Plan, RunStarted, Simulation, WorkloadInfo
from cpugpu_tui.model.plain_data import to_plain
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.workloads import catalogue
from cpugpu_tui.workloads.caller_code import CALLER
from cpugpu_tui.workloads.contract import SOURCES


def repeat_text(run: RunStarted) -> str:
    """Return the commands that repeat a run in one line, separated by semicolons."""
    return "; ".join(repeat_commands(run))


def repeat_commands(run: RunStarted) -> tuple[str, ...]:
    """Return the commands that repeat a run: one if it can name all cases; none if its code was an object."""
    if any(code.target[:1] == (CALLER,) for code in run.plan.codes):
        return ()
    return tuple(_command(run, request) for request in requests_for(run.plan))


def _command(run: RunStarted, request: PlanRequest) -> str:
    plan, facts = run.plan, run.environment
    usual = Plan("", ())
    fleet = facts.get("fleet_host") is not None
    # Other settings of the host in the inventory are not part of the record.
    where = ["-w", str(facts["fleet_host"]), "--launcher", str(facts.get("launcher") or "ssh")] if fleet else []
    words = ["cpugpu-tui", *(["fleet", "run", *where] if fleet else ["run"]), *request.names]
    if plan.codes:
        words = ["cpugpu-tui", "time", *code_words(plan.codes)]
    for file in plan.own_files:
        words += ["--workloads", file.path]
    options = option_words(request)
    words += ["--n" if plan.codes and word == "--size" else word for word in options]
    for device in plan.devices:
        words += ["--device", device] if device != ("all" if fleet else "auto") else []
    words += ["--parallel"] if plan.parallel else []
    words += ["--scale", plan.scale] if plan.scale != usual.scale else []
    words += ["--mnist", plan.mnist] if plan.mnist is not None else []
    if plan.max_rounds == plan.rounds:
        words += ["--rounds", str(plan.rounds)]
    words += ["--energy"] if ENERGY in plan.metrics else []
    if plan.cache != usual.cache:
        words += ["--cache", plan.cache]
    if plan.max_seconds is not None:
        words += ["--max-seconds", f"{plan.max_seconds:g}"]
    if facts.get("case_timeout_s") is not None:
        words += ["--case-timeout", f"{facts['case_timeout_s']:g}"]
    if facts.get("worker") == "thread":
        words += ["--worker", "thread"]
    if facts.get("python_option"):
        words += ["--python", str(facts["python_option"])]
    if plan.simulation is not None:
        words += ["--simulate", simulation_text(plan.simulation)]
    if plan.times_commands:
        words += ["--", *plan.codes[0].argv]
    return shlex.join(words)


def code_words(codes: Sequence[OwnCode]) -> list[str]:
    """Return the words after `time` that name typed code: its statement, setup and parameters.

    The words of a command come last, after all options.
    """
    first = codes[0]
    words = ["--startup", shlex.join(first.startup)] if first.startup else []
    words += [] if first.argv else [first.statement]
    for line in first.setup:
        words += ["--setup", line]
    for index, (name, _) in enumerate(first.lets):
        values = ",".join(dict.fromkeys(code.lets[index][1] for code in codes))
        words += ["--let", f"{name}={values}"]
    return [*words, *(["--in-place"] if first.in_place else [])]


def option_words(request: PlanRequest) -> list[str]:
    """Return the options of `run` that choose a request's cases, without its names."""
    words = ["--size", request.sizes] if request.sizes is not None else []
    words += ["--find-crossover"] if request.find_crossover else []
    words += ["--max-size", request.max_size] if request.max_size is not None else []
    words += ["--variant", request.variant] if request.variant is not None else []
    words += ["--full"] if request.full else []
    words += ["--dtype", request.dtype] if request.dtype is not None else []
    words += ["--threads", request.threads] if request.threads is not None else []
    return words


def requests_for(plan: Plan) -> tuple[PlanRequest, ...]:
    """Return the requests that together give exactly a plan's cases and search: one if possible.

    Otherwise one for each workload, or for each sweep of a workload whose sweeps differ.
    """
    request, is_same = _closest(plan)
    for field in ("workload", "sweep"):
        parts = () if is_same else _divided(plan, attrgetter(field))
        if len(parts) > 1:
            return tuple(each for part in parts for each in requests_for(part))
    return (request,)


def _divided(plan: Plan, kind: Callable[[Case], object]) -> tuple[Plan, ...]:
    """Split a plan by `kind` of case; each part is named after its workload."""
    found: dict[object, list[Case]] = {}
    for case in plan.cases:
        found.setdefault(kind(case), []).append(case)
    return tuple(replace(plan, name=cases[0].workload, cases=tuple(cases)) for cases in found.values())


def _closest(plan: Plan) -> tuple[PlanRequest, bool]:
    """Return a request, and whether it gives exactly a plan's cases and search.

    Sizes and variant are included only if needed: the default sizes of `matmul vector-dot`, for example, are not one
    range. If no request gives exactly the plan, the last candidate is returned, with sizes and variant.
    """
    threads = dict.fromkeys(case.threads for case in plan.cases)
    names = tuple(plan.name.split("+"))
    bare = PlanRequest(
        names,
        dtype=plan.cases[0].dtype if plan.cases and plan.cases[0].dtype != "float32" else None,
        threads=None if list(threads) in ([], [0]) else ",".join(str(count or "all") for count in threads),
        scale=plan.scale,
        full=plan.search is not None and plan.search.full,
    )
    request, own = bare, _own_of(plan)
    for request in _candidates(bare, plan):
        try:
            made = build_plan(replace(request, own=own))
        except UsageError:
            continue
        if made.cases == plan.cases and made.search == plan.search:
            return request, True
    return request, False


def _own_of(plan: Plan) -> OwnWorkloads:
    """Return the workloads of a plan that are not built in, as far as its cases describe them.

    Their default sizes are unknown. A size that nobody runs stands for them, so that the plan's sizes are always named.
    """
    # A worker thread leaves own workloads in the catalogue, but the next process does not know them.
    built_in = {info.name for info in catalogue()} - SOURCES.keys()
    variants: dict[str, list[str]] = {}
    for case in plan.cases:
        if case.workload not in built_in and case.workload not in {code.name for code in plan.codes}:
            variants.setdefault(case.workload, []).append(case.variant)
    infos = [WorkloadInfo(name, name, tuple(dict.fromkeys(found)), (MAX_SIZE,), "") for name, found in variants.items()]
    return OwnWorkloads(workloads=tuple(infos), codes=plan.codes)


def _candidates(bare: PlanRequest, plan: Plan) -> Iterator[PlanRequest]:
    """Yield requests that may give a plan, the shortest first."""
    # `--size` is for a preset's first workload; parts with another axis keep their sizes.
    first = [case.size for case in plan.cases if case.workload == plan.cases[0].workload]
    sizes = list(dict.fromkeys(first))
    kinds = [bare]
    if plan.search is not None:
        kinds.append(replace(bare, find_crossover=True))
        if sizes:
            kinds.append(replace(bare, find_crossover=True, max_size=str(max(sizes))))
            sizes = sorted({min(sizes), max(sizes)})
    if sizes:
        kinds.append(replace(bare, sizes=sizes_text(sizes, searched=plan.search is not None)))
    variants = [None, *_lone_variants(plan)]
    for kind in kinds:
        for variant in variants:
            yield replace(kind, variant=variant)


def _lone_variants(plan: Plan) -> list[str]:
    """Return variants that are the only one of their workload in the plan: a person may have named them."""
    found: dict[str, set[str]] = {}
    for case in plan.cases:
        found.setdefault(case.workload, set()).add(case.variant)
    lone = dict.fromkeys(name for names in found.values() if len(names) == 1 for name in names)
    return [name for name in lone if name != "default"]


def simulation_text(simulation: Simulation) -> str:
    """Return the value of `--simulate` for this simulated machine."""
    usual = to_plain(Simulation())
    return ",".join(f"{k}={v}" for k, v in to_plain(simulation).items() if v != usual[k]) or "default"


def sizes_text(sizes: list[int], *, searched: bool = False) -> str:
    """Return what `--size` takes: start:stop for a search, start:stop:step for equal steps, else every size."""
    if searched and len(sizes) == 2:
        return f"{sizes[0]}:{sizes[1]}"
    steps = {b - a for a, b in pairwise(sizes)}
    if len(sizes) > 3 and len(steps) == 1 and min(steps) > 0:
        return f"{sizes[0]}:{sizes[-1] + 1}:{steps.pop()}"
    return ",".join(str(size) for size in sizes)
