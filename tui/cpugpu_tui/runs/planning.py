"""From what a person asks for to a plan: parsing and validation, the same for flags and form fields."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from cpugpu_tui.analysis.search import grid
from cpugpu_tui.analysis.stats import MIN_ROUNDS
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import (
    AS_WRITTEN,
    COLD_START,
    DEVICE,
    DTYPES,
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
)
from cpugpu_tui.workloads import PRESETS, Part, Preset, Workload, catalogue, find

MAX_CASES = 10_000
"""More cases than this are a slip of the keyboard (`1:1e9:1`), not a plan."""

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

MAX_THREADS = 4096
"""More CPU threads than any machine has."""


class FieldError(UsageError):
    """A value a person gave cannot be used; `field` names which one, for a form."""

    def __init__(self, field: str, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.field = field
        """Name of the `PlanRequest` field."""


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
    gaps: bool = False
    """Whether a user interface paints while this runs."""
    energy: bool = False
    """Measure the joules of a call too: some 2 s more for each case and device."""


def build_plan(request: PlanRequest) -> Plan:
    """Return the plan for a request.

    Raises:
        FieldError: a field has a wrong value; `.field` names it.
    """
    sizes = parse_sizes(request.sizes) if request.sizes is not None else None
    threads = parse_threads(request.threads) if request.threads is not None else (0,)
    presets = [find_preset(name) for name in request.names]
    search = _search(request, presets)
    cases: dict[str, Case] = {}
    for preset in presets:
        for case in _cases(preset, sizes, threads, request, searched=search is not None):
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
        metrics, budget_s = SEARCH_METRICS, min(budget_s, SEARCH_BUDGET_S)
    if request.energy:
        metrics += (ENERGY,)
    plan = Plan(
        name="+".join(request.names),
        cases=tuple(cases.values()),
        devices=tuple(dict.fromkeys(request.devices)),
        metrics=metrics,
        budget_s=budget_s if len(cases) <= 20 else min(budget_s, 1.0),  # METHOD.md, step 7
        search=search,
        max_seconds=request.max_seconds,
        cache=request.cache,
        scale=request.scale,
        mnist=request.mnist,
        gaps=request.gaps,
        simulation=request.simulation,
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


def find_preset(name: str) -> Preset:
    """Return a preset, or a workload by its own default sizes.

    Raises:
        FieldError: there is neither of this name.
    """
    if name in PRESETS:
        return PRESETS[name]
    known = {info.name: info for info in catalogue()}
    if name not in known:
        names = ", ".join(dict.fromkeys([*PRESETS, *known]))
        raise FieldError("names", f"There is no preset or workload {name!r}.", f"There are: {names}.")
    return Preset(name, (Part(name, known[name].sizes),), known[name].summary, "")


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
    preset: Preset, sizes: tuple[int, ...] | None, threads: tuple[int, ...], request: PlanRequest, *, searched: bool
) -> list[Case]:
    """Return the cases of a preset; several parts of it share what the person asked for.

    Those of a search are its coarse grid, one sweep after the other.
    """
    small = preset.small if request.scale == "small" else None
    # Sizes that a person names are the first part's: 256 MiB to copy must not become 268 million models to move.
    axis = find(preset.parts[0].workload).axis
    parts = preset.parts if small is None else small.parts
    # A variant is that of the parts that have it; the others keep their own, as one experiment.
    having = [part for part in parts if request.variant and _has(find(part.workload), request.variant)]
    cases = []
    for part in parts:
        is_first = find(part.workload).axis == axis
        own = sizes if is_first else None
        if searched:
            own = _grid(own or part.sizes, request.max_size if is_first else None)
        variants = (request.variant,) if request.variant and (part in having or not having) else part.variants
        cases += _part_cases(part, own, threads, variants, request)
    if searched and len({case.size for case in cases if find(case.workload).axis == axis}) == 1:
        raise _nothing_to_search(preset, cases[0].size)
    # One sweep after the other: sorting keeps the order of sizes within each.
    return sorted(cases, key=lambda case: [c.sweep for c in cases].index(case.sweep)) if searched else cases


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


def _has(workload: Workload, variant: str) -> bool:
    return variant == "default" or variant in workload.steps()


def _grid(sizes: tuple[int, ...], max_size: str | None) -> tuple[int, ...]:
    highest = parse_sizes(max_size)[-1] if max_size is not None else max(sizes)
    if highest < min(sizes):
        raise FieldError("max_size", f"The largest size {highest:,} is below the smallest, {min(sizes):,}.",
                         "Write a larger one, or name both ends with --size.")  # fmt: skip
    return grid(min(sizes), highest)


def _part_cases(
    part: Part,
    sizes: tuple[int, ...] | None,
    threads: tuple[int, ...],
    variants: tuple[str, ...],
    request: PlanRequest,
) -> list[Case]:
    workload = find(part.workload)
    dtype = check_dtype(workload, request.dtype or "float32")
    for variant in variants:
        _check_variant(workload, variant)
    return [
        Case(workload.name, size, dtype, count, _named(workload, variant))
        for size in (sizes or part.sizes)
        for variant in variants
        for count in threads
    ]


def _named(workload: Workload, variant: str) -> str:
    """Return the variant's own name, so that `default` and it do not become two rows."""
    return next(iter(workload.steps())) if variant == "default" else variant


def _check_variant(workload: Workload, variant: str) -> None:
    try:
        workload.variant(variant)
    except UsageError as error:
        raise FieldError("variant", error.message, error.remedy) from error


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes that `1:10000:50` or `16,32,1e6` names, in the given order, each once.

    Raises:
        FieldError: a part is no whole number from 1 to `MAX_SIZE`, or the range is empty.
    """
    sizes: dict[int, None] = {}
    for part in (piece.strip() for piece in text.split(",")):
        bounds = [_parse_size(bound) for bound in part.split(":")]
        if len(bounds) == 1:
            sizes[bounds[0]] = None
            continue
        if len(bounds) > 3:
            raise FieldError("sizes", f"The range {part!r} has too many parts.", "Write start:stop or start:stop:step.")
        start, stop, step = (*bounds, 1)[:3]
        if stop <= start:
            raise FieldError(
                "sizes", f"The range {part!r} is empty: its stop is not above its start.", "Write start:stop:step."
            )
        if (stop - start) // step > MAX_CASES:
            raise FieldError("sizes", f"The range {part!r} has more than {MAX_CASES:,} sizes.", "Use a larger step.")
        sizes.update(dict.fromkeys(range(start, stop, step)))
    return tuple(sizes)


def _parse_size(text: str) -> int:
    """Return a whole number from 1 to `MAX_SIZE`, also when written as 1e6."""
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    try:
        number = int(text) if re.fullmatch(r"[+-]?\d{1,30}", text) else float(text)
    except ValueError:
        raise FieldError(
            "sizes", f"{shown!r} is no size.", "Sizes are whole numbers, like 16,32,64 or 1:10000:50."
        ) from None
    if not math.isfinite(number) or number != int(number):
        raise FieldError(
            "sizes", f"The size {shown!r} is not a whole number.", "Write sizes like 16,32,64 or 1:10000:50."
        )
    if number < 1:
        raise FieldError("sizes", f"The size {shown!r} is below 1.", "The smallest size is 1.")
    if number > MAX_SIZE:
        raise FieldError("sizes", f"The size {shown!r} is too large.", f"The largest size is {MAX_SIZE:,}.")
    return int(number)


def parse_threads(text: str) -> tuple[int, ...]:
    """Return thread counts; 0 stands for `all`.

    Raises:
        FieldError: a part is neither `all` nor a number from 1 to `MAX_THREADS`.
    """
    counts: dict[int, None] = {}
    for part in (piece.strip() for piece in text.split(",")):
        if part == "all":
            counts[0] = None
        elif re.fullmatch(r"\d{1,6}", part) and 1 <= int(part) <= MAX_THREADS:
            counts[int(part)] = None
        else:
            raise FieldError("threads", f"{part!r} is no number of CPU threads.", "Write all, or a number from 1 on.")
    return tuple(counts)


def check_dtype(workload: Workload, dtype: str) -> str:
    """Return the dtype if the workload supports it.

    Raises:
        FieldError: unknown, or not supported by this workload.
    """
    if dtype not in DTYPES:
        raise FieldError("dtype", f"There is no dtype {dtype!r}.", f"There are: {', '.join(DTYPES)}.")
    if dtype not in workload.dtypes:
        raise FieldError(
            "dtype", f"Workload {workload.name!r} does not run in {dtype}.", f"It runs in {', '.join(workload.dtypes)}."
        )
    return dtype


def check_device(device: str) -> None:
    """Accept `auto`, `cpu`, `cuda`, `cuda:N`.

    Raises:
        FieldError: anything else.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", device):
        raise FieldError("devices", f"There is no device {device!r}.", "Devices are cpu, cuda and cuda:0, cuda:1, …")


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


def parse_simulation(text: str) -> Simulation:
    """Return the simulated machine for `default` or `noise=0.02,pace=1,…` (fields of `Simulation`).

    Raises:
        FieldError: an unknown field or a value that is no number.
    """
    values: dict[str, float | int] = {}
    for part in (piece.strip() for piece in text.split(",") if piece.strip() not in ("", "default")):
        name, _, value = part.partition("=")
        kind = Simulation.__dataclass_fields__.get(name)
        if kind is None:
            names = ", ".join(Simulation.__dataclass_fields__)
            raise FieldError("simulation", f"The simulated machine has no {name!r}.", f"It has: {names}.")
        try:
            number = values[name] = int(value) if kind.type == "int" else float(value)
        except ValueError:
            raise FieldError(
                "simulation", f"{name}={value!r} is no number.", "Write, for example, noise=0.02."
            ) from None
        if not 0 <= number < math.inf:
            raise FieldError("simulation", f"{name}={value} is not possible.", "Write a finite number from 0 on.")
    return Simulation(**values)  # type: ignore[arg-type]
