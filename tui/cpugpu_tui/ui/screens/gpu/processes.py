"""The table of processes on GPUs, with their memory, GPU share and CPU share."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import chop_cells

from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import GpuProcess, GpuTelemetry
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, cut, plain, width_of, wrapped
from cpugpu_tui.ui.panes.telemetry import wording
from cpugpu_tui.ui.panes.telemetry.quantities import PROCESS, bytes_text
from cpugpu_tui.ui.panes.telemetry.wording import stranger, worded

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
    place = {
        process.pid: f"{gpu.index} MIG {instance.index}"
        for instance in gpu.instances for process in instance.processes or ()
    }  # fmt: skip
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
    user = cut(stranger(process.user or glyphs.none, 80, glyphs), USER_WIDTH, glyphs)
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
    return ours + (stranger(process.command or "", 400, glyphs) or "command unknown")
