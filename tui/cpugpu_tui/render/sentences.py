"""Sentences about a whole run: heading, progress, answers as a table, early ends, energies, settings that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from cpugpu_tui.analysis.ceilings import clock_sentences
from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT, SCOPE_WORDS, energy
from cpugpu_tui.decide.comparison import EQUIVALENCE, MOST_COST, WIDEST_GAP
from cpugpu_tui.decide.correlation import MIN_ROUNDS
from cpugpu_tui.machine.text import REASONS, printable
from cpugpu_tui.model import DUET, ENERGY, RECORDED, work_name
from cpugpu_tui.model.quantities import count_of, joined, percent, share_text, size_text
from cpugpu_tui.render.answers import (
    Answer,
    answer_lines,
    brief_lines,
    explained,
    has_sweeps,
    hides_skipped,
    is_survey,
    leading_answers,
    lines_beside_table,
    named_on,
)
from cpugpu_tui.render.columns import COLUMNS, NONE, Key, is_of_one_start
from cpugpu_tui.render.crossover_words import (
    MOST_NAMED,
    WITHIN_START,
    bracket_text,
    reason_words,
    span_text,
    speedup_text,
    where,
)
from cpugpu_tui.render.gpus import beside_words, device_texts, simulated_words
from cpugpu_tui.render.receipts import caller_lines, run_receipt
from cpugpu_tui.render.rows import sweep_name
from cpugpu_tui.render.verdicts import common_marks, mark_lines
from cpugpu_tui.report import bars
from cpugpu_tui.report.report import covers_starts, judged
from cpugpu_tui.report.segments import NONE_TIMED, TOO_FEW, Size
from cpugpu_tui.report.time_limit import wide_brackets
from cpugpu_tui.session.planning import scale_text
from cpugpu_tui.state.folding import once
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

WORLDS = {RESIDENT: "", END_TO_END: "including copies "}
"""Crossovers that a search narrows → words before their bracket."""


# ------------------------------------------------------------------ above a table


def heading(run: RunState) -> str:
    """Return the work if it is one, processors, threads, torch, unusual settings, starts; first, what is simulated."""
    host = run.facts.get("fleet_host")
    parts = [*([f"on {printable(str(host))}"] if host else []), *device_texts(run)]
    if run.threads:
        parts.append(count_of(run.threads, "CPU thread"))
    if run.facts.get("torch"):
        parts.append(f"torch {run.facts['torch']}")
    text = " · ".join(filter(None, [*parts, *settings(run), starts_text(run)]))
    is_own = run.plan.codes or run.plan.own_files  # `code_lines` name a person's code, a table several workloads
    work = [f"{work_name(sweep)}, {sweep[2]}" for sweep in run.sweeps if len(run.sweeps) == 1 and not is_own]
    words = beside_words(run)
    text = " · ".join(filter(None, [words, *work, f"here: {text}" if words else text]))
    return f"{simulated_words(run)}{text}".rstrip()


def settings(run: RunState) -> list[str]:
    """Return the settings of a run that differ from the defaults: TF32, caches, the worker."""
    parts = ["TF32 on"] if run.facts.get("tf32_matmul") else []
    parts += [f"caches {run.plan.cache}"] if run.plan.cache != "cold" else []
    return [*parts, *(["worker: thread"] if run.facts.get("worker") == "thread" else [])]


def when(run: RunState, status: str) -> str:
    """Return when the run began and its status."""
    if run.run is None:
        return ""
    began = f"{datetime.fromtimestamp(run.run.wall_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{began}, {status}"


# ------------------------------------------------------------------ below it


def sentences(run: RunState) -> list[str]:
    """Return the sentences about a run in a file, most important first, without the meanings of marks."""
    lines = [*answer_lines(run), *remedy_lines(run), cut_short(run), *notes(run), *energy_lines(run)]
    return [line for line in lines if line]


def below_table(run: RunState, *, has_answers: bool, in_full: bool) -> list[str]:
    """Return the sentences below a table: the answer and warnings, `in_full` also reasons, receipts and starts.

    With `has_answers` the answers themselves are a table. A survey has no table of its rows, so they are named here.
    """
    answer = lines_beside_table(run) if has_answers else answer_lines(run) if in_full else brief_lines(run)
    reasons = explained(run) if has_answers and in_full else ()
    common = common_marks(run)

    def where(mark: str, rows: Sequence[Row]) -> str:
        if not is_survey(run):
            return ", which do not repeat it" if mark in common else ""
        return _rows_named(run, rows) if in_full else " (named by --explain)"

    lines = [
        *answer, *reasons, *remedy_lines(run), *(run_receipt if in_full else caller_lines)(run), cut_short(run),
        *mark_lines(run, where), *energy_lines(run), *(notes(run) if in_full else warnings(run)),
    ]  # fmt: skip
    return [line for line in lines if line]


def remedy_lines(run: RunState) -> list[str]:
    """Return what to do about rows that failed or had too few rounds, each kind once; the table says what happened."""
    failures = [row.failure for row in run.rows.values() if row.failure is not None and row.failure.kind != "skipped"]
    found = dict.fromkeys(f"{each.kind}: {each.remedy}" for each in failures if each.remedy)
    return [*list(found)[:MOST_NAMED], *_rounds_remedy(run)]


def _rounds_remedy(run: RunState) -> list[str]:
    """Return how to time enough rounds; empty where a limit or a stop ended the run, or a search or duet chooses them.

    Three rounds of a call of two minutes named no winner after 16 minutes, and nothing said how many would do.
    """
    finished = [row for row in run.rows.values() if row.status == "ok"]
    few = [row for row in finished if judged(run, row).reason == TOO_FEW]
    is_whole = run.finished is not None and run.finished.status == "done" and not run.skipped
    if not few or not is_whole or run.plan.search is not None or run.plan.beside or run.facts.get(DUET):
        return []
    had = f"{len(few)} of {count_of(len(finished), 'timed row')} had too few rounds to judge"
    return [f"{had}. --rounds {MIN_ROUNDS} gives each row {MIN_ROUNDS}, however long its calls take."]


def results_differ(sizes: Iterable[int]) -> str:
    """Return at which sizes the results of a run differ from those of the other code of its duet; empty if nowhere."""
    texts = dict.fromkeys(f"{size:,}" for size in sizes)
    return f"Its results differ from those of the other code at n = {joined([*texts])}." if texts else ""


def _rows_named(run: RunState, rows: Sequence[Row]) -> str:
    """Return rows in brackets, grouped by their sweeps: ` (fft 1 and 100; sort 4M)`."""
    sizes: dict[str, list[str]] = {}
    for row in rows:
        sizes.setdefault(sweep_name(run, row.case.sweep), []).append(size_text(row.case.size))
    return f" ({'; '.join(f'{name} {joined(each)}' for name, each in sizes.items())})"


def notes(run: RunState) -> list[str]:
    """Return what the intervals are about, and warnings."""
    return [line for line in (starts_sentence(run), *warnings(run)) if line]


def warnings(run: RunState) -> list[str]:
    """Return warnings about a run: failure, small scale, variables that slow the CPU down."""
    lines = [small_scale(run), inherited(run), *clock_sentences(run.clocks)]
    if run.finished is not None and run.finished.message:
        status = "" if run.finished.status in ("done", "stopped") else f"{run.finished.status}: "
        lines.insert(0, f"{status}{run.finished.message} {run.finished.remedy}".strip())
    return [line for line in lines if line]


def starts_text(run: RunState) -> str:
    """Return `3 of 5 starts; intervals in brackets hold within one` for a heading; empty before the end of one."""
    rows = [row for row in run.rows.values() if row.status == "ok"]
    if not rows or run.plan.times_commands or (run.starts < 2 and run.finished is None):
        return ""
    if run.starts < 2:
        earlier = sum(map(covers_starts, rows))
        one = f"1 of {run.plan.starts} starts" if _lacked_cores(run, rows) else "1 start"
        return ", ".join([one, *([f"{count_of(earlier, 'row')} with starts of earlier runs"] if earlier else [])])
    asked = f" of {run.plan.starts}" if run.starts < run.plan.starts else ""
    brackets = "; intervals in brackets hold within one" if any(is_of_one_start(run, row) for row in rows) else ""
    return f"{run.starts}{asked} starts{brackets}"


def starts_sentence(run: RunState) -> str:
    """Return what the intervals are about: how many starts of the process; empty before the end of one."""
    if run.starts < 2:
        return _one_start(run)
    is_mixed = any(row.status == "ok" and is_of_one_start(run, row) for row in run.rows.values())
    once = " Those in brackets hold within one start." if is_mixed else ""
    asked = f" of {run.plan.starts}" if run.starts < run.plan.starts else ""
    end, why = run.finished, ""
    if asked and end is not None and end.status == "done" and not end.message:
        longer = f"all {run.plan.starts} would take over half as long again"
        why = f" ({'time for more ran out' if end.is_short_of_time else longer})"
    return f"Timed in {run.starts}{asked} starts of the process{why}: intervals hold for other starts too.{once}"


def _one_start(run: RunState) -> str:
    """Return what the intervals of one start are about; each call of a command is a start."""
    rows = [row for row in run.rows.values() if row.status == "ok"]
    if run.finished is None or run.plan.times_commands or not rows:
        return ""
    known = sum(map(covers_starts, rows))
    if not known:
        more = " No further start was timed, because threads waited for a core." if _lacked_cores(run, rows) else ""
        return f"Timed in one start of the process: intervals hold within it only.{more}"
    rest = len(rows) - known
    others = f", those of {count_of(rest, 'row')} hold {WITHIN_START}" if rest else ""
    return f"Timed in one start of the process: {count_of(known, 'interval')} from earlier starts{others}."


def _lacked_cores(run: RunState, rows: Sequence[Row]) -> bool:
    """Whether a run of one start left out further ones because each of its timed `rows` lacked a core."""
    return run.plan.starts > 1 and all(row.is_starved for row in rows)


def small_scale(run: RunState) -> str:
    """Return what the small scale of a run changes; empty for the full scale."""
    return f"Small scale: {scale_text(run.plan)}." if run.plan.scale == "small" else ""


def inherited(run: RunState) -> str:
    """Return the environment variables that may slow the CPU down; empty without any."""
    names = ", ".join(f"{name}={value}" for name, value in (run.facts.get("inherited") or {}).items())
    return f"Warning: inherited {names}, which can slow the CPU down." if names else ""


def conditions(run: RunState) -> list[str]:
    """Return unusual settings, marks and warnings of a run of a fleet."""
    unusual = ", ".join(settings(run))
    lines = [f"With {unusual}." if unusual else "", *mark_lines(run), *clock_sentences(run.clocks)]
    return [line for line in (*lines, small_scale(run), inherited(run)) if line]


def energy_lines(run: RunState) -> list[str]:
    """Return the error of the energies, or why a run with --energy has none."""
    lines = []
    rows = run.rows.values()
    for name, found_on in (("CPU", [row.cpu for row in rows]), ("GPU", [row.gpu for row in rows])):
        found = [energy(times.energy) for times in found_on if times is not None]
        known = [each for each in found if each.joules_per_call.value is not None]
        if known:
            off = percent(max(each.plus_minus or 0.0 for each in known))
            scope = SCOPE_WORDS.get(known[0].scope, "")
            lines.append(f"{name} energy: per call, ± {off} % (one counter step){f'; {scope}' if scope else ''}.")
            disputed = sum(each.is_disputed for each in known)
            if disputed:
                lines.append(f"In {disputed} of these rows the polled power differs from the counter by over 10 %.")
        elif found and ENERGY in run.plan.metrics:
            reasons = dict.fromkeys(REASONS.get(each.joules_per_call.reason or "", "unknown") for each in found)
            lines.append(f"No {name} energy: {', '.join(reasons)}.")
    return lines


def cut_short(run: RunState) -> str:
    """Return what a run did not reach before its time limit or a stop, as a sentence; empty if it says that itself.

    Rows say it where no more than `MOST_NAMED` are skipped, and of a stopped search nobody knows how many are missing.
    """
    plan = run.plan
    if run.status == "stopped" and not run.skipped and run.finished is not None and not run.finished.message:
        return f"The {'run' if plan.search is None else 'search'} was stopped early."
    if plan.search is None:
        ends = {"done": "The time limit ended the run early", "stopped": "The run was stopped early"}
        is_said = run.status in ends and hides_skipped(run)
        return f"{ends[run.status]}: {run.skipped} of {len(run.rows)} cases were not reached." if is_said else ""
    if run.status != "done" or (plan.max_seconds is None and not plan.search.is_survey):
        return ""
    names = {sweep: f"{work_name(sweep)} " if len(run.sweeps) > 1 else "" for sweep in run.sweeps}
    wide = [f"{names[sweep]}{WORLDS[key]}{bracket_text(change)}" for sweep, key, change in wide_brackets(run)]
    reached = {row.case.sweep for row in run.rows.values() if row.status != "skipped"}
    unreached = dict.fromkeys(work_name(row.case.sweep) for row in run.rows.values() if row.case.sweep not in reached)
    among = f", among them all of {joined(list(unreached))}" if unreached and reached else ""
    parts = [f"{run.skipped} of {len(run.rows)} sizes were not reached{among}"] if run.skipped else []
    named = f"brackets still wide: {', '.join(wide)}"
    parts += [named if len(wide) <= MOST_NAMED else f"{len(wide)} brackets are still wide"] if wide else []
    return f"The time limit ended the search early: {'; '.join(parts)}." if parts else ""


# ------------------------------------------------------------------ answer table


NAME, WHERE, SIZES, BRACKET, LARGEST, COPIES, LIMIT = (
    "workload", "GPU wins", "sizes", "bracket", "speedup at the largest", "with copies, at the largest",
    "limit at the largest",
)  # fmt: skip

SIGNS = {bars.CPU: "░", bars.OPEN: "?", bars.GAP: "·", bars.RESIDENT: "▓", bars.BOTH: "█"}
"""Part of a workload's axis → its sign in the picture of a survey."""

PICTURE = "{cpu} CPU {resident} GPU {both} with copies {open} unclear {gap} gap".format_map(SIGNS)
"""Heading of the picture, which explains its signs."""

NARROW_PICTURE, LEAST_PICTURE = "{cpu} CPU {resident} GPU".format_map(SIGNS), 12
"""Heading of the picture where that one does not fit, and its fewest cells."""

LEGEND = (
    "Bars: sizes, smallest to largest, logarithmic; none for a single size. {cpu} CPU wins, {resident} GPU wins (with"
    " copies not, unclear or not timed), {both} also with copies, {open} unclear or the winner changes, {gap} gap: over"
    " {widest}× to the next size, or a lead too small for that step, perhaps only with copies. A device wins where it"
    " is faster by over {tie} with 95 % certainty, and at one size or more with 95 % for all sizes together. Thresholds"
    " name one that costs up to {cost} more."
).format_map({**SIGNS, "widest": WIDEST_GAP, "tie": share_text(EQUIVALENCE), "cost": share_text(MOST_COST)})

OPTIONAL = (LARGEST, COPIES, BRACKET, LIMIT)
"""Columns that narrow terminals may omit, most important first."""

OPTIONAL_IN_SURVEY = (PICTURE, SIZES, COPIES, BRACKET, LARGEST, LIMIT)
"""The same for a survey, which alone has the picture and the sizes of its axis."""

GAP = 2


def table_lines(run: RunState, width: int, spell: Callable[[str], str] = str) -> tuple[str, ...]:
    """Return the answers as lines of at most `width` cells, headings first; empty for a run with one answer.

    The lines are in the order of `leading_answers`. `spell` converts a text to the terminal's characters.
    """
    rows = [{name: spell(text) for name, text in cells.items()} for cells in answer_cells(run)]
    if not rows:
        return ()
    names, picture = _fitting(rows, width), PICTURE
    room = width - sum(max(len(row[name]) for row in rows) + GAP for name in (NAME, SIZES, WHERE) if name in rows[0])
    if PICTURE in rows[0] and PICTURE not in names:
        if is_drawn := room >= LEAST_PICTURE:
            names, picture = [NAME, PICTURE, SIZES, WHERE], NARROW_PICTURE
        for row, answer in zip(rows, leading_answers(run), strict=True):
            name, text = (PICTURE, _picture(answer, room)) if is_drawn else (WHERE, where(answer.report.resident))
            row[name] = spell(text)
    live = ", so far" if run.status == "running" else ""
    heads = {name: spell(name) for name in names} | {PICTURE: spell(picture), NAME: NAME + live}
    widths = {name: max(len(heads[name]), *(len(row[name]) for row in rows)) for name in names}
    lines = (_line(row, widths) for row in (heads, *rows))
    return tuple(_within(line, width, spell("…")) for line in lines)


def _within(line: str, width: int, more: str) -> str:
    """Return at most `width` cells of a line, cut between words, because a cut number misleads."""
    # The range of `at every size timed (1–1,024)` goes first, as a whole.
    short = line if len(line) <= width else line.partition(" (")[0]
    return short if len(short) <= width else f"{short[: width + 1 - len(more)].rpartition(' ')[0]}{more}"


@once
def answer_cells(run: RunState) -> list[dict[str, str]]:
    """Return the answers as cells by heading, in the order of `leading_answers`; empty for a run with one answer."""
    found = leading_answers(run) if has_sweeps(run) else ()
    return [_cells(run, answer) for answer in found] if len(found) > 1 else []


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return (" " * GAP).join(f"{cells[name]:<{width}}" for name, width in widths.items()).rstrip()


def _fitting(rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the columns that fit, without empty ones. Whole columns are omitted, because a cut number misleads."""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) + GAP for name in rows[0]}
    chosen = {NAME, WHERE}
    for name in OPTIONAL_IN_SURVEY if PICTURE in rows[0] else OPTIONAL:
        holds_something = any(row[name] not in (NONE, "-") for row in rows)
        if holds_something and sum(widths[each] for each in (*chosen, name)) - GAP <= width:
            chosen.add(name)
    return [name for name in rows[0] if name in chosen]


def _cells(run: RunState, answer: Answer) -> dict[str, str]:
    found, moved = answer.report.resident, answer.report.with_copies
    timed = found.timed
    picture = {
        PICTURE: _picture(answer, len(PICTURE)), SIZES: span_text(timed[0].size, timed[-1].size),
    } if is_survey(run) else {}  # fmt: skip
    # The sizes stand beside it.
    wins = where(found, answer.report.axis).removesuffix(f" ({picture[SIZES]})") if picture else where(found)
    return {
        NAME: named_on(answer) + (f", {RECORDED}" if beside_words(run) else ""), **picture, WHERE: wins,
        BRACKET: NONE if found.crossover is None else bracket_text(found.crossover),
        LARGEST: _at_largest(run, timed[-1]),
        COPIES: NONE if moved.kind == NONE_TIMED else f"{where(moved)}; {_at_largest(run, moved.timed[-1])}",
        LIMIT: _limit(run, answer),
    }  # fmt: skip


def _picture(answer: Answer, cells: int) -> str:
    """Return the axis of a sweep in this many signs."""
    return "".join(SIGNS[kind] for kind in bars.cells_of(answer.report, cells))


def _at_largest(run: RunState, size: Size) -> str:
    """Return `95.4× ± 0.4 % at 100M`, with the reason if it was not judged, and if it holds for fewer starts."""
    assert size.comparison is not None
    is_few = size.comparison.low is None  # `2,120× in 1 round at 4M (only 1 round)`
    once = " in one start" if run.starts > 1 and not is_few and not size.comparison.covers_starts else ""
    reason = "" if size.winner is not None else f" ({TOO_FEW if is_few else reason_words(size)})"
    return f"{speedup_text(size.comparison, size.rounds)} at {size_text(size.size)}{once}{reason}"


def _limit(run: RunState, answer: Answer) -> str:
    """Return what limits the largest size, with the share of that peak rate."""
    state = run.on(answer.gpu.name) if answer.gpu is not None else run
    last = answer.report.resident.timed[-1].size
    return COLUMNS[Key.LIMIT].text(state, next(row for row in answer.rows if row.case.size == last))
