"""The answer of each sweep of a run in words, made of its report and never stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.analysis.slow_gpus import grouped
from cpugpu_tui.model.quantities import faster, joined, size_text
from cpugpu_tui.render.answer_sentences import Named, classes_of, sentences, so_far, survey_sentences
from cpugpu_tui.render.crossover_words import MOST_NAMED, is_wide, point_size, reason_words, where
from cpugpu_tui.render.gpus import (
    beside_words,
    described,
    gpu_sentences,
    listed,
    models_of,
    peer_sentences,
    run_standings,
    several,
    span,
)
from cpugpu_tui.report import segments
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import SweepReport, is_column, report, threads_in_force
from cpugpu_tui.state.condition import no_core_lines
from cpugpu_tui.state.folding import once
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.presets import PRESETS


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer of one sweep."""

    name: str
    """Workload and variant, except `default`; with the dtype if the run has several."""
    report: SweepReport

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Most important first; at least one. Made on access, because a table of answers needs none."""
        return sentences(self.report)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows of its sweep, including those without a result."""
        return self.report.rows

    @property
    def gpu(self) -> model.Device | None:
        """The GPU that it is about; None if the run has only one."""
        return self.report.gpu


def answers(run: RunState) -> tuple[Answer, ...]:
    """Return the answer of each sweep with a size timed on both devices, for each of several GPUs."""
    return tuple(Answer(_name(run, each), each) for each in report(run).answered)


def is_survey(run: RunState) -> bool:
    """Whether a run searches many workloads, which share its time."""
    return report(run).is_survey


def survey_lines(run: RunState) -> tuple[str, ...]:
    """Return the sentences of a survey, the first of which says what was recorded; empty without a survey."""
    return _beside(run, _survey_lines(run))


@once
def _survey_lines(run: RunState) -> tuple[str, ...]:
    """Return what always belongs on the GPU, what never does and what depends on the size; empty without a survey."""
    lines = [
        f"{gpu}: {line}" if gpu else line
        for gpu, found in _surveyed(run).items()
        for line in survey_sentences(found, is_recorded=bool(beside_words(run)))
    ]
    return tuple(_live(run, line) for line in (*lines, *_left_out(run))) if lines else ()


def survey_data(run: RunState) -> list[dict[str, Any]]:
    """Return a survey's result on each GPU as JSON values: workloads by where it wins, and sentences; else nothing."""
    return [
        {
            "gpu": gpu or (run.gpu.name if run.gpu is not None else None),
            "resident": _by_kind(classes_of(found, RESIDENT)),
            "with_copies": _by_kind(classes_of(found, END_TO_END)),
            "classes": {
                name: {kind: classes_of(found, key).get(kind, []) for kind in segments.CLASSES}
                for name, key in (("resident", RESIDENT), ("with_copies", END_TO_END))
            },
            "sentences": survey_sentences(found, is_recorded=bool(beside_words(run))),
        }
        for gpu, found in _surveyed(run).items()
    ]


def _by_kind(classes: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the classes in the four groups of older versions."""
    groups: dict[str, list[str]] = {"always": [], "never": [], "depends on size": [], "no winner": []}
    own = {segments.ALWAYS: "always", segments.NEVER: "never", segments.NONE_TIMED: ""} | dict.fromkeys(
        (segments.FROM, segments.WITHIN, segments.SEVERAL, segments.FALLS), "depends on size"
    )
    for kind, names in classes.items():
        if group := own.get(kind, "no winner"):
            groups[group] += names
    return groups


def _surveyed(run: RunState) -> dict[str, Named]:
    """Return GPU (empty if the run has only one) → workloads of a survey with their reports."""
    found: dict[str, list[tuple[str, SweepReport]]] = {}
    for answer in leading_answers(run) if is_survey(run) else ():
        found.setdefault(answer.gpu.name if answer.gpu is not None else "", []).append((answer.name, answer.report))
    return dict(found)


def _left_out(run: RunState) -> tuple[str, ...]:
    """Return which workloads of a survey do not exist in its dtype, in a sentence."""
    plan = run.plan
    dtypes, had = {case.dtype for case in plan.cases}, {case.workload for case in plan.cases}
    names = {part.workload for part in PRESETS[plan.name].parts} if plan.name in PRESETS else had
    lacking = sorted(name for name in names - had if not dtypes & set(REGISTRY[name].dtypes))
    # With --only, nobody asked for the others.
    is_whole = lacking and names <= {*had, *lacking}
    return (f"Left out, because they do not exist in {joined(sorted(dtypes))}: {joined(lacking)}.",) if is_whole else ()


@once
def answer_lines(run: RunState) -> tuple[str, ...]:
    """Return the answer and its reasons of a single sweep, or one line for each of several sweeps.

    Computed once for a state: it takes 0.3 s at 10,000 rows, and every key press needs it.
    """
    return _with_no_core(run, _lines(run))


def brief_lines(run: RunState) -> tuple[str, ...]:
    """Return the lines of `answer_lines` without the reasons: at most two sentences for a sweep or a survey."""
    return _with_no_core(run, _lines(run, has_reasons=False))


def _with_no_core(run: RunState, lines: Sequence[str]) -> tuple[str, ...]:
    first, *others = _beside(run, lines) or ("",)
    return tuple(filter(None, (first, *no_core_lines(run), *others)))


def _beside(run: RunState, lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines about a run whose first words say that its GPU was recorded, if it was."""
    words = beside_words(run)
    return (f"{words}: {lines[0]}", *lines[1:]) if words and lines else tuple(lines)


@once
def lines_beside_table(run: RunState) -> tuple[str, ...]:
    """Return the lines of `answer_lines` without the answers, for a face that shows these as a table.

    The sentences of a survey sum the table up, so they stay.
    """
    lines = (*_survey_lines(run), *no_core_lines(run), *gpu_sentences(run), *peer_sentences(run))
    return _beside(run, lines or ("each size is judged by both times.",) if beside_words(run) else lines)


def explained(run: RunState) -> tuple[str, ...]:
    """Return the answer of each sweep with its reasons, a line each, for `--explain` below a table of answers."""
    return tuple(f"{named_on(each)}: {_live(run, ' '.join(each.sentences))}" for each in leading_answers(run))


def all_answers(run: RunState) -> tuple[Answer, ...]:
    """Return `answers`, cached for runs with several sweeps.

    The answer of a single sweep is used only once, and caching its points would take 1.4 KB a row.
    """
    return _known_answers(run) if has_sweeps(run) else answers(run)


_known_answers = once(answers)


def has_sweeps(run: RunState) -> bool:
    """Whether a run has several sweeps with answers of their own; thread counts are columns of one sweep."""
    return len([sweep for sweep in run.sweeps if not is_column(run, sweep)]) > 1


def leading_answers(run: RunState) -> tuple[Answer, ...]:
    """Return the answers of the first GPU of each model and of slow ones; a sentence says that the others are alike."""
    leaders = {names[0] for names in grouped(models_of(run)).values()}
    leaders |= {name for name, standing in run_standings(run).items() if standing.is_slow}
    return tuple(answer for answer in all_answers(run) if answer.gpu is None or answer.gpu.name in leaders)


def _lines(run: RunState, *, has_reasons: bool = True) -> tuple[str, ...]:
    found = all_answers(run)
    if not found:
        return (*gpu_sentences(run), *_without_answer(run), *peer_sentences(run))
    if has_sweeps(run):
        named = (f"{named_on(answer)}: {_live(run, answer.sentences[0])}" for answer in leading_answers(run))
        return (*(_survey_lines(run) or named), *gpu_sentences(run), *peer_sentences(run))
    if several(run):
        return _lines_of_several(run, found, has_reasons=has_reasons)
    (answer,) = found
    reasons = answer.sentences[1:] if has_reasons else ()
    return (_live(run, answer.sentences[0]), *reasons, *peer_sentences(run))


def named_on(answer: Answer) -> str:
    """Return the name of a sweep, with the GPU of its answer if the run has several."""
    return answer.name if answer.gpu is None else f"{answer.name} on {answer.gpu.name}"


def _live(run: RunState, sentence: str) -> str:
    return so_far(sentence) if run.status == "running" else sentence


def _lines_of_several(run: RunState, found: Sequence[Answer], *, has_reasons: bool) -> tuple[str, ...]:
    """Return the answer of each model's first GPU, its other GPUs, and slow GPUs; then the reasons."""
    first, rest = [], []
    for gpus in grouped(models_of(run)).values():
        alike = [answer for answer in found if answer.gpu and answer.gpu.name in gpus]
        if not alike:
            continue
        leader, *others = alike
        assert leader.gpu is not None
        first.append(f"{described(leader.gpu)}: {_live(run, leader.sentences[0])}")
        first += [_others(others)] if others else []
        rest += [f"{leader.gpu.name}: {sentence}" for sentence in leader.sentences[1:] if has_reasons]
    return (first[0], *gpu_sentences(run), *first[1:], *peer_sentences(run), *rest)


def _others(found: Sequence[Answer]) -> str:
    """Return where the other GPUs of a model win, in one sentence; as a range if all win from some size."""
    names = {answer.gpu.name: answer.report.resident for answer in found if answer.gpu is not None}
    largest = [each.timed[-1] for each in names.values()]
    last = max(size.size for size in largest)
    speedups = _speedups(sorted(s.comparison.speedup for s in largest if s.size == last and s.comparison is not None))
    places: dict[str, list[str]] = {}
    for name, each in names.items():
        places.setdefault(where(each), []).append(name)
    changes = [each.crossover for each in names.values() if each.kind == segments.FROM]
    points = [change for change in changes if change is not None and not is_wide(change)]
    if len(points) == len(names) and len(places) > 1:
        sizes = sorted(map(point_size, points))
        places = {f"from {span([f'≈ {size_text(size)}' for size in sizes])}": list(names)}
    (place, gpus), *others = places.items()
    parts = [f"On {listed(gpus)} the GPU wins {place}", *(f"on {listed(each)} {place}" for place, each in others)]
    return f"{'; '.join(parts)}; at {size_text(last)} it is {speedups}."


def _speedups(rising: Sequence[float]) -> str:
    """Return `35.2× to 35.8× faster`, or `1.20× slower to 1.50× faster`."""
    first, last = faster(rising[0]), faster(rising[-1])
    numbers, _, word = first.rpartition(" ")
    if not last.endswith(word):
        return f"{first} to {last}"
    ends = [numbers, last.rpartition(" ")[0]]
    return f"{span(ends if rising[0] >= 1 else ends[::-1])} {word}"


def hides_skipped(run: RunState) -> bool:
    """Whether a sentence stands for the cases that a run did not reach, in place of their rows."""
    return is_survey(run) or run.skipped > MOST_NAMED


def _without_answer(run: RunState) -> tuple[str, ...]:
    """Return why there is no answer; nothing while one may still come."""
    if run.devices and run.gpu is None and run.plan.beside:
        return ("CPU only: the recorded GPU of this run is not on this machine.",)
    if run.devices and run.gpu is None:
        why = run.no_gpu or "CPU only: the run did not include a GPU."
        if run.failed and all(row.failure is not None for row in run.rows.values()):
            return (why, _lost(run, "No size was timed"))
        return (why,)
    if run.devices and not any(device.is_cpu for device in run.devices) and any(map(_is_usable, run.rows.values())):
        return ("GPU only: the run did not include the CPU.",)
    if not run.rows or run.settled < len(run.rows):
        return ()
    if any(row.is_starved for row in run.rows.values()):
        return ()  # `no_core_lines` explains it
    has_both = run.gpu is not None and any(device.is_cpu for device in run.devices)
    return (_lost(run, "No answer: no size was timed on both devices" if has_both else "No size was timed"),)


def _lost(run: RunState, begin: str) -> str:
    """Return a sentence with how many sizes failed and how many were skipped: `No size was timed, 2 of 2 failed.`"""
    failures = [row.failure for row in run.rows.values() if row.failure is not None]
    failed = [failure for failure in failures if failure.kind != "skipped"]
    devices = Counter(failure.device for failure in failed if failure.device)
    where = f" on {devices.most_common(1)[0][0]}" if devices else ""
    counts = [f"{len(failed)} of {len(run.rows)} failed{where}"] if failed else []
    counts += [f"{len(failures) - len(failed)} of {len(run.rows)} skipped"] if len(failures) > len(failed) else []
    rows = " The rows show why." if failed or not hides_skipped(run) else ""
    return f"{', '.join([begin, *counts])}.{rows}"


def as_data(run: RunState) -> list[dict[str, Any]]:
    """Return the answers as JSON values: sentences, crossovers with brackets, segments, and the judged sizes."""
    return [
        {
            "sweep": answer.name,
            "gpu": answer.gpu.name if answer.gpu is not None else run.gpu.name if run.gpu is not None else None,
            "threads": answer.report.threads,
            "not_compared": [
                {"size": size.size, "reason": size.reason} for size in answer.report.resident.sizes if not size.is_timed
            ],
            "sentences": list(answer.sentences),
            "crossover": condition_data(answer.report.resident),
            "what_if": {key: condition_data(found) for key, found in answer.report.conditions.items()},
        }
        for answer in answers(run)
    ]


def condition_data(found: Condition) -> dict[str, Any]:
    """Return the judgement of a sweep under a condition as JSON values."""
    last = found.crossover
    wins = [size.size for size in found.decided if size.winner == segments.GPU]
    judged = [size.size for size in found.timed if size.judgement != segments.UNDECIDED]
    return {
        "kind": _older_kind(found), "low": last.low if last else None, "high": last.high if last else None,
        "point": last.known_point if last else None, "first_win": min(wins, default=None),
        "changes": len(found.changes), "rises": last.rises if last else bool(wins), "class": found.kind,
        "brackets": [change._asdict() | {"point": change.known_point} for change in found.changes],
        "segments": [
            {"winner": part.judgement, "reason": part.reason or None, "first": part.first, "last": part.last,
             "sizes": list(part.sizes), "inside": list(part.inside),
             "cost_at_most": part.cost if part.cost < float("inf") else None} for part in found.segments
        ],
        "judged": {
            "smallest": min(judged, default=None), "largest": max(judged, default=None),
            "not_judged": [
                {"size": size.size, "reason": reason_words(size), "code": size.reason}
                for size in found.timed if size.judgement == segments.UNDECIDED
            ],
        },
    }  # fmt: skip


def _older_kind(found: Condition) -> str:
    """Return the kind of a sweep in the words of older versions."""
    if found.changes:
        return "several" if len(found.changes) > 1 else "crossover" if found.changes[0].rises else "falls behind"
    kinds = {
        segments.ALWAYS: "always",
        segments.NEVER: "never",
        segments.ALL_EQUAL: "ties",
        segments.NONE_TIMED: "nothing timed",
    }
    is_few = found.timed and all(size.reason == segments.TOO_FEW for size in found.timed)
    return kinds.get(found.kind, "too few rounds" if is_few else "undecided")


def _is_usable(row: Row) -> bool:
    return row.status in ("active", "ok")


def row_with_threads(run: RunState, row: Row, threads: int) -> Row | None:
    """Return the row with a result that differs from this one only in its CPU threads; None without one."""
    for sweep in run.sweeps:
        if sweep[:-1] == row.case.sweep[:-1] and sweep[-1] != row.case.threads:
            other = run.rows.get(replace(row.case, threads=sweep[-1]).key)
            if other is not None and _is_usable(other) and threads_in_force(other) == threads:
                return other
    return None


def _name(run: RunState, found: SweepReport) -> str:
    case, dtypes = found.rows[0].case, {other.case.dtype for other in run.rows.values()}
    return f"{case.name} {case.dtype}" if len(dtypes) > 1 else case.name
