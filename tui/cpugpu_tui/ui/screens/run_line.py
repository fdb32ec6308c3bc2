"""A saved run in one line of a list, and in the lines below it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cpugpu_tui.machine.procfs import hostname
from cpugpu_tui.model.quantities import counted, duration, size_text
from cpugpu_tui.render.outcomes import Outcome
from cpugpu_tui.store.filtering import RunSummary
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.live.saved_runs import age_text
from cpugpu_tui.ui.panes.lines import Spans, cut, sanitized, spelled, wrapped
from cpugpu_tui.ui.panes.status import status_sign

NUMBER, DTYPE, SIZES, CASES, TOOK = 5, 4, 9, 7, 7
"""Cells of the columns with a fixed width."""
TAGS = "tags, devices"
"""Heading of the last column, which has the rest of the line."""
MARK = "*"
"""Before a run that is marked to be compared."""
AGE, DATE = 6, 16
"""Cells of `59 min` and of `2026-01-31 14:05`."""
DATE_WIDTH = 100
"""Columns from which dates are shown instead of ages, and the cases and the duration of each run."""

SHORT = {"float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16"}
"""Dtype → its short name, which a filter also accepts."""

NARROW, MEDIUM, SPACIOUS = 74, 54, 140
"""Columns below which a line has no age and no sizes, below which names are shorter, and from which gaps are wider."""

FEWEST_OF_TAGS = len(TAGS)
"""Cells below which tags and devices are left out, because nothing readable would remain."""

RIGHT = ("run", "ok", "took")
"""Headings of the columns that are aligned to the right."""


def columns(width: int) -> dict[str, int]:
    """Return heading → cells of the columns that fit a line of `width` cells, in order; "" is the status."""
    gap = _gap(width)
    if width < NARROW:
        found = {"run": NUMBER, "what": 9 if width < MEDIUM else 12, "type": DTYPE, "answer": 0}
        # A terminal may be dragged to fewer cells than the other columns take.
        return found | {"answer": max(1, width - 2 - sum(found.values()) - (len(found) - 1) * gap)}
    is_wide = width >= DATE_WIDTH
    when = {"started": DATE} if is_wide else {"age": AGE}
    found = {"run": NUMBER, **when, "what": 0, "type": DTYPE, "sizes": SIZES}
    found |= {"": 1, "answer": 0, **({"ok": CASES, "took": TOOK} if is_wide else {}), TAGS: 0}
    room = width - 2 - sum(found.values()) - (len(found) - 1) * gap
    found["what"] = min(max(room // 5, 11), 24)
    found["answer"] = min(max((room - found["what"]) // 2, 17), 30)
    found[TAGS] = room - found["what"] - found["answer"]
    if found[TAGS] < FEWEST_OF_TAGS:
        found["answer"] += found.pop(TAGS) + gap
    return found


def heads(width: int) -> Spans:
    """Return the headings."""
    cells = (f"{name:>{room}}" if name in RIGHT else f"{name:<{room}}" for name, room in columns(width).items())
    return ((f"  {(_gap(width) * ' ').join(cells)}", "muted"),)


def run_line(
    run: RunSummary, outcome: Outcome | None, width: int, glyphs: Glyphs, now_ns: int, *, chosen: bool, marked: bool
) -> Spans:  # fmt: skip
    """Return a run in one line of the list; its outcome is None until it was read."""
    sign, role = status_sign(run.status, glyphs)
    total = run.cases_ok + run.cases_failed + run.cases_skipped
    texts = {
        "run": (str(run.number), "text"),
        "started": (f"{datetime.fromtimestamp(run.started_wall_ns / 1e9):%Y-%m-%d %H:%M}", "muted"),
        "age": (age_text(run.started_wall_ns, now_ns) or "now", "muted"),
        "what": (named(run.title, glyphs), "text"),
        "type": (dtypes_text(run, glyphs), "text"),
        "sizes": (sizes_text(run, glyphs), "text"),
        "": (sign, role),
        "answer": (_answer(run, outcome, glyphs), "text" if run.status == "done" else role),
        "ok": (str(run.cases_ok) if run.cases_ok == total else f"{run.cases_ok}/{total}",
               "warn" if run.cases_failed else "text"),
        "took": (glyphs.none if run.duration_ns is None else duration(run.duration_ns / 1e9), "text"),
        TAGS: (f"{_tags_text(run, glyphs)} {_short_devices(run, glyphs)}".strip(), "muted"),
    }  # fmt: skip
    parts = [(glyphs.cursor if chosen else " ", "text"), (MARK if marked else " ", "strong")]
    for place, (name, room) in enumerate(columns(width).items()):
        text, role = texts[name]
        text = f"{text:>{room}}" if name in RIGHT else text
        parts.append((f"{' ' * _gap(width) if place else ''}{cut(text, room, glyphs)}", role))
    return (("".join(text for text, _ in parts), "chosen"),) if chosen else tuple(parts)


def _gap(width: int) -> int:
    """Return the blank cells between two columns."""
    return 2 if width >= SPACIOUS else 1


def dtypes_text(run: RunSummary, glyphs: Glyphs) -> str:
    """Return the dtype of a run in short, or how many it has."""
    if len(run.dtypes) > 1:
        return f"{len(run.dtypes)}x"
    return named(SHORT.get(run.dtypes[0], run.dtypes[0]), glyphs) if run.dtypes else glyphs.none


def sizes_text(run: RunSummary, glyphs: Glyphs) -> str:
    """Return the range of a run's sizes: `64–2,048`."""
    if not run.sizes:
        return glyphs.none
    ends = dict.fromkeys((run.sizes[0], run.sizes[-1]))
    exact = "–".join(size_text(size) for size in ends)
    short = "–".join(f"{size:.0e}".replace("e+0", "e") for size in ends)
    return spelled(exact if len(exact) <= SIZES else short, glyphs)


def _answer(run: RunSummary, outcome: Outcome | None, glyphs: Glyphs) -> str:
    """Return how a run ended unless it is done, then its answer."""
    answer = spelled(outcome.answer, glyphs) if outcome is not None else ""
    if run.status == "running":
        return f"running {run.cases_ok}"
    return " ".join(filter(None, ("" if run.status == "done" and answer else run.status, answer)))


def about(run: RunSummary, outcome: Outcome | None, width: int, glyphs: Glyphs, now_ns: int) -> list[Spans]:
    """Return lines about a run with the facts that its line has no room for."""
    if width < NARROW:
        return _about_in_short(run, width, glyphs, now_ns)
    started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
    elsewhere = "" if run.hostname == hostname() else f" on {named(run.hostname, glyphs)}"
    simulated = f" {glyphs.dot} SIMULATED" if run.simulated else ""
    parts = [f"run {run.number}", named(run.run_id, glyphs), f"{started:%Y-%m-%d %H:%M:%S}{elsewhere}"]
    first = f" {glyphs.dot} ".join(parts)
    took = "" if run.duration_ns is None else f"took {duration(run.duration_ns / 1e9)}"
    parts = [run.cases_text, took, *(named(device, glyphs) for device in run.device_texts), _tags_text(run, glyphs)]
    second = f" {glyphs.dot} ".join(part for part in parts if part)
    lines = [*wrapped(first + simulated, width, lines=1), *wrapped(second, width, "muted", lines=1)]
    return [*lines, *wrapped(spelled(_result(run, outcome), glyphs), width, lines=1)]


def _about_in_short(run: RunSummary, width: int, glyphs: Glyphs, now_ns: int) -> list[Spans]:
    """Return age and sizes of a run, and its tags and devices, in a line each."""
    age = age_text(run.started_wall_ns, now_ns)
    first = [f"{age} ago" if age else "just now", sizes_text(run, glyphs)]
    second = [_tags_text(run, glyphs), _short_devices(run, glyphs)]
    lines = [f" {glyphs.dot} ".join(filter(None, parts)) for parts in (first, second)]
    return [((cut(line, width, glyphs).rstrip(), role),) for line, role in zip(lines, ("text", "muted"), strict=True)]


def _result(run: RunSummary, outcome: Outcome | None) -> str:
    """Return sizes, dtypes and answer in words."""
    if outcome is None:
        return "reading its result"
    sizes = "–".join(dict.fromkeys(size_text(size) for size in (*run.sizes[:1], *run.sizes[-1:])))
    answer = f"{outcome.answer}{f' (first of {outcome.sweeps} sweeps)' if outcome.sweeps > 1 else ''}"
    return "; ".join(filter(None, (", ".join(run.dtypes), sizes and f"sizes {sizes}", answer)))


def with_baseline(runs: Sequence[RunSummary], name: str, series_id: str) -> list[RunSummary]:
    """Return the runs that change when series `series_id` becomes baseline `name`, with the change."""
    changed = []
    for run in runs:
        others = {each for each in run.baselines if each != name}
        baselines = tuple(sorted(others | {name} if run.series_id == series_id else others))
        if baselines != run.baselines:
            changed.append(run._replace(baselines=baselines))
    return changed


def named(text: str, glyphs: Glyphs) -> str:
    """Return a name from the database, which may not be trusted, as this terminal can show it."""
    return sanitized(spelled(text, glyphs), 200, glyphs)


def _tags_text(run: RunSummary, glyphs: Glyphs) -> str:
    """Return a run's baselines and tags."""
    baselines = (f"baseline {named(name, glyphs)}" for name in run.baselines)
    return " ".join((*baselines, *(f"#{named(tag, glyphs)}" for tag in run.tags)))


def _short_devices(run: RunSummary, glyphs: Glyphs) -> str:
    """Return the devices, GPUs first, because all runs of a machine share its CPU."""
    if run.simulated:
        return "SIMULATED"
    names = counted(named(device, glyphs).removeprefix("NVIDIA ") for device in reversed(run.devices))
    return f" {glyphs.dot} ".join([*(["beside a recorded GPU"] if run.is_beside else []), *names])
