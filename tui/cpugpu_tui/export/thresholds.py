"""A file of thresholds for programs, made of a run's crossovers: as JSON, as a C header and as variables.

Format and validation are those of the reader, `cpugpu_tui.thresholds`, which programs copy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from cpugpu_tui import __version__
from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.decide.comparison import EQUIVALENCE
from cpugpu_tui.errors import CpuGpuError, UnfitError, UsageError, did_you_mean
from cpugpu_tui.export import target
from cpugpu_tui.export.json_document import utc
from cpugpu_tui.export.threshold_ranges import judged_again, variables, with_sizes
from cpugpu_tui.model import OwnCode, work_name
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.report.report import SweepReport, sweep_report
from cpugpu_tui.report.segments import Size
from cpugpu_tui.state.condition import no_core_lines
from cpugpu_tui.state.folding import measured_part, once
from cpugpu_tui.state.state import RunState
from cpugpu_tui.thresholds import (
    FACTS,
    FORMAT,
    GPU,
    NAME,
    VERSION,
    Threshold,
    Thresholds,
    ThresholdsError,
    differences,
    load,
)
from cpugpu_tui.workloads.code_target import CALLER

SUFFIXES = {"json": ".json", "c": ".h", "env": ".env"}
"""Formats, with the suffix of their files."""

RESIDENCE = {True: RESIDENT, False: END_TO_END}
"""Whether the inputs are on the GPU → key of its `WhatIf`."""


@dataclass(frozen=True, eq=False)
class Found:
    """A sweep of a run in which the choice of a device is known to cost little at some sizes."""

    report: SweepReport
    threshold: Threshold

    @cached_property
    def fastest_ns(self) -> dict[int, float]:
        """Size → time of the faster device."""
        timed = self.report.under(RESIDENCE[self.threshold.resident]).timed
        return {size.size: min(size.cpu_ns, size.gpu_ns) for size in timed if size.cpu_ns and size.gpu_ns}


def checked_format(name: str) -> str:
    """Return the name of a format.

    Raises:
        UsageError: it is unknown.
    """
    if name not in SUFFIXES:
        raise UsageError(f"Unknown format {name!r}.", did_you_mean(name, SUFFIXES))
    return name


def thresholds_of(run: RunState, old: Thresholds | None = None) -> Thresholds:
    """Return the thresholds of a run: for each sweep the ranges in which a device, or either, costs little.

    Those of an `old` file stay. Where the run timed further sizes of them, they are judged from all sizes.

    Raises:
        UsageError: a name of code is not allowed.
        UnfitError: neither has a crossover or a winner, or the old ones are of another machine.
    """
    run = measured_part(run)
    assert run.run is not None
    if old is not None:
        require_machine(old, machine_of(run))
    names = operations(run.run.plan.codes, [sweep[0] for sweep in run.sweeps])
    known = {each[:5]: each for each in (old.entries if old is not None else ())}
    forms = {_form(each) for each in known.values()}
    new = []
    for report, resident in product((sweep_report(run, sweep) for sweep in run.sweeps), RESIDENCE):
        workload, variant, dtype, threads = report.sweep
        operation, sizes = names.get(workload, workload), report.under(RESIDENCE[resident]).sizes
        empty = Threshold(operation, variant, dtype, threads, resident, False, report.axis, (), (), ())
        if (before := known.get(empty[:5])) is not None and before.compared:
            known[empty[:5]] = judged_again(before, sizes)
        elif (threshold := with_sizes(empty, sizes)).answered:
            new.append(Found(report, threshold))
    if not known and not new:
        raise UnfitError(
            "No thresholds: no size has a clear winner.",
            run.no_gpu
            or " ".join(no_core_lines(run))
            or _out_of_time(run)
            or f"Run a search on the CPU and a GPU, for example `{with_database('cpugpu-tui run quick')}`.",
        )
    best = _best_variants(new)
    for each in new:
        threshold, key = each.threshold, each.threshold[:5]
        is_best = known[key].best if key in known else each in best and _form(threshold) not in forms
        known[key] = threshold._replace(best=is_best)
    return _thresholds(machine_of(run), utc(run.run.wall_ns), [*known.values()])


def _out_of_time(run: RunState) -> str:
    """Return the remedy for a search that its time limit ended; empty for another run."""
    skipped = sum(row.status == "skipped" for row in run.rows.values())
    if run.plan.search is None or run.plan.max_seconds is None or not skipped:
        return ""
    limit = f"The limit of {run.plan.max_seconds:g} s ended the search before {skipped} of {len(run.rows)} sizes."
    return f"{limit} Allow more with --max-seconds."


def _thresholds(machine: Mapping[str, Any], made: str, entries: Sequence[Threshold]) -> Thresholds:
    """Return the content of a file, checked by its reader.

    Raises:
        UsageError: the run comes from elsewhere, and has a name that no file may hold.
    """
    document = {"format": FORMAT, "version": VERSION, "machine": machine, "made": made,
                "thresholds": [each._asdict() for each in entries]}  # fmt: skip
    try:
        return Thresholds(document, {})
    except ThresholdsError as error:
        raise UsageError(f"No file can hold these thresholds. {error}", "Measure them again on this machine.") from None


def operations(codes: Sequence[OwnCode], workloads: Collection[str]) -> dict[str, str]:
    """Return the workload of each code → its name in a file.

    Raises:
        UsageError: a name is not allowed, or belongs to another code or to one of the other workloads, too.
    """
    found = {code.name: operation_of(code) for code in codes}
    others = set(workloads) - found.keys()
    for name in found.values():
        remedy = "Name an expression by an assignment, as in 'product = x @ x'."
        if not NAME.fullmatch(name):
            allowed = "Use at most 60 letters, digits, dots, dashes and underscores."
            raise UsageError(f"Invalid name {name!r}.", f"{allowed} {remedy}")
        if list(found.values()).count(name) > 1 or name in others:
            raise UsageError(f"Two operations are named {name!r}.", remedy)
    return found


def operation_of(code: OwnCode) -> str:
    """Return the name of typed code for programs: of its function, or of what the statement assigns to."""
    first, comma, values = code.name.partition(",")
    assigned = re.match(r"([A-Za-z_]\w*)\s*=(?!=)", code.statement)
    if code.target and code.target[0] != CALLER:
        first = code.target[1]
    elif assigned:
        first = assigned[1]
    return first + comma + values


def _best_variants(found: Sequence[Found]) -> list[Found]:
    """Return the fastest variant of each operation, on either device, at the largest size that all of them share.

    The first variant is the best one unless another is clearly faster, so that noise does not change it.
    """
    forms: dict[tuple[str, str, int, bool], list[Found]] = {}
    for each in found:
        forms.setdefault(_form(each.threshold), []).append(each)
    best = []
    for variants in forms.values():
        first, shared = variants[0], set.intersection(*(set(each.fastest_ns) for each in variants))
        fastest = min(variants, key=lambda each: each.fastest_ns[max(shared)]) if shared else first
        is_clear = shared and fastest.fastest_ns[max(shared)] * (1 + EQUIVALENCE) < first.fastest_ns[max(shared)]
        best.append(fastest if is_clear else first)
    return best


def machine_of(run: RunState) -> dict[str, Any]:
    """Return the facts that the reader compares with its machine."""
    facts = run.facts
    gpu = run.gpu.label if run.gpu is not None else None
    if run.simulated:
        return {"cpu": "simulated CPU", "gpu": gpu, "driver": None, "simulated": True}
    return {"cpu": facts.get("cpu"), "cores": facts.get("affinity_cores"), "gpu": gpu,
            "driver": facts.get("driver"), "torch": facts.get("torch"), "simulated": False}  # fmt: skip


def require_machine(file: Thresholds, here: Mapping[str, Any]) -> None:
    """Refuse a file of another machine than the one with these facts.

    Raises:
        UnfitError: it is of another machine, or outdated, or only one of both is simulated.
    """
    remedy = "Make a file on this machine with `cpugpu-tui thresholds make`."
    if file.machine.get("simulated"):
        remedy = "To try it with a command, add --simulate default."
    elif here.get("simulated"):
        raise UnfitError("Cannot compare a measured file with a simulated run.", "Give a file of a simulated machine.")
    for difference in differences(file.machine, here):
        raise UnfitError(difference, remedy)


def named(each: Threshold) -> str:
    """Return the name of a threshold in a sentence, `matmul (float32, with copies)`."""
    threads = f"{each.threads} CPU thread{'s' if each.threads > 1 else ''}" if each.threads else ""
    words = filter(None, (each.dtype, threads, "resident" if each.resident else "with copies"))
    return f"{work_name(each[:4])} ({', '.join(words)})"


def moved(old: Thresholds, new: Thresholds) -> tuple[list[str], int]:
    """Return the thresholds that left their brackets, a sentence each, and the number of those that both files have.

    A threshold has moved if both files have a clear winner for the same sizes, and not the same one.
    """
    known, sentences, count = {each[:5]: each for each in new.entries}, [], 0
    for before in old.entries:
        now = known.get(before[:5])
        if now is None:
            continue
        count += 1
        both = ((device, max(first, low), min(last, high)) for device, first, last in before.faster
                for other, low, high in now.faster if other != device)  # fmt: skip
        if found := next(((device, low, high) for device, low, high in both if low <= high), None):
            device, low, high = found
            was, is_now = ("GPU", "CPU") if device == GPU else ("CPU", "GPU")
            at = f"At {size_text(low)}" if low == high else f"From {size_text(low)} to {size_text(high)}"
            sentences.append(f"{at} the {was} was faster, now the {is_now} is: {named(before)}.")
    return sentences, count


# ------------------------------------------------------------------ a file


def read(path: Path) -> Thresholds:
    """Return a file of thresholds, of whatever machine.

    Raises:
        UsageError: it is missing, damaged, or of another version.
    """
    try:
        return load(path, {})
    except ThresholdsError as error:
        raise UsageError(str(error)) from None


def add_to(path: Path, run: RunState) -> None:
    """Write the thresholds of a run to a file, which keeps what it has.

    Raises:
        UsageError: the file cannot be read or written.
        UnfitError: the file is of another machine, the run has no winner, or the disk is full or read-only.
    """
    with target.locked(path):
        thresholds = thresholds_of(run, read(path) if path.is_file() else None)
        target.write(path, [rendered("json", thresholds).encode()])


def add_sizes(path: Path, sizes: Mapping[tuple[Any, ...], Sequence[Size]]) -> Thresholds:
    """Add sizes to the thresholds of a file, which are judged again from all of them; return its new content.

    The keys of `sizes` are the first five fields of a threshold.

    Raises:
        UsageError: the file cannot be read.
        UnfitError: it cannot be written.
    """
    with target.locked(path):
        file = read(path)
        entries = [judged_again(each, sizes.get(each[:5], ())) for each in file.entries]
        new = _thresholds(file.machine, file.made, entries)
        if new.entries != file.entries:
            target.write(path, [rendered("json", new).encode()])
    return new


def _form(each: Threshold) -> tuple[str, str, int, bool]:
    """Return what the variants of an operation share, of which only one can be the best."""
    return each.operation, each.dtype, each.threads, each.resident


def standing(run: RunState, file: Thresholds) -> tuple[bool, list[str]]:
    """Return whether a file has all thresholds of a run's plan, and how a finished run contradicts them, in sentences.

    A file of another machine has none.
    """
    if run.run is None or differences(file.machine, machine_of(run)):
        return False, []
    names = {code.name: operation_of(code) for code in run.run.plan.codes}
    planned = {(names.get(sweep[0], sweep[0]), *sweep[1:]) for sweep in run.sweeps}
    known = {each[:4] for each in file.entries}
    made = _made(run) if planned & known and run.finished is not None else None
    return planned <= known, moved(file, made)[0] if made is not None else []


@once
def _made(run: RunState) -> Thresholds | None:
    try:
        return thresholds_of(run)
    except CpuGpuError:
        return None


# ------------------------------------------------------------------ as text


def rendered(name: str, thresholds: Thresholds) -> str:
    """Return the content of a file in one of `SUFFIXES`.

    Raises:
        UsageError: two thresholds would have the same name in C and in the environment.
    """
    if name == "json":
        head = {"format": FORMAT, "version": VERSION, "made": thresholds.made, "made_by": f"cpugpu-tui {__version__}",
                "machine": thresholds.machine}  # fmt: skip
        lines = ",\n".join(json.dumps(each._asdict(), ensure_ascii=False) for each in thresholds.entries)
        return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "thresholds": [\n{lines}\n]}}\n'
    names: dict[str, Threshold] = {}
    several = {each.operation for each in thresholds.entries if not each.best}
    for each in thresholds.entries:
        variants = [*([""] if each.best else []), *([f"__{each.variant}"] if each.operation in several else [])]
        for identifier in (_identifier(each, variant) for variant in variants):
            if (known := names.setdefault(identifier, each)) is not each:
                raise UsageError(f"{known.operation!r} and {each.operation!r} have the same name, {identifier}.",
                                 "Rename one of them, or use --format json.")  # fmt: skip
    return _header(names, thresholds) if name == "c" else _variables(names, thresholds)


def _identifier(each: Threshold, variant: str) -> str:
    """Return `CPUGPU_MATMUL_FLOAT32_RESIDENT`. Thread counts are part of it, and a variant if there are several."""
    words = [f"cpugpu_{each.operation}{variant}", each.dtype, *([f"{each.threads}_threads"] if each.threads else [])]
    return re.sub(r"\W", "_", "_".join([*words, "resident" if each.resident else "with_copies"])).upper()


def _facts(thresholds: Thresholds) -> Mapping[str, str]:
    """Return the facts of the file as harmless text: they come from a file, and end in comments and strings."""
    facts = {"made": thresholds.made, **{name: thresholds.machine.get(name) for name in (*FACTS, "simulated")}}
    return {name: "yes" if value is True else re.sub(r"[^\w .,:()@+-]", "_", str(value), flags=re.ASCII)
            for name, value in facts.items() if value not in (None, False)}  # fmt: skip


_CHOOSE = """\
enum { CPUGPU_UNKNOWN = -1, CPUGPU_CPU = 0, CPUGPU_GPU = 1 };

/* Return the device for size n. CPUGPU_UNKNOWN: n was not measured, is inside a bracket, or either will do. */
static inline int cpugpu_choose(enum cpugpu_threshold threshold, long long n)
{
    int part;
    for (part = cpugpu_first_part[threshold]; part < cpugpu_first_part[threshold + 1]; part++)
        if (cpugpu_parts[part].first <= n && n <= cpugpu_parts[part].last)
            return cpugpu_parts[part].device;
    return CPUGPU_UNKNOWN;
}
"""


def _header(names: Mapping[str, Threshold], thresholds: Thresholds) -> str:
    """Return a C header: an enumeration of the thresholds, tables, and a function. Also valid C++."""
    facts = [f'#define CPUGPU_THRESHOLDS_{name.upper()} "{text}"' for name, text in _facts(thresholds).items()]
    parts = [f"    {{{first}LL, {last}LL, {int(device == GPU)}}}," for each in names.values()
             for device, first, last in each.faster]  # fmt: skip
    starts = [0]
    for each in names.values():
        starts.append(starts[-1] + len(each.faster))
    return "\n".join([
        f"/* Made by cpugpu-tui {__version__}. Do not edit: make it again with `cpugpu-tui thresholds make`. */",
        "#ifndef CPUGPU_THRESHOLDS_H", "#define CPUGPU_THRESHOLDS_H", f"#define CPUGPU_THRESHOLDS_VERSION {VERSION}",
        *facts, "", "enum cpugpu_threshold {", *(f"    {name}," for name in names), "    CPUGPU_THRESHOLDS", "};", "",
        "/* From first to last, a device costs at most 10 % more: 0 the CPU, 1 the GPU. */",
        "static const struct { long long first, last; int device; } cpugpu_parts[] = {", *parts, "};",
        f"static const int cpugpu_first_part[] = {{{', '.join(map(str, starts))}}};", "", _CHOOSE, "#endif", "",
    ])  # fmt: skip


def _variables(names: Mapping[str, Threshold], thresholds: Thresholds) -> str:
    """Return variables: MIN_N and MAX_N of the sizes at which the GPU is named."""
    return "\n".join([
        f"# Made by cpugpu-tui {__version__} thresholds. From MIN_N to MAX_N the GPU costs at most 10 % more.",
        *(f"# {name}: {text}" for name, text in _facts(thresholds).items()),
        *(line for name, each in names.items() for line in _lines(name, each)), *variables(thresholds.entries), "",
    ])  # fmt: skip


def _lines(name: str, each: Threshold) -> Iterator[str]:
    gpu = [(first, last) for device, first, last in each.faster if device == GPU]
    if not gpu:
        ends = f"from {each.answered[0][1]} to {each.answered[-1][2]}"
        yield f"# {name}: the GPU is named at no size {ends}."
    for first, last in gpu[-1:]:
        yield f"{name}_MIN_N={first}"
        yield f"{name}_MAX_N={last}"
