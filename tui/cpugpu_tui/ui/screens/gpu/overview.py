"""The page of all GPUs: histories of utilisation, memory, power and temperature in fixed ranges, and processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil

from rich.cells import cell_len, chop_cells

from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Device, GpuProcess, GpuTelemetry
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.ui.glyphs import Glyphs, means, trend_lines
from cpugpu_tui.ui.panes.lines import Spans, cut, packed, plain, sanitized, width_of, wrapped
from cpugpu_tui.ui.panes.telemetry import wording
from cpugpu_tui.ui.panes.telemetry.arrangements import telemetry_lines
from cpugpu_tui.ui.panes.telemetry.facts import Fact, Subject, gpu_subject, host_subject
from cpugpu_tui.ui.panes.telemetry.wording import GPU, PROCESS, bytes_text, known, torch_names, worded

LEAST_WIDTH = 60
"""Cells below which four histories do not fit side by side."""
LABEL_WIDTH = 8
GAP = 2
"""Cells between two columns."""
SPAN_S, LEAST_STEP_S = 150, 2
"""Least time of a history, and the shortest step. At one reading a second, steps of one second would have holes."""
MOST_HEIGHT = 8
"""Most lines of a history."""
PROCESS_LINES = 7
"""Lines that histories leave to the processes; more processes are reached by scrolling."""
COLUMNS = {
    "kernel-active": "kernel_active_pct", "memory": "memory_used_bytes", "power": "power_mw",
    "temperature": "temperature_c",
}  # fmt: skip
"""Label of a fact → its reading."""
RANGES = "full bar: 100 %, all memory, power limit, throttling; "
ENDS = {"power": "power_limit_mw", "temperature": "slowdown_temperature_c"}
"""Label → reading at the end of its range. Without that reading the range has a fixed end, which is named."""
Cell = tuple[Sequence[Spans], Sequence[str]]
"""Text and history of one column; the history is empty if there is none."""
History = Callable[[Fact], Sequence[str]]
"""Draws a fact's history; empty without a range."""


def overview_lines(
    state: TelemetryState, devices: Sequence[Device], width: int, height: int, glyphs: Glyphs
) -> list[Spans]:
    """Return all GPUs, the host and the processes; histories share the height that processes leave."""
    read = state.latest
    if read is None or not read.gpus or width < LEAST_WIDTH:
        room = max(height, len(read.gpus) + 4 if read is not None else 1)
        processes = _processes(read.gpus if read else (), width, glyphs)
        return [*telemetry_lines(state, width, room, glyphs, devices), *processes]
    column = (width - LABEL_WIDTH) // len(COLUMNS)
    cells = column - GAP
    step_s = max(LEAST_STEP_S, ceil(SPAN_S / cells))
    pairs = [(gpu, gpu_subject(gpu, state.history, devices, width, glyphs)) for gpu in read.gpus]
    heads: Spans = ((" " * LABEL_WIDTH, "text"), *((f"{label:<{column}}", "strong") for label in COLUMNS))
    above = [_caption(read.gpus, step_s, width, glyphs), heads]
    if read.problem:
        above += wrapped(f"! {sanitized(read.problem, 400, glyphs)}", width, "warn")
    marks = _marks([subject for _, subject in pairs], width, glyphs)
    rows = len(pairs) + 1
    lines = (height - len(above) - len(marks) - PROCESS_LINES) // rows - 1
    lines = min(max(lines, 1), MOST_HEIGHT)

    def history(fact: Fact) -> Sequence[str]:
        if fact.high is None or fact.trend is None:
            return ()
        values = means(fact.trend, state.times_ns, step_s, cells)
        return trend_lines(values, cells, lines, 0, fact.high, glyphs)

    drawn: list[Spans] = []
    for gpu, subject in pairs:
        names = [subject.label, *torch_names(gpu, devices)]
        if subject.problem:
            said = wrapped(sanitized(subject.problem, 400, glyphs), width - LABEL_WIDTH, "warn", lines=lines + 1)
            drawn += _row(names, [(said, ())], width - LABEL_WIDTH, lines, subject.series)
        else:
            drawn += _row(names, _gpu_cells(subject, cells, lines, gpu, history), column, lines, "gpu")
    host = _host_cells(host_subject(read.host, state.history, glyphs), cells, history)
    drawn += _row(["host"], host, column, lines, "cpu")
    return [*above, *drawn, *marks, *_processes(read.gpus, width, glyphs)]


# ------------------------------------------------------------------ above the histories


def _caption(gpus: Sequence[GpuTelemetry], step_s: int, width: int, glyphs: Glyphs) -> Spans:
    """Return the models, and how to read the histories."""
    counted = Counter(sanitized(gpu.name, 40, glyphs) or "unnamed" for gpu in gpus)
    models = ", ".join(f"{count} {glyphs.times} {name}" if count > 1 else name for name, count in counted.items())
    told = f"newest right, a column is {step_s} s"
    if len(RANGES) + len(told) + cell_len(models) + 2 <= width:
        told = RANGES + told
    return ((cut(models, width - len(told) - 2, glyphs), "title"), ("  ", "text"), (told, "muted"))


# ------------------------------------------------------------------ rows


def _row(names: Sequence[str], cells: Sequence[Cell], column: int, lines: int, series: str) -> list[Spans]:
    """Return a line of text and `lines` lines of history. Text that is longer goes beside a missing history."""
    found: list[Spans] = []
    for at in range(lines + 1):
        name = names[at] if at < len(names) else ""
        spans: list[tuple[str, str]] = [(f"{name[: LABEL_WIDTH - 1]:<{LABEL_WIDTH}}", "strong" if at == 0 else "muted")]
        for number, (text, bars) in enumerate(cells):
            piece: Spans = text[at] if at < len(text) else ()
            if at and bars:
                piece = ((bars[at - 1], series),)
            spans += piece
            if number < len(cells) - 1:
                spans.append((" " * (column - width_of(piece)), "text"))
        found.append(tuple(spans))
    return found


def _gpu_cells(subject: Subject, cells: int, lines: int, gpu: GpuTelemetry, history: History) -> list[Cell]:
    """Return the four columns of a GPU. The clock stands beside utilisation, and throttling beside power."""
    facts = {fact.label.partition(",")[0]: fact for fact in subject.facts}
    beside = {"kernel-active": facts["SM clock"], "power": facts["throttle"]}
    found: list[Cell] = []
    for label, key in COLUMNS.items():
        fact = facts[label]
        if known(gpu.readings, key) is None:
            found.append((wrapped(fact.text, cells, fact.role, lines=lines + 1), ()))
            continue
        texts = _forms(fact)
        if label in ENDS and known(gpu.readings, ENDS[label]) is None and fact.high is not None:
            texts.insert(0, f"{texts[0]}, bar to {GPU[key].text(fact.high)}")
        bars = history(fact)
        found.append(([_together(texts, fact.role, beside.get(label), cells), (("no range known", "muted"),)], bars))
    return found


def _forms(fact: Fact) -> list[str]:
    """Return a fact's text, longest first, with the sign before it. Numbers are padded, so that they stand still."""
    padded = f"{fact.text:>4}" if fact.label == "kernel-active" else fact.short_or_text
    texts = [fact.text, padded] if fact.label == "temperature" else [padded]
    sign = f"{fact.sign} " if fact.sign else ""
    return [sign + text for text in [*texts, *([fact.brief] if fact.brief else [])]]


def _together(texts: Sequence[str], role: str, beside: Fact | None, cells: int) -> Spans:
    """Return the longest text that leaves room for the words of the fact beside it, or at least for its sign."""
    if beside is None or not (beside.sign or beside.trend):
        return ((_fitting(texts, cells), role),)
    sign = f"{beside.sign} " if beside.sign else ""
    words = [beside.text, beside.brief or "", (beside.brief or "").partition(" ")[0], beside.short_or_text.strip()]
    pairs = [(text, sign + word) for text in texts for word in words if word]
    pairs += [*((text, beside.sign) for text in texts), (texts[-1], "")]
    text, further = next((pair for pair in pairs if len(pair[0]) + GAP + len(pair[1]) <= cells), pairs[-1])
    return ((text, role), (" " * GAP, "text"), (further, beside.role)) if further else ((text[:cells], role),)


def _fitting(texts: Sequence[str], cells: int) -> str:
    return next((text for text in texts if len(text) <= cells), texts[-1][:cells])


def _host_cells(host: Subject, cells: int, history: History) -> list[Cell]:
    """Return the columns of the host: two with a history, then the other facts below each other."""
    texts: list[Spans] = [
        ((_fitting([f"{fact.label} {fact.text}", fact.text, fact.brief or fact.text], cells), fact.role),)
        for fact in host.facts
    ]
    drawn: list[Cell] = [([text], history(fact)) for text, fact in zip(texts, host.facts[:2], strict=False)]
    return [*drawn, (texts[2::2], ()), (texts[3::2], ())]


# ------------------------------------------------------------------ below the histories


def _marks(subjects: Sequence[Subject], width: int, glyphs: Glyphs) -> list[Spans]:
    """Return what spoils measurements, GPU by GPU."""
    pieces: list[Spans] = []
    for subject in subjects:
        for fact in subject.facts:
            if fact.sign.startswith("!") and not subject.problem:
                remark = f"shared with {fact.text}" if fact.label == "processes" else fact.short_or_text
                text = f"{fact.sign} {subject.label}: {remark}"
                pieces.append(((cut(text, min(len(text), width), glyphs), fact.role),))
    return packed(pieces, width)


def _processes(gpus: Sequence[GpuTelemetry], width: int, glyphs: Glyphs) -> list[Spans]:
    """Return the processes of all GPUs, and of which GPUs they cannot be listed."""
    rows: list[Listed] = []
    silent: list[str] = []
    for gpu in gpus:
        found = processes_of(gpu)
        rows += found or []
        silent += [str(gpu.index)] if found is None else []
    rows.sort(key=lambda row: row[1].own)  # others first: a run of our own may fill a row for each GPU
    lines: list[Spans] = [(), (("Processes", "strong"),)]
    if rows:
        lines += process_table(rows, width, glyphs)
    elif len(silent) < len(gpus):
        lines.append((("  none", "muted"),))
    if silent:
        lines += wrapped(f"  {glyphs.none} GPU {', '.join(silent)}: processes cannot be listed", width, "muted")
    return lines if gpus else []


Listed = tuple[str, GpuProcess]
"""Where a process runs (`0`, or `0 MIG 1`; empty on the page of its GPU), and the process."""
PID_WIDTH, USER_WIDTH, MEMORY_WIDTH, GPU_WIDTH, CPU_WIDTH = 7, 8, 10, 10, 11
WIDTHS = {"kernel_active_pct": GPU_WIDTH, "cpu_cores": CPU_WIDTH}
LEAST_COMMAND = 20
"""Cells below which the command has lines of its own."""
NOT_REPORTED = "not reported by the driver"


def processes_of(gpu: GpuTelemetry) -> list[Listed] | None:
    """Return the processes of a GPU and its MIG instances; None if none of them can be listed."""
    if gpu.everyone is None:
        return None
    sliced = ((process.pid, instance.index) for instance in gpu.instances for process in instance.processes or ())
    place = {pid: f"{gpu.index} MIG {index}" for pid, index in sliced}
    return [(place.get(process.pid, str(gpu.index)), process) for process in gpu.everyone]


def outside_instances(gpu: GpuTelemetry, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a title and every process outside MIG instances."""
    title: Spans = (("Processes outside the instances" if gpu.instances else "Processes", "strong"),)
    if gpu.processes is None:
        return [title, (("  cannot be listed", "muted"),)]
    sliced = {process.pid for instance in gpu.instances for process in instance.processes or ()}
    rows = [("", process) for process in gpu.processes if process.pid not in sliced]
    return [title, *process_table(rows, width, glyphs)] if rows else [title, (("  none", "muted"),)]


def process_table(rows: Sequence[Listed], width: int, glyphs: Glyphs) -> list[Spans]:
    """Return headings, a row for each process with its whole command, and the reasons of all dashes."""
    place_width = max(len("GPU"), *(len(place) for place, _ in rows)) if any(place for place, _ in rows) else 0
    heads = [f"  {'GPU':<{place_width}} " if place_width else "  ", f"{'pid':<{PID_WIDTH}} {'user':<{USER_WIDTH}}"]
    heads += [f"{'memory':>{MEMORY_WIDTH}}", *(f"{quantity.label:>{WIDTHS[key]}}" for key, quantity in PROCESS.items())]
    head = "".join(heads)
    is_wide = width - len(head) - 2 >= LEAST_COMMAND
    lines: list[Spans] = [((f"{head}  command"[:width], "muted"),)]
    if len(head) > width:
        lines = wrapped(" ".join(f"{head} command".split()), width, "muted")
    why_not: dict[str, None] = {}
    for place, process in rows:
        fixed = _cells(place, place_width, process, glyphs, why_not)
        if len(head) > width:  # under 60 columns: the same in words, as many lines as it takes
            lines += wrapped(" ".join(f"  {plain(fixed)}  {_command(process, glyphs)}".split()), width)
            continue
        room = width - width_of(fixed) - 2 if is_wide else width - 4
        pieces = chop_cells(_command(process, glyphs), room)
        if is_wide:
            lines += [(*fixed, ("  ", "text"), (pieces[0], "text"))]
            lines += [((" " * (width - room), "text"), (piece, "text")) for piece in pieces[1:]]
        else:
            lines += [fixed, *(((" " * 4, "text"), (piece, "text")) for piece in pieces)]
    return [*lines, *wrapped(f"{glyphs.none} {'; '.join(why_not)}", width - 2, "muted")] if why_not else lines


def _cells(place: str, place_width: int, process: GpuProcess, glyphs: Glyphs, why_not: dict[str, None]) -> Spans:
    """Return the fixed columns of a row; add the reason of each dash to `why_not`."""
    where = f"  {place:<{place_width}} " if place_width else "  "
    user = cut(sanitized(process.user or glyphs.none, 80, glyphs), USER_WIDTH, glyphs)
    memory = glyphs.none
    if process.memory_bytes is not None:
        memory = bytes_text(process.memory_bytes)
    else:
        why_not[f"memory: {NOT_REPORTED}"] = None
    spans: list[tuple[str, str]] = [(f"{where}{process.pid:<{PID_WIDTH}} {user}{memory:>{MEMORY_WIDTH}}", "text")]
    for key, quantity in PROCESS.items():
        share = worded(quantity, process.readings.get(key), glyphs.none)
        if share.value is None:
            reason = share.text.removeprefix(glyphs.none).strip() or REASONS["not-asked"]
            why_not[f"{quantity.label}: {reason}"] = None
        spans.append((f"{share.number:>{WIDTHS[key]}}", share.role))
    return tuple(spans)


def _command(process: GpuProcess, glyphs: Glyphs) -> str:
    ours = "(ours) " if process.own else ""
    if process.user is None and process.command is None:
        return f"{ours}({wording.UNRESOLVED})"
    return ours + (sanitized(process.command or "", 400, glyphs) or "command unknown")
