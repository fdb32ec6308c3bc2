"""Makes a plan of a person's request: parsing and validation, the same for flags and form fields."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from cpugpu_tui import model
from cpugpu_tui.config.parsing import FieldError, check_device, check_dtype, full_dtype, list_parts, parse_threads
from cpugpu_tui.config.sizes import MAX_CASES, ONE_SIZE, parse_size, parse_sizes, search_ends
from cpugpu_tui.decide.correlation import MIN_ROUNDS
from cpugpu_tui.decide.next_size import fine_grid, full_grid, grid
from cpugpu_tui.errors import did_you_mean
from cpugpu_tui.session import request as requests
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.repeat import option_words
from cpugpu_tui.session.request import PlanRequest as PlanRequest
from cpugpu_tui.session.request import check_settings, check_use_of_size, reference_of
from cpugpu_tui.workloads import PRESETS, Part, Preset
from cpugpu_tui.workloads.presets import SURVEY, SURVEY_ALL

SMALL_BUDGET_S = 0.2
"""Time for a case on one device at small scale: all nine presets finish in two minutes on two cores."""

COMMAND_BUDGET_S = 3600.0
"""Time for a command on one device: its rounds end with a narrow interval. A call that takes longer is timed once."""


def build_plan(request: PlanRequest) -> model.Plan:
    """Return the plan for a request.

    Raises:
        FieldError: a field has a wrong value; `.field` names it.
    """
    words, request = request_words(request), _with_search(request)
    sizes = parse_sizes(request.sizes) if request.sizes is not None else None
    known = request.own.infos()
    reference = reference_of(request)
    presets = [_chosen(find_preset(name, request.own, known), known, request) for name in request.names]
    check_use_of_size(request)
    searched = (search := _search(request, presets)) is not None
    found = [_cases(preset, sizes, known, request, searched=searched) for preset in presets]
    cases = tuple(dict.fromkeys(chain(*found)))  # presets may share cases
    if reference is not None:
        from cpugpu_tui.state.recorded_gpu import require_recorded  # not before the app's first frame

        require_recorded(request.beside or "", reference.reference, cases)
    if len(cases) > MAX_CASES:
        raise FieldError("sizes", f"Too many cases: {len(cases):,}. The limit is {MAX_CASES:,}.", "Use a larger step.")
    check_settings(request)
    least, most = _rounds(request, search)
    # A start of a survey takes 40 s, and each call of a command starts a process.
    is_one_start = request.repeat > 1 or request.own.has_commands or (search is not None and search.is_survey)
    return model.Plan(
        name="+".join(request.names),
        cases=cases,
        devices=_devices(request) if reference is None else ("cpu",),
        beside=reference.sha256 if reference is not None else "",
        parallel=request.parallel,
        metrics=_metrics(request, presets, searched=searched),
        rounds=least,
        max_rounds=most,
        has_exact_rounds=request.rounds is not None and search is None,
        blocks=_blocks(request, searched=searched),
        # That of a search holds all cases, so that a case's rounds are spread over the whole search.
        window=max(model.Search.most_cases, search.most_cases) if search is not None else model.Plan.window,
        budget_s=_budget_s(request, presets, len(cases), searched=searched),
        search=search,
        max_seconds=request.max_seconds and request.max_seconds / request.repeat,
        starts=1 if is_one_start else request.starts,
        cache=request.cache,
        scale=request.scale,
        mnist=request.mnist,
        gaps=request.gaps,
        simulation=request.simulation,
        codes=request.own.codes,
        words=words,
        host=request.host,
        own_files=request.own.files_of(case.workload for case in cases),
    )


def _metrics(request: PlanRequest, presets: list[Preset], *, searched: bool) -> tuple[str, ...]:
    codes = request.own.codes
    if request.own.has_commands:
        metrics: tuple[str, ...] = (model.LATENCY,)
    elif searched:
        metrics = (*requests.SEARCH_METRICS, model.KERNELS) if codes else requests.SEARCH_METRICS
    else:
        # Loading the profiler takes 4 s on an H200, longer than the sizes of a search.
        is_quick = any(preset.is_search for preset in presets)
        metrics = tuple(metric for metric in model.METRICS if metric != model.KERNELS or not is_quick)
    if codes:  # no publication timed it
        metrics = tuple(metric for metric in metrics if metric != model.AS_WRITTEN)
    return (*metrics, model.ENERGY) if request.energy else metrics


def _rounds(request: PlanRequest, search: model.Search | None) -> tuple[int, int]:
    """Return the least and the most rounds of a case."""
    if request.rounds is not None:
        return request.rounds, request.rounds  # an explicit number is exact; no interval ends it earlier
    least = MIN_ROUNDS if search is not None or request.own.has_commands else model.Plan.rounds
    if search is None:
        return least, model.Plan.max_rounds
    return least, requests.SURVEY_ROUNDS if search.is_survey or search.full else requests.SEARCH_ROUNDS


def _blocks(request: PlanRequest, *, searched: bool) -> int:
    if request.own.has_commands:
        return 1  # long processes differ more between rounds than within
    return requests.SEARCH_BLOCKS if searched else model.Plan.blocks


def _budget_s(request: PlanRequest, presets: list[Preset], count: int, *, searched: bool) -> float:
    """Return the time budget of one device in each of `count` cases, seconds."""
    if request.own.has_commands:
        return COMMAND_BUDGET_S
    limits = [preset.budget_s for preset in presets] or [model.Plan.budget_s]
    limits += [SMALL_BUDGET_S] if request.scale == "small" else []
    limits += [requests.SEARCH_BUDGET_S] if searched else []
    limits += [1.0] if count > 20 else []  # method.md, step 7
    return min(limits)


def _with_search(request: PlanRequest) -> PlanRequest:
    """Return a request whose `start:stop` without a step is a search between both, stop included."""
    ends = search_ends(request.sizes) if request.sizes is not None and not request.find_crossover else None
    return request if ends is None else request._replace(sizes=f"{ends[0]}, {ends[1]}", find_crossover=True)


def _devices(request: PlanRequest) -> tuple[str, ...]:
    """Return the devices, each once; for a parallel plan every GPU unless some are named.

    Raises:
        FieldError: a name is wrong, or a parallel plan includes the CPU, whose cores the GPUs' agents share.
    """
    for device in request.devices:
        check_device(device)
    if request.parallel and "cpu" in request.devices:
        raise FieldError(
            "devices", "Cannot time the CPU with --parallel: the agents of the GPUs share its cores.",
            "Leave --device cpu out, and time the CPU in a run of its own.",
        )  # fmt: skip
    asked = ("cuda" if request.parallel and device == "auto" else device for device in request.devices)
    return tuple(dict.fromkeys(asked))


def find_preset(name: str, own: OwnWorkloads, known: dict[str, model.WorkloadInfo]) -> Preset:
    """Return a preset, or a preset of one `known` workload with its default sizes.

    Raises:
        FieldError: the name is unknown.
    """
    preset = own.preset(name)
    if preset is None and name in known:
        return Preset(name, (Part(name, known[name].sizes),), known[name].summary)
    if preset is None:
        raise FieldError("names", f"Unknown preset or workload {name!r}.", own.remedy_for(name, known))
    for part in preset.parts:
        if part.workload not in known:
            raise FieldError(
                "names", f"The preset {name!r} needs the workload {part.workload!r}, which is unknown.",
                "Load its file with --workloads FILE.",
            )  # fmt: skip
    return preset


def _chosen(preset: Preset, known: dict[str, model.WorkloadInfo], request: PlanRequest) -> Preset:
    """Return a preset with those parts that `--only` names; without it, a survey leaves out what lacks the dtype.

    Raises:
        FieldError: `--only` names a workload that the preset does not run.
    """
    names = dict.fromkeys(part.workload for part in preset.parts)
    for name in request.only:
        if name not in names:
            raise FieldError("only", f"The survey has no workload {name!r}.", did_you_mean(name, names))
    wanted = request.only
    if not wanted and preset.limit_s and request.dtype:
        wanted = tuple(name for name in names if full_dtype(request.dtype) in known[name].dtypes)
    parts = tuple(part for part in preset.parts if part.workload in wanted)
    return preset._replace(parts=parts) if parts else preset


def _search(request: PlanRequest, presets: list[Preset]) -> model.Search | None:
    """Return the search of an adaptive sweep; None if the sizes are fixed."""
    # Sizes given with `quick` are exact; with `--find-crossover` they are the ends of a search.
    wanted = request.find_crossover or (request.sizes is None and all(preset.is_search for preset in presets))
    if not wanted:
        for name in ("max_size", "full"):
            if getattr(request, name):
                raise FieldError(name, f"--{name.replace('_', '-')} works only in a search.", "Add --find-crossover.")
        return None
    limit_s = sum(preset.limit_s or 0.0 for preset in presets) or None
    return requests.search_of(limit_s, is_asked=request.find_crossover, full=request.full)


def scale_text(plan: model.Plan) -> str:
    """Return what the small scale left out of a plan's presets."""
    said = [PRESETS[name].small for name in plan.name.split("+") if name in PRESETS]
    return "; ".join(small.says for small in said if small is not None) or "nothing was left out"


def _cases(
    preset: Preset, sizes: tuple[int, ...] | None, known: dict[str, model.WorkloadInfo], request: PlanRequest, *,
    searched: bool,
) -> list[model.Case]:  # fmt: skip
    """Return the cases of a preset; a person's choices apply to all of its parts.

    The cases of a search are its coarse grid, one sweep after the other.
    """
    small = preset.small if request.scale == "small" else None
    parts = preset.parts if small is None else small.parts
    axis = known[preset.parts[0].workload].axis  # a person's sizes are for parts with this axis
    asked = list_parts(request.variant) if request.variant else []
    for name in asked:
        if not any(_has(known[part.workload], name) for part in parts):
            _named(known[parts[0].workload], name, request)  # raises
    cases = []
    for part in parts:
        own = sizes if (is_first := known[part.workload].axis == axis) else None
        if searched:
            ends = _ends(own or part.sizes, request.max_size if is_first else None)
            own = full_grid(*ends) if request.full else grid(*ends, requests.most_first(preset.limit_s))
            if request.beside is not None:  # no GPU is there to search with; presets have to end in time
                own = full_grid(*ends) if preset.is_search else fine_grid(*ends)
        # A variant applies to the parts that have it; those that have none of them keep theirs.
        variants = tuple(name for name in asked if _has(known[part.workload], name)) or part.variants
        cases += _part_cases(known[part.workload], own or part.sizes, variants, preset, request)
    if searched and len({case.size for case in cases if known[case.workload].axis == axis}) == 1:
        raise _nothing_to_search(preset, cases[0].size, request)
    # One sweep after the other; the sort is stable and keeps the order of sizes.
    place = {sweep: index for index, sweep in enumerate(dict.fromkeys(case.sweep for case in cases))}
    return sorted(cases, key=lambda case: place[case.sweep]) if searched else cases


def request_words(request: PlanRequest) -> tuple[str, ...]:
    """Return the command and the options that choose a request's cases, such as `run`, `matmul`, `--size`, `16,32`.

    Typed code is not among them: `repeat_commands` takes it from the plan, and what a plan has a field for, too.
    """
    codes = {code.name for code in request.own.codes}
    names = [name for name in request.names if name not in codes]
    command = "time" if codes and not names else "run"
    end = request.pair.index("--") if "--" in request.pair else len(request.pair)  # the words of a command come last
    return (
        *(request.pair[:end] or (command, *names)),
        *option_words({
            "--only": ",".join(request.only), "--size": request.sizes, "--find-crossover": request.find_crossover,
            "--max-size": request.max_size, "--variant": request.variant, "--full": request.full,
            "--dtype": request.dtype, "--threads": request.threads, "--beside": request.beside,
        }),
        *request.pair[end:],
    )  # fmt: skip


def nth_plan(plan: model.Plan, number: int) -> model.Plan:
    """Return the plan of the `number`-th run of a series, from 1, with different simulated noise in each run.

    With equal noise, all runs of a simulated series would be copies, and comparisons would seem certain.
    """
    if plan.simulation is None:
        return plan
    return replace(plan, simulation=replace(plan.simulation, seed=plan.simulation.seed + number - 1))


def _nothing_to_search(preset: Preset, size: int, request: PlanRequest) -> FieldError:
    """Return the error for a search with one size, which has nothing to search between."""
    workload = preset.parts[0].workload
    larger = "" if request.own.codes else ", or the larger one with --max-size"  # `time` has no such option
    akin = [other.name for other in PRESETS.values() if other.name not in (SURVEY, SURVEY_ALL)
            for part in other.parts if part.workload.startswith(workload) and len(part.sizes) > 1]  # fmt: skip
    others = f" Presets with several sizes: {', '.join(dict.fromkeys(akin))}." if akin else ""
    return FieldError(
        "sizes", f"Cannot search: {model.typed_name(preset.name, request.own.codes)} has only one size, {size:,}.",
        f"Set both ends with --size, for example {size},{32 * size}{larger}.{others}",
    )  # fmt: skip


def _has(info: model.WorkloadInfo, variant: str) -> bool:
    return variant == "default" or variant in info.variants


def _ends(sizes: tuple[int, ...], max_size: str | None) -> tuple[int, int]:
    lowest, highest = min(sizes), parse_size(max_size, "max_size", ONE_SIZE) if max_size is not None else max(sizes)
    if highest < lowest:
        raise FieldError("max_size", f"The largest size {highest:,} is below the smallest, {lowest:,}.",
                         "Use a larger one, or set both ends with --size.")  # fmt: skip
    return lowest, highest


def _part_cases(
    info: model.WorkloadInfo, sizes: tuple[int, ...], variants: tuple[str, ...], preset: Preset, request: PlanRequest
) -> list[model.Case]:
    """Return the cases of one workload; a person's dtype and threads replace the preset's."""
    asked = (request.dtype,) if request.dtype else preset.dtypes or ("float32",)
    dtypes = [check_dtype(info, dtype) for dtype in asked]
    threads = parse_threads(request.threads) if request.threads is not None else preset.threads or (0,)
    named = [_named(info, variant, request) for variant in variants]
    return [
        model.Case(info.name, size, dtype, count, variant)
        for size in sizes
        for dtype in dtypes
        for variant in named
        for count in threads
    ]


def _named(info: model.WorkloadInfo, variant: str, request: PlanRequest) -> str:
    """Return a variant's own name, so that `default` and this name do not become two rows.

    Raises:
        FieldError: the workload has no such variant.
    """
    if not _has(info, variant):
        raise FieldError(
            "variant", f"Workload {model.typed_name(info.name, request.own.codes)!r} has no variant {variant!r}.",
            did_you_mean(variant, info.variants),
        )  # fmt: skip
    return info.variants[0] if variant == "default" else variant
