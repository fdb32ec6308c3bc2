"""How the telemetry of every GPU and the host is arranged: one line each, blocks, or a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.ui.glyphs import Glyphs, trend_text
from cpugpu_tui.ui.panes.lines import Spans, labelled, sanitized, width_of, wrapped
from cpugpu_tui.ui.panes.telemetry.facts import Fact, Subject, gpu_subject, host_subject
from cpugpu_tui.ui.panes.telemetry.wording import linked, torch_names

if TYPE_CHECKING:
    from cpugpu_tui.model import Device

Arrangement = Callable[[Subject, int, Glyphs], list[Spans]]
"""(subject, width, glyphs) → lines."""
Piece = list[tuple[str, str]]
BARS_NARROW, BARS_WIDE = 6, 8
"""Cells of the history in one line, below 90 columns and from there."""
INDENT = 6
"""Indentation of a block's second line and those below."""


def _piece(fact: Fact, text: str) -> Piece:
    """Return a fact's text after its sign."""
    sign: Piece = [(f"{fact.sign} ", fact.role)] if fact.sign else []
    return [*sign, (text, fact.role)]


def _bars(fact: Fact, cells: int, glyphs: Glyphs) -> str:
    """Draw a fact's history in its fixed range; blanks if the range is unknown."""
    if fact.high is None or cells < 1:
        return " " * max(cells, 0)
    return trend_text(fact.trend or (), cells, 0, fact.high, glyphs)


# ------------------------------------------------------------------ one line


def one_line(subject: Subject, width: int, glyphs: Glyphs, *, of_problem: int = 1) -> list[Spans]:
    """Return one line: label, history of the first fact, then the most important facts that fit.

    A device with a problem has up to `of_problem` lines, so that its remedy is not cut.
    """
    head: Piece = [(f"{subject.label:<5} ", "strong")]
    if subject.problem:
        cells, said = width_of(head), subject.problem.removeprefix(f"{subject.label} ")
        lines = wrapped(sanitized(said, 400, glyphs), width - cells, "warn", lines=of_problem)
        return labelled(subject.label, lines, cells, "strong")
    bars = BARS_WIDE if width >= 90 else BARS_NARROW
    head += [(_bars(subject.facts[0], bars, glyphs), subject.series), (" ", "text")]
    room = width - width_of(head)
    wanted = [fact for fact in subject.facts if fact.short_or_text and not fact.is_extra]
    is_brief = sum(width_of(_piece(fact, fact.short_or_text)) + 2 for fact in wanted) - 2 > room
    by_worth = sorted(subject.facts, key=lambda fact: is_brief and not (fact.is_essential or fact.sign))
    chosen: list[tuple[Fact, Piece]] = []
    for fact in by_worth:
        text = fact.brief if is_brief and fact.brief is not None else fact.short_or_text
        piece = _piece(fact, text)
        needed = width_of(piece) + (2 if chosen else 0)
        if text and needed <= room:
            chosen.append((fact, piece))
            room -= needed
    spans = head
    chosen.sort(key=lambda pair: (pair[0].is_mark, subject.facts.index(pair[0])))
    for number, (_, piece) in enumerate(chosen):
        spans += [*([("  ", "text")] if number else []), *piece]
    return [tuple(spans)]


def _one(problem: str, width: int, glyphs: Glyphs) -> Spans:
    """Return a problem cut to one line."""
    lines = wrapped(sanitized(problem, 400, glyphs), width, "warn", lines=1)
    return lines[0] if lines else ()


# ------------------------------------------------------------------ blocks: three histories side by side


def _blocks(subject: Subject, width: int, glyphs: Glyphs, *, lines: int) -> list[Spans]:
    """Return three histories side by side, then at most `lines` lines of facts; one line for the host."""
    if not subject.name:
        return one_line(subject, width, glyphs)
    head: Piece = [(f"{subject.label:<{INDENT - 1}} ", "strong")]
    if subject.problem:
        return [(*head, *_one(f"{subject.name}: {subject.problem}", width - width_of(head), glyphs))]
    drawn = [fact for fact in subject.facts if fact.trend is not None][:3]
    first, bars = head, max(6, (width - 90) // 3)  # 90 cells are labels and numbers
    for fact in drawn:
        label = f"{fact.label:<13} " if fact is drawn[0] else f"{fact.label} "
        text = fact.text if not fact.sign else f"{fact.sign} {fact.text}"
        piece: Piece = [(label, "muted"), (_bars(fact, bars, glyphs), subject.series), (f" {text:<15} ", fact.role)]
        if width_of(first) + width_of(piece) <= width:
            first += piece
    rest = [fact for fact in subject.facts if fact not in drawn and fact.text]
    # Warnings come first, so that they are not the facts that do not fit.
    marks = [fact for fact in rest if fact.sign]
    pieces: list[Piece] = [[(f"{fact.label} ", "muted"), *_piece(fact, fact.text)] for fact in marks]
    pieces += [[(text, "muted")] for text in (subject.name, linked(subject.identity, glyphs)) if text]
    plain = sorted((fact for fact in rest if not fact.sign), key=lambda fact: fact.is_mark)
    pieces += [[(f"{fact.label} ", "muted"), (fact.text, fact.role)] for fact in plain]
    pieces += [[(part, "text")] for part in subject.parts]
    return [tuple(first), *_flowed(pieces, width, glyphs, f" {glyphs.dot} ", " " * INDENT, lines)]


def _flowed(
    pieces: Sequence[Piece], width: int, glyphs: Glyphs, between: str, indent: str, lines: int = 0
) -> list[Spans]:
    """Flow pieces into lines. At most `lines` if that is above 0; pieces that do not fit are dropped."""
    done: list[Spans] = []
    line: Piece = []
    for piece in pieces:
        gap = len(between) if line else len(indent)
        if line and width_of(line) + gap + width_of(piece) > width:
            if lines and len(done) + 1 >= lines:
                continue
            done.append(tuple(line))
            line, gap = [], len(indent)
        line += [(between if line else indent, "muted"), *_cut(piece, width - gap, glyphs)]
    return [*done, tuple(line)] if line else done


def _cut(piece: Piece, width: int, glyphs: Glyphs) -> Piece:
    """Cut a piece to `width` cells."""
    if width_of(piece) <= width:
        return piece
    short: Piece = []
    for text, role in piece:
        room = width - width_of(short)
        short.append((text if width_of(((text, role),)) <= room else sanitized(text, room, glyphs), role))
    return short


# ------------------------------------------------------------------ columns


def column(subject: Subject, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return one fact per line, each history below its number, and an empty line at the end."""
    lines = _titled(subject, width, glyphs)
    if subject.problem:
        return [*lines, *wrapped(sanitized(subject.problem, 400, glyphs), width, "warn"), ()]
    pieces: list[Piece] = [
        [(f"{glyphs.link} {name}" if number else name, "muted")] for number, name in enumerate(subject.identity)
    ]
    lines += _flowed(pieces, width, glyphs, " ", "")
    for fact in filter(lambda fact: fact.text, subject.facts):
        lines += _pair(fact, width, glyphs)
        if fact.high is not None and any(value is not None for value in fact.trend or ()):
            lines.append(((_bars(fact, width, glyphs), subject.series),))
    lines += [((" ", "text"), *_cut([(part, "text")], width - 1, glyphs)) for part in subject.parts]
    return [*lines, ()]


def short_column(subject: Subject, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return three histories beside their numbers, then the other facts side by side."""
    lines = _titled(subject, width, glyphs)
    if subject.problem:
        return [*lines, *wrapped(sanitized(subject.problem, 400, glyphs), width, "warn", lines=3)]
    drawn = [fact for fact in subject.facts if fact.trend is not None][:3]
    for fact in drawn:
        number = _cut([(f"{fact.label:<14}", "muted"), *_piece(fact, f"{fact.text:>10} ")], width, glyphs)
        lines.append((*number, (_bars(fact, width - width_of(number), glyphs), subject.series)))
    return [*lines, *_side_by_side([fact for fact in subject.facts if fact not in drawn], width, glyphs)]


def compact_column(subject: Subject, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return few lines for many GPUs: the first history, then the other facts side by side."""
    if subject.problem:
        return [*_titled(subject, width, glyphs), _one(subject.problem, width, glyphs)]
    head = Subject(subject.label, "", None, subject.facts[:1], subject.series)
    return [*one_line(head, width, glyphs), *_side_by_side(subject.facts[1:], width, glyphs)]


def _side_by_side(facts: Sequence[Fact], width: int, glyphs: Glyphs) -> list[Spans]:
    pieces = [_piece(fact, fact.short_or_text) for fact in facts if fact.short_or_text]
    return _flowed(pieces, width, glyphs, "  ", "")


def _titled(subject: Subject, width: int, glyphs: Glyphs) -> list[Spans]:
    name = sanitized(subject.name, max(0, width - len(subject.label) - 1), glyphs)
    return [((subject.label, "strong"), (f" {name}" if name else "", "muted"))]


def _pair(fact: Fact, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return label and text at the two edges of one line, or of two lines if they are too long."""
    piece = _piece(fact, fact.text)
    gap = width - len(fact.label) - width_of(piece)
    if gap >= 1:
        return [((fact.label, "muted"), (" " * gap, "text"), *piece)]
    piece = _cut(piece, width, glyphs)
    return [((fact.label, "muted"),), ((" " * (width - width_of(piece)), "text"), *piece)]


BLOCKS_WIDTH = 100
"""From this width three histories fit side by side."""
COLUMN_WIDTH = 50
"""A pane narrower than this shows one fact per line."""
MORE_KEYS = "tab, z: show all"
"""How to see the hidden GPUs."""


def telemetry_lines(
    state: TelemetryState, width: int, height: int, glyphs: Glyphs, devices: Sequence[Device] = ()
) -> list[Spans]:
    """Return the richest arrangement of at most `height` lines; if none is short enough, one with hidden GPUs.

    `devices` are those of the run; they give torch's name of each GPU.
    """
    read = state.latest
    if read is None:
        return []
    subjects = [gpu_subject(gpu, state.history, devices, width, glyphs) for gpu in read.gpus]
    subjects.append(host_subject(read.host, state.history, glyphs))
    sentence = sanitized(read.problem or "", 400, glyphs)
    # Three lines hold each of our sentences at 80 columns. GPUs are hidden to make room for it.
    problem = wrapped(sentence, width, "warn", lines=max(min(3, height - 1), height - len(subjects)))
    room = height - len(problem)
    lines: list[Spans] = []
    for arrange in _arrangements(width):
        lines = [line for subject in subjects for line in arrange(subject, width, glyphs)]
        if lines and not lines[-1]:
            lines.pop()
        if len(lines) <= room:
            return lines + problem
    used = {index for index, gpu in enumerate(read.gpus) if torch_names(gpu, devices)}
    return _shortened(subjects, used, width, room, glyphs) + problem


def _arrangements(width: int) -> tuple[Arrangement, ...]:
    """Return the arrangements for a width, richest first."""
    if width < COLUMN_WIDTH:
        return column, short_column, compact_column
    lines = partial(one_line, of_problem=2), one_line
    if width < BLOCKS_WIDTH:
        return column, *lines
    return partial(_blocks, lines=2), partial(_blocks, lines=1), *lines


def _shortened(subjects: Sequence[Subject], used: set[int], width: int, room: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line for each GPU that fits (those of the run first), one about hidden GPUs, and one for the host."""
    *gpus, host = subjects
    last = one_line(host, width, glyphs)
    if room < 2 or not gpus:
        return last
    count = 1 if room == 2 else room - 2
    chosen = sorted(sorted(range(len(gpus)), key=lambda index: index not in used)[:count])
    lines = [line for index in chosen for line in one_line(gpus[index], width, glyphs)]
    if room > 2:
        lines.append(_hidden(gpus, chosen, width))
    return [*lines, *last]


def _hidden(gpus: Sequence[Subject], chosen: Sequence[int], width: int) -> Spans:
    """Return how many GPUs are shown, how to see the others, and the warnings of hidden ones."""
    line: list[tuple[str, str]] = [(f"{len(chosen)} of {len(gpus)} GPUs; {MORE_KEYS}", "muted")]
    for index, subject in enumerate(gpus):
        wrong = next((fact for fact in subject.facts if fact.role in ("bad", "warn")), None)
        if index in chosen or (wrong is None and not subject.problem):
            continue
        text = f"! {subject.label} cannot be read" if wrong is None or subject.problem else (
            f"{wrong.sign} {subject.label} {wrong.brief or wrong.short_or_text}"
        )  # fmt: skip
        if width_of((*line, (text, ""))) + 2 <= width:
            line += [("  ", "text"), (text, wrong.role if wrong is not None else "warn")]
    return tuple(line)
