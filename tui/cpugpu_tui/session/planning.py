"""From what a person asks for to a plan: parsing and validation, the same for flags and form fields."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cpugpu_tui.config.parsing import MAX_CASES, FieldError, check_device, check_dtype, parse_sizes, parse_threads
from cpugpu_tui.decide.crossover import grid
from cpugpu_tui.decide.stats import MIN_ROUNDS
from cpugpu_tui.model import (
    AS_WRITTEN,
    COLD_START,
    DEVICE,
    END_TO_END,
    ENERGY,
    KERNELS,
    LATENCY,
    MAX_SIZE,
    METRICS,
    SCALES,
    Case,
    Plan,
    Search,
    Simulation,
    WorkloadInfo,
)
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.workloads import PRESETS, Part, Preset
from cpugpu_tui.workloads.own_code import compiled

SMALL_BUDGET_S = 0.2
"""Time for a device and case at small scale: the nine presets together finish in two minutes on two cores."""

SEARCH_BUDGET_S = 1.5
"""Time for a device and case of a search: 40 rounds of a short operation take 0.8 s."""

QUICK_CASES = 14
"""Cases of `quick`, which is to end within 10 s on a GPU server: seven sizes to begin with, seven to narrow."""

SEARCH_ROUNDS = 24
"""Most rounds of a case in a search: what is still undecided then lies within the bracket."""

SEARCH_BLOCKS = 3
"""Blocks in a half-round of a search: its noise is between rounds, and so is its time."""

SEARCH_METRICS = (LATENCY, DEVICE, END_TO_END, AS_WRITTEN, COLD_START)
"""What a search takes: nothing that its answer does not need. Loading the profiler alone takes 4 s on an H200."""


@dataclass(frozen=True)
class PlanRequest:
    """What a person asked for, as text where they typed text; None means the preset's own."""

    names: tuple[str, ...] = ("quick",)
    """Presets and workloads."""
    sizes: str | None = None
    """`1:10000:50` (start:stop:step, stop excluded as in Python) or `16,32,64`."""
    dtype: str | None = None
    threads: str | None = None
    """`all`, a number, or several separated by commas."""
    variant: str | None = None
    devices: tuple[str, ...] = ("auto",)
    rounds: int | None = None
    max_seconds: float | None = None
    case_timeout_s: float | None = None
    repeat: int = 1
    """Runs of one series."""
    cache: str = "cold"
    scale: str = "full"
    mnist: str | None = None
    """Folder of the person's own idx files; None leaves it to CPUGPU_MNIST, and draws digits without."""
    simulation: Simulation | None = None
    find_crossover: bool = False
    """Choose sizes as it goes, between the smallest and the largest."""
    max_size: str | None = None
    """Largest size of such a search; None for the workload's own."""
    full: bool = False
    """Time the CPU also where it is hopelessly behind."""
    parallel: bool = False
    """An agent for each GPU, all at the same time."""
    gaps: bool = False
    """Whether a user interface paints while this runs."""
    energy: bool = False
    """Measure the joules of a call too: some 2 s more for each case and device."""
    own: OwnWorkloads = field(default_factory=OwnWorkloads)
    """What there is beside the built-in presets and workloads."""


def build_plan(request: PlanRequest) -> Plan:
    """Return the plan for a request.

    Raises:
        FieldError: a field has a wrong value; `.field` names it.
    """
    request = _with_search(request)
    sizes = parse_sizes(request.sizes) if request.sizes is not None else None
    known = request.own.infos()
    presets = [find_preset(name, request.own, known) for name in request.names]
    for preset in presets if sizes is None else ():
        if any(code.name == preset.name and compiled(code).uses_size for code in request.own.codes):
            raise FieldError("sizes", "The code uses n, so it needs sizes.", "Add --n, for example --n 16:4096.")
    search = _search(request, presets)
    cases: dict[str, Case] = {}
    for preset in presets:
        for case in _cases(preset, sizes, known, request, searched=search is not None):
            cases.setdefault(case.key, case)
    if len(cases) > MAX_CASES:
        raise FieldError("sizes", f"That makes {len(cases):,} cases; the most is {MAX_CASES:,}.", "Use a larger step.")
    check_positive(request)
    for device in request.devices:
        check_device(device)
    budget_s = min((preset.budget_s for preset in presets), default=5.0)
    if request.scale == "small":
        budget_s = min(budget_s, SMALL_BUDGET_S)
    metrics = tuple(m for m in METRICS if m != KERNELS or all(preset.is_profiled for preset in presets))
    if search is not None:
        metrics = (*SEARCH_METRICS, KERNELS) if request.own.codes else SEARCH_METRICS
        budget_s = min(budget_s, SEARCH_BUDGET_S)
    if request.own.codes:  # no publication timed it
        metrics = tuple(metric for metric in metrics if metric != AS_WRITTEN)
    if request.energy:
        metrics += (ENERGY,)
    plan = Plan(
        name="+".join(request.names),
        cases=tuple(cases.values()),
        devices=_devices(request),
        parallel=request.parallel,
        metrics=metrics,
        budget_s=budget_s if len(cases) <= 20 else min(budget_s, 1.0),  # method.md, step 7
        search=search,
        max_seconds=request.max_seconds,
        cache=request.cache,
        scale=request.scale,
        mnist=request.mnist,
        gaps=request.gaps,
        simulation=request.simulation,
        codes=request.own.codes,
        own_files=request.own.files_of(case.workload for case in cases.values()),
    )
    if search is not None:
        # All its cases are the window, so that a case's rounds are spread over the whole search.
        plan = replace(
            plan, rounds=MIN_ROUNDS, max_rounds=SEARCH_ROUNDS, blocks=SEARCH_BLOCKS, window=Search.most_cases
        )
    if request.rounds is None:
        return plan
    # Whoever names a number of rounds wants that number, not one that an interval decides.
    return replace(plan, rounds=request.rounds, max_rounds=request.rounds)


def _with_search(request: PlanRequest) -> PlanRequest:
    """Return a request whose `start:stop` without a step is a search between both, stop included."""
    parts = request.sizes.split(":") if request.sizes is not None and "," not in request.sizes else []
    if len(parts) != 2 or request.find_crossover or request.rounds is not None:
        return request
    parse_sizes(f"{request.sizes}:{MAX_SIZE}")  # refuses an empty range
    return replace(request, sizes=",".join(parts), find_crossover=True)


def _devices(request: PlanRequest) -> tuple[str, ...]:
    """Return the devices, each once; of a parallel plan every GPU unless some are named.

    Raises:
        FieldError: the CPU is to be timed while the GPUs' agents keep its cores busy.
    """
    if request.parallel and "cpu" in request.devices:
        raise FieldError(
            "devices", "The CPU cannot be timed while the agents of --parallel share its cores.",
            "Leave --device cpu out, and time the CPU in a run without --parallel.",
        )  # fmt: skip
    asked = ("cuda" if request.parallel and device == "auto" else device for device in request.devices)
    return tuple(dict.fromkeys(asked))


def find_preset(name: str, own: OwnWorkloads, known: dict[str, WorkloadInfo]) -> Preset:
    """Return a preset, or one of the `known` workloads by its own default sizes.

    Raises:
        FieldError: there is neither of this name.
    """
    preset = own.preset(name)
    if preset is None and name in known:
        return Preset(name, (Part(name, known[name].sizes),), known[name].summary, "")
    if preset is None:
        names = ", ".join(dict.fromkeys([*PRESETS, *(each.name for each in own.presets), *known]))
        raise FieldError(
            "names", f"There is no preset or workload {name!r}.",
            f"There are: {names}; your own come from a file with --workloads.",
        )  # fmt: skip
    for part in preset.parts:
        if part.workload not in known:
            raise FieldError(
                "names", f"The preset {name!r} needs the workload {part.workload!r}, which there is not.",
                "Name its file with --workloads.",
            )  # fmt: skip
    return preset


def _search(request: PlanRequest, presets: list[Preset]) -> Search | None:
    """Return what an adaptive sweep looks for; None where the sizes are fixed."""
    # Whoever names sizes or a variant of `quick` wants those; `--find-crossover` looks between them.
    wanted = request.find_crossover or (request.sizes is None and all(preset.is_search for preset in presets))
    if not wanted:
        for name in ("max_size", "full"):
            if getattr(request, name):
                raise FieldError(
                    name, f"--{name.replace('_', '-')} belongs to a search.", "Add --find-crossover to it."
                )
        return None
    most_cases = Search.most_cases if request.find_crossover else QUICK_CASES
    return Search(most_cases=most_cases, full=request.full)


def scale_text(plan: Plan) -> str:
    """Return what the small scale of a plan's presets left out."""
    said = [PRESETS[name].small for name in plan.name.split("+") if name in PRESETS]
    return "; ".join(small.says for small in said if small is not None) or "nothing was left out"


def _cases(
    preset: Preset,
    sizes: tuple[int, ...] | None,
    known: dict[str, WorkloadInfo],
    request: PlanRequest,
    *,
    searched: bool,
) -> list[Case]:
    """Return the cases of a preset; several parts of it share what the person asked for.

    Those of a search are its coarse grid, one sweep after the other.
    """
    small = preset.small if request.scale == "small" else None
    # Sizes that a person names are the first part's: 256 MiB to copy must not become 268 million models to move.
    axis = known[preset.parts[0].workload].axis
    parts = preset.parts if small is None else small.parts
    # A variant is that of the parts that have it; the others keep their own, as one experiment.
    having = [part for part in parts if request.variant and _has(known[part.workload], request.variant)]
    cases = []
    for part in parts:
        is_first = known[part.workload].axis == axis
        own = sizes if is_first else None
        if searched:
            own = _grid(own or part.sizes, request.max_size if is_first else None)
        variants = (request.variant,) if request.variant and (part in having or not having) else part.variants
        cases += _part_cases(known[part.workload], own or part.sizes, variants, preset, request)
    if searched and len({case.size for case in cases if known[case.workload].axis == axis}) == 1:
        raise _nothing_to_search(preset, cases[0].size)
    # One sweep after the other: sorting keeps the order of sizes within each.
    return sorted(cases, key=lambda case: [c.sweep for c in cases].index(case.sweep)) if searched else cases


def nth_plan(plan: Plan, number: int) -> Plan:
    """Return the plan of the `number`-th run of a series, from 1: a made-up machine draws other noise in each.

    A real one does so by itself. With the same noise all runs of a series were copies of the first, and comparisons
    took them for certainty.
    """
    if plan.simulation is None:
        return plan
    return replace(plan, simulation=replace(plan.simulation, seed=plan.simulation.seed + number - 1))


def _nothing_to_search(preset: Preset, size: int) -> FieldError:
    """Return the refusal of a search that has one size, which would time it and be silent about the rest."""
    workload = preset.parts[0].workload
    akin = [other.name for other in PRESETS.values()
            for part in other.parts if part.workload.startswith(workload) and len(part.sizes) > 1]  # fmt: skip
    others = f"; or take {' or '.join(dict.fromkeys(akin))}, which go through sizes" if akin else ""
    return FieldError(
        "sizes", f"{preset.name} has one size here, {size:,}: there is nothing to search between.",
        f"Name both ends with --size, like {size},{32 * size}, or the larger with --max-size{others}.",
    )  # fmt: skip


def _has(info: WorkloadInfo, variant: str) -> bool:
    return variant == "default" or variant in info.variants


def _grid(sizes: tuple[int, ...], max_size: str | None) -> tuple[int, ...]:
    highest = parse_sizes(max_size)[-1] if max_size is not None else max(sizes)
    if highest < min(sizes):
        raise FieldError("max_size", f"The largest size {highest:,} is below the smallest, {min(sizes):,}.",
                         "Write a larger one, or name both ends with --size.")  # fmt: skip
    return grid(min(sizes), highest)


def _part_cases(
    info: WorkloadInfo, sizes: tuple[int, ...], variants: tuple[str, ...], preset: Preset, request: PlanRequest
) -> list[Case]:
    """Return the cases of one workload; dtype and threads that a person asked for stand above the preset's own."""
    asked = (request.dtype,) if request.dtype else preset.dtypes or ("float32",)
    dtypes = [check_dtype(info, dtype) for dtype in asked]
    threads = parse_threads(request.threads) if request.threads is not None else preset.threads or (0,)
    named = [_named(info, variant) for variant in variants]
    return [
        Case(info.name, size, dtype, count, variant)
        for size in sizes
        for dtype in dtypes
        for variant in named
        for count in threads
    ]


def _named(info: WorkloadInfo, variant: str) -> str:
    """Return the variant's own name, so that `default` and it do not become two rows.

    Raises:
        FieldError: there is no such variant.
    """
    if not _has(info, variant):
        raise FieldError(
            "variant", f"Workload {info.name!r} has no variant {variant!r}.", f"It has: {', '.join(info.variants)}."
        )
    return info.variants[0] if variant == "default" else variant


def check_positive(request: PlanRequest) -> None:
    """Refuse numbers that cannot be counts or times.

    Raises:
        FieldError: a count below 1, a time that is not above 0, or an unknown cache state.
    """
    if request.rounds is not None and not 1 <= request.rounds <= 1000:
        raise FieldError("rounds", f"{request.rounds} rounds are not possible.", "Write a number from 1 to 1000.")
    if not 1 <= request.repeat <= 1000:
        raise FieldError("repeat", f"{request.repeat} repeats are not possible.", "Write a number from 1 to 1000.")
    for name in ("max_seconds", "case_timeout_s"):
        seconds = getattr(request, name)
        if seconds is not None and not 0 < seconds < 1e9:
            raise FieldError(name, f"{seconds:g} seconds are not possible.", "Write a time above 0.")
    if request.cache not in ("cold", "warm"):
        raise FieldError("cache", f"There is no cache state {request.cache!r}.", "Write cold or warm.")
    if request.scale not in SCALES:
        raise FieldError("scale", f"There is no scale {request.scale!r}.", "Write full or small.")
