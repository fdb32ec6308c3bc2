"""A saved run again: the shortest command that repeats it with the same plan, and its missing cases in the same run."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.config.parsing import sizes_text
from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.typed_code import let_texts
from cpugpu_tui.state.folding import Remaining
from cpugpu_tui.workloads import catalogue
from cpugpu_tui.workloads.caller_code import CALLER
from cpugpu_tui.workloads.contract import SOURCES

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary, Store


def repeat_text(run: model.RunStarted) -> str:
    """Return the commands that repeat a run in one line, separated by semicolons."""
    return "; ".join(repeat_commands(run))


def repeat_commands(run: model.RunStarted) -> tuple[str, ...]:
    """Return the commands that repeat a run: one if it can name all cases.

    Empty if its code was an object, or if it is one side of a duet.
    """
    if run.environment.get(model.DUET) or any(code.target[:1] == (CALLER,) for code in run.plan.codes):
        return ()
    return tuple(_command(run, request) for request in requests_for(run.plan))


def _command(run: model.RunStarted, request: PlanRequest) -> str:
    plan, facts = run.plan, run.environment
    usual = model.Plan("", ())
    fleet = facts.get("fleet_host") is not None
    # Other settings of the host in the inventory are not part of the record.
    where = ["-w", str(facts["fleet_host"]), "--launcher", str(facts.get("launcher") or "ssh")] if fleet else []
    words = ["cpugpu-tui", *(["fleet", "run", *where] if fleet else ["run"]), *request.names]
    if request.only:
        words = ["cpugpu-tui", *request.names, "--only", ",".join(request.only)]
    if plan.codes:
        words = ["cpugpu-tui", "time", *code_words(plan.codes)]
    words += _words({"--workloads": [file.path for file in plan.own_files]})
    words += ["--n" if plan.codes and word == "--size" else word for word in option_words(request)]
    words += _words({
        "--device": [device for device in plan.devices if device != ("all" if fleet else "auto")],
        "--parallel": plan.parallel, "--scale": plan.scale if plan.scale != usual.scale else None,
        "--mnist": plan.mnist, "--rounds": plan.rounds if plan.max_rounds == plan.rounds else None,
        "--energy": model.ENERGY in plan.metrics, "--cache": plan.cache if plan.cache != usual.cache else None,
        "--max-seconds": plan.max_seconds, "--case-timeout": facts.get("case_timeout_s"),
        "--worker": "thread" if facts.get("worker") == "thread" else None, "--python": facts.get("python_option"),
        "--simulate": simulation_text(plan.simulation) if plan.simulation is not None else None,
    })  # fmt: skip
    return shlex.join([*words, *(["--", *plan.codes[0].argv] if plan.times_commands else [])])


def _words(options: Mapping[str, object]) -> list[str]:
    """Return the words of options: a list repeats its option, a flag has no value, and nothing leaves it out."""
    words: list[str] = []
    for name, given in options.items():
        for value in given if isinstance(given, list) else [given] if given else []:
            words += [name] if value is True else [name, f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def code_words(codes: Sequence[model.OwnCode]) -> list[str]:
    """Return the words after `time` that name typed code: its statement, setup and parameters.

    The words of a command come last, after all options.
    """
    first = codes[0]
    return [
        *_words({"--startup": shlex.join(first.startup)}), *([] if first.argv else [first.statement]),
        *_words({"--setup": list(first.setup), "--let": let_texts(codes), "--in-place": first.in_place}),
    ]  # fmt: skip


def option_words(request: PlanRequest) -> list[str]:
    """Return the options of `run` that choose a request's cases, without its names."""
    return _words({
        "--size": request.sizes, "--find-crossover": request.find_crossover, "--max-size": request.max_size,
        "--variant": request.variant, "--full": request.full, "--dtype": request.dtype, "--threads": request.threads,
    })  # fmt: skip


def requests_for(plan: model.Plan) -> tuple[PlanRequest, ...]:
    """Return the requests that together give exactly a plan's cases and search: one if possible.

    Otherwise one for each workload, or for each sweep of a workload whose sweeps differ.
    """
    request, is_same = _closest(plan)
    for field in ("workload", "sweep"):
        parts = () if is_same else _divided(plan, attrgetter(field))
        if len(parts) > 1:
            return tuple(each for part in parts for each in requests_for(part))
    return (request,)


def _divided(plan: model.Plan, kind: Callable[[model.Case], object]) -> tuple[model.Plan, ...]:
    """Split a plan by `kind` of case; each part is named after its workload."""
    found: dict[object, list[model.Case]] = {}
    for case in plan.cases:
        found.setdefault(kind(case), []).append(case)
    return tuple(replace(plan, name=cases[0].workload, cases=tuple(cases)) for cases in found.values())


def _closest(plan: model.Plan) -> tuple[PlanRequest, bool]:
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


def _own_of(plan: model.Plan) -> OwnWorkloads:
    """Return the workloads of a plan that are not built in, as far as its cases describe them.

    Their default sizes are unknown. A size that nobody runs stands for them, so that the plan's sizes are always named.
    """
    # A worker thread leaves own workloads in the catalogue, but the next process does not know them.
    built_in = {info.name for info in catalogue()} - SOURCES.keys()
    variants: dict[str, list[str]] = {}
    for case in plan.cases:
        if case.workload not in built_in and case.workload not in {code.name for code in plan.codes}:
            variants.setdefault(case.workload, []).append(case.variant)
    infos = [
        model.WorkloadInfo(name, name, tuple(dict.fromkeys(found)), (model.MAX_SIZE,), "")
        for name, found in variants.items()
    ]
    return OwnWorkloads(workloads=tuple(infos), codes=plan.codes)


def _candidates(bare: PlanRequest, plan: model.Plan) -> Iterator[PlanRequest]:
    """Yield requests that may give a plan, the shortest first."""
    # `--size` is for a preset's first workload; parts with another axis keep their sizes.
    first = [case.size for case in plan.cases if case.workload == plan.cases[0].workload]
    sizes = list(dict.fromkeys(first))
    kinds = [bare]
    if plan.search is not None and plan.search.is_survey:
        kinds.append(replace(bare, only=tuple(dict.fromkeys(case.workload for case in plan.cases))))
    if plan.search is not None:
        kinds.append(replace(bare, find_crossover=True))
        if sizes:
            kinds.append(replace(bare, find_crossover=True, max_size=str(max(sizes))))
            sizes = sorted({min(sizes), max(sizes)})
    if sizes:
        is_range = plan.search is not None and len(sizes) == 2
        kinds.append(replace(bare, sizes=f"{sizes[0]}:{sizes[1]}" if is_range else sizes_text(sizes)))
    every = list(dict.fromkeys(case.variant for case in plan.cases))
    variants = [None, *_lone_variants(plan), *([",".join(every)] if len(every) > 1 else [])]
    for kind in kinds:
        for variant in variants:
            yield replace(kind, variant=variant)


def _lone_variants(plan: model.Plan) -> list[str]:
    """Return variants that are the only one of their workload in the plan: a person may have named them."""
    found: dict[str, set[str]] = {}
    for case in plan.cases:
        found.setdefault(case.workload, set()).add(case.variant)
    lone = dict.fromkeys(name for names in found.values() if len(names) == 1 for name in names)
    return [name for name in lone if name != "default"]


def simulation_text(simulation: model.Simulation) -> str:
    """Return the value of `--simulate` for this simulated machine."""
    usual = to_plain(model.Simulation())
    return ",".join(f"{k}={v}" for k, v in to_plain(simulation).items() if v != usual[k]) or "default"


# ------------------------------------------------------------------ resume


LOOKED_AT = 50
"""Number of newest runs that are searched for an unfinished one."""

PASSING = ("argv", "torch_import_s", "worker", "python_option", "case_timeout_s", "face", "fleet")
"""Facts that may differ between starts and do not change times."""

SAYS_ALL = 6
"""Most differences that an error lists."""


@dataclass(frozen=True)
class Unfinished:
    """A saved run with missing cases."""

    events: tuple[model.Event, ...]
    """Its events, without skipped cases and without the end."""
    summary: RunSummary

    @property
    def started(self) -> model.RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, model.RunStarted)
        return first


def unfinished(store: Store, name: str | None, preset: str | None = None) -> Unfinished:
    """Return the named run or, without a name, this machine's newest run with missing cases, of `preset` if given.

    Raises:
        UsageError: the run does not exist, is complete, is still running, or belongs to a fleet or a duet.
    """
    if name is not None:
        run = store.summary(store.find(name))
        if run.status == "running":
            raise UsageError(f"Run {run.number} is still running.", "Wait until it ends, or stop it.")
        found = _what_is_missing(store, run)
        if found is not None and (host := found.started.environment.get("fleet_host")):
            raise UsageError(
                f"Cannot resume run {run.number}: a fleet measured it on {printable(str(host))}.",
                f"Run it again on that host: `{repeat_text(found.started)}`.",
            )
        if found is not None and found.started.environment.get(model.DUET):
            raise UsageError(
                f"Cannot resume run {run.number}: it is one side of a duet.", "Run both interpreters again."
            )
        if found is None:
            raise UsageError(f"Run {run.number} is complete.", f"`cpugpu-tui show {run.number}` shows it.")
        return found
    here = socket.gethostname()
    for run in store.runs(LOOKED_AT):
        if run.hostname != here or preset not in (None, run.name):
            continue  # imported, or merged from another machine; or of another preset
        if (run.status != "running" and run.status != "done") or run.cases_skipped:
            found = _what_is_missing(store, run)
            if found is not None and not {"fleet_host", model.DUET} & found.started.environment.keys():
                return found
    what = "run" if preset is None else preset
    raise UsageError(f"No unfinished {what} of this machine found.", "`cpugpu-tui history` lists all runs.")


def _what_is_missing(store: Store, run: RunSummary) -> Unfinished | None:
    events = store.load(run.run_id)
    kept = tuple(event for event in events if not _is_void(event))
    left = Remaining(model.Plan("", ()))
    for event in kept:
        left.note(event)
    started = kept[0]
    assert isinstance(started, model.RunStarted)
    # A search that was broken off would have chosen further cases.
    searching = started.plan.search is not None and run.status != "done"
    plan_cases = set(started.plan.cases) | set(left.cases)
    missing = any(case.key not in left.settled for case in plan_cases)
    return Unfinished(kept, run) if missing or searching else None


def _is_void(event: model.Event) -> bool:
    return isinstance(event, model.RunFinished) or (isinstance(event, model.CaseFailed) and event.kind == "skipped")


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences of two environments, as `torch 2.6.0, now 2.7.0`; empty if their times can be mixed.

    A fact that only one version of this program reports is not a difference.
    """
    return [
        f"{name.replace('_', ' ')} {_shown(then[name])}, now {_shown(now[name])}"
        for name in then
        if name in now and name not in PASSING and then[name] != now[name]
    ]


def require_environment(run: Unfinished, hello: model.Hello) -> None:
    """Check that an agent's environment is that of a saved run.

    Raises:
        UnfitError: it differs.
    """
    _require_same(run, differences(run.started.environment, hello.environment))


def require_devices(run: Unfinished, found: model.DevicesFound) -> bool:
    """Check that an agent's devices are those of a saved run; return whether the run has devices.

    Raises:
        UnfitError: they differ.
    """
    known = next((event for event in run.events if isinstance(event, model.DevicesFound)), None)
    if known is not None:
        _require_same(run, device_differences(known, found))
    return known is not None


def device_differences(then: model.DevicesFound, now: model.DevicesFound) -> list[str]:
    """Return the difference between two lists of devices; empty if they are the same."""
    before, after = ([(d.name, d.label, d.uuid) for d in found.devices] for found in (then, now))
    return [] if before == after else [f"devices {_names(then)}, now {_names(now)}"]


def _names(found: model.DevicesFound) -> str:
    return " and ".join(f"{d.label} ({d.uuid})" if d.uuid else d.label for d in found.devices) or "none"


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _require_same(run: Unfinished, differing: Sequence[str]) -> None:
    if differing:
        more = f"; and {len(differing) - SAYS_ALL} more" if len(differing) > SAYS_ALL else ""
        raise UnfitError(
            f"Run {run.summary.number} was measured in another environment: {'; '.join(differing[:SAYS_ALL])}{more}.",
            "Start a new run: times of two environments do not belong in one table.",
        )
