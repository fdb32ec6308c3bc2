"""The machine: the card of its peak rates and fixed overheads, and its state while a row was timed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cpugpu_tui.analysis.ceilings import age, card
from cpugpu_tui.analysis.costs import SCOPE_WORDS, joules_text
from cpugpu_tui.analysis.slow_gpus import Standing
from cpugpu_tui.machine import device_state
from cpugpu_tui.machine.text import REASONS, printable
from cpugpu_tui.model import DEVICE, Reading
from cpugpu_tui.model.quantities import gib, percent, significant, time_text
from cpugpu_tui.model.throttling import ALARMING, NORMAL
from cpugpu_tui.render.crossover_words import speedup_text
from cpugpu_tui.render.gpus import WORKLOAD, Matrix, matrices, peer_sentences, row_standings, several
from cpugpu_tui.report.report import judged
from cpugpu_tui.state.condition import Condition, condition
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.keys import COMMAND_BY_ID
from cpugpu_tui.ui.panes.lines import Spans, fitted, labelled, respelled, spelled, wrapped
from cpugpu_tui.ui.panes.status import calibration_step
from cpugpu_tui.ui.screens.page import Page

EMPTY = (
    "This machine has not been measured yet. The card will show the peak rates of CPU, GPU and PCIe and the time of "
    "one launch and one copy. After that, each row of the table also shows what limits it. "
    "Press {measure} to measure CPU and GPU (about 20 s)."
)


class MachineScreen(Page):
    """Shows the last card; measuring has its own key, because it takes CPU and GPU for 20 s."""

    TOPIC = "machine"

    def page_title(self) -> Spans:
        """Return the age of the card, or the step of the measurement."""
        return (("Machine card ", "title"), *self._state())

    def _state(self) -> Spans:
        state = self.state
        if state.calibrating:
            return ((" measuring: ", "strong"), calibration_step(state))
        if state.situation.demo:
            return ((" of the recorded machine", "text"),)
        if state.situation.live:
            return ((" a run is in progress: measure when it has ended", "warn"),)
        if not state.ceilings:
            return ()
        measured = age(min(found.measured_wall_ns for found in state.ceilings), time.time_ns())
        return ((f" measured {measured}", "text"),)

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of a page, and the one that measures."""
        back, *others = super().page_keys()
        can_measure = COMMAND_BY_ID["measure"].possible(self.state.situation)
        again = " again" if self.state.ceilings else ""
        return (back, *([("{measure}", f"measure{again} (20 s)")] if can_measure else []), *others)

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the remark on the last measurement, and the card, or what it will show."""
        known, remark = self.state.ceilings, self.state.calibration_remark
        lines = wrapped(spelled(remark, self.glyphs), width, "warn") if remark else []
        if not known:
            return [*lines, *wrapped(self.state.keymap.with_keys(EMPTY), width)]
        lines += respelled(list(map(tuple, card(known, width, time.time_ns()))), self.glyphs)
        return [fitted(line, width, self.glyphs) for line in lines]


# ------------------------------------------------------------------ while a row was timed


NAME = 12
"""Cells of the names."""

BASIS_WORDS = {
    device_state.BY_CASE: " of the whole case",
    device_state.BY_MASK: " of the half-rounds, sampled: this driver has no counter",
}
"""Basis of a throttled share → words. The usual basis, the timed part, is called "of the time"."""


def machine_lines(run: RunState, row: Row, times: DeviceTimes, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return lines for each fact, with the reason if it is unknown."""
    if not times.samples:
        return []
    found = condition(run, row, times)
    if times.device == "cpu":
        return _energy(found, width, glyphs) if times.energy is not None else []
    if not times.edges:  # a run of an older version has at most clocks
        known = _named("clock", _clock(found, times), width, "text") if times.clocks_mhz else []
        return [*known, *(_throttled(found, width, glyphs) if found.throttles else [])]

    def has(reading: Reading) -> bool:
        """Whether to show a reading: a simulated machine has only those sensors that its settings plant."""
        return not (run.simulated and reading.reason == "not-supported")

    return [
        *(_named("clock", _clock(found, times), width, "text") if has(found.sm_clock_mhz) else []),
        *_throttled(found, width, glyphs),
        *(_named("temperature", _temperature(found), width, "text") if has(found.temperature_begin_c) else []),
        *(_energy(found, width, glyphs) if has(found.watts) else []),
        *_company(found, width),
    ]


def _named(name: str, text: str, width: int, role: str) -> list[Spans]:
    """Return a name and its text, which is wrapped."""
    return labelled(f"  {name}", wrapped(text, width - NAME - 3, role), NAME + 3)


def why(reading: Reading) -> str:
    """Return the reason for a missing value in words."""
    return REASONS.get(reading.reason or "", "unknown")


def _clock(found: Condition, times: DeviceTimes) -> str:
    median = found.sm_clock_mhz.value
    if median is None:
        return f"SM clock unknown: {why(found.sm_clock_mhz)}"
    clocks = (*times.clocks_mhz, *times.end_clocks_mhz)
    low, high = min(clocks), max(clocks)
    spread = "" if low == high else f", {low:,.0f} to {high:,.0f}"
    return f"SM clock {median:,.0f} MHz{' (median)' if spread else ''}{spread}"


def _throttled(found: Condition, width: int, glyphs: Glyphs) -> list[Spans]:
    if found.unthrottled_reason is not None:
        return _named("throttled", f"unknown: {REASONS.get(found.unthrottled_reason, 'unknown')}", width, "muted")
    if not found.throttles:
        return _named("throttled", "never", width, "text")
    lines: list[Spans] = []
    for throttle in found.throttles:
        text, role = _throttle(throttle, glyphs)
        lines += _named("" if lines else "throttled", text, width, role)
    return lines


def _throttle(throttle: device_state.Throttle, glyphs: Glyphs) -> tuple[str, str]:
    share = "under 0.1" if throttle.share < 0.001 else percent(throttle.share)
    text = f"{throttle.word} {share} %{BASIS_WORDS.get(throttle.basis, ' of the time')}"
    if throttle.severity == NORMAL:
        return f"{text}, which is normal under load", "text"
    if throttle.severity == ALARMING:
        return f"{glyphs.no} {text}: check this GPU's cooling and power supply", "bad"
    return f"~ {text}", "warn"


def _temperature(found: Condition) -> str:
    begin, end = found.temperature_begin_c, found.temperature_end_c
    if begin.value is None:
        return f"unknown: {why(begin)}"
    return f"{begin.value:.0f} C at the start" + (f", {end.value:.0f} C at the end" if end.value is not None else "")


def _energy(found: Condition, width: int, glyphs: Glyphs) -> list[Spans]:
    watts, lines = found.watts, []
    off = found.energy.plus_minus
    spread = f" {glyphs.plus_minus} {percent(off)} %" if off is not None else ""
    if watts.value is not None:
        lines += _named("power", f"{significant(watts.value)} W{spread}", width, "text")
    else:
        why_not = _why_no_energy(watts, "half-rounds are")
        lines += _named("power", f"{glyphs.none} {why_not}", width, "muted")
    joules = found.energy.joules_per_call
    if joules.value is None:
        return [*lines, *_named("energy", f"{glyphs.none} {_why_no_energy(joules, 'the window is')}", width, "muted")]
    parts = [f"{spelled(joules_text(joules.value), glyphs)} a call{spread}"]
    above = found.above_idle.value
    if above is not None:
        # A difference below one step of the counter may be zero.
        seen = above > (off or 0.0) * joules.value
        parts.append(f"{spelled(joules_text(above), glyphs) if seen else 'nothing measurable'} above idle")
    if found.gflop_per_j.value is not None:
        parts.append(f"{significant(found.gflop_per_j.value)} GFLOP/J")
    scope = SCOPE_WORDS.get(found.energy.scope, found.energy.scope)
    parts += [scope] if scope else []
    lines += _named("energy", ", ".join(parts), width, "text")
    polled = found.energy.polled_watts
    if found.energy.is_disputed and polled is not None:
        text = f"~ disputed: the power sensor read {significant(polled)} W, which differs by more than 10 %"
        lines += _named("", text, width, "warn")
    return lines


def _why_no_energy(reading: Reading, what_is: str) -> str:
    if reading.reason == "window-too-short":
        return f"{what_is} shorter than its sensor resolves"
    return why(reading) + (": run with --energy" if reading.reason == "not-asked" else "")


def _company(found: Condition, width: int) -> list[Spans]:
    company = found.company
    if company is None:
        return _named("others", "unknown: processes cannot be listed here", width, "muted")
    texts = [
        printable(device_state.process_text(each))
        + ("" if each.memory_bytes is None else f", {gib(each.memory_bytes)} GiB")
        for each in company.others
    ]
    unexplained = company.unexplained_bytes.value
    if unexplained is not None and unexplained > device_state.UNEXPLAINED_BYTES:
        texts.append(f"{gib(unexplained)} GiB that no listed process owns")
    if not texts:
        return _named("others", "no other processes on this GPU", width, "text")
    return _named("others", f"~ shared: {'; '.join(texts)}", width, "warn")


GPU_NAME, TIME, SPEEDUP, STANDING = 8, 9, 17, 15
"""Cells of the columns before the model's name, which is cut to fit."""

CELL = 8
"""Cells of a matrix's columns; eight GPUs take 72 of 80."""


def gpus_lines(run: RunState, row: Row, width: int, glyphs: Glyphs) -> list[Spans]:
    """Return a line for each GPU with times, speedup and deviation; nothing for a single GPU."""
    if not several(run) or not row.gpus or row.status == "mismatch":
        return []
    stand = row_standings(run, row)
    head = f"  {'GPU':<{GPU_NAME}}{'call':>{TIME}}{'kernels':>{TIME}}{'speedup':>{SPEEDUP}}  "
    head += f"{'vs same model':<{STANDING}}model"
    lines: list[Spans] = [((head[:width], "muted"),)]
    for gpu in run.gpus:
        times = row.times.get(gpu.name)
        if times is None:
            continue
        known = [glyphs.none if ns is None else time_text(ns) for ns in (times.latency_ns, times.median_ns(DEVICE))]
        found = judged(run, row.on(gpu.name)).comparison
        lead = glyphs.none if found is None else speedup_text(found)
        text, role = _standing(stand.get(gpu.name))
        room = max(width - 4 - GPU_NAME - 2 * TIME - SPEEDUP - STANDING, 0)
        numbers = f"{known[0]:>{TIME}}{known[1]:>{TIME}}{lead:>{SPEEDUP}}  "
        lines.append(((f"  {gpu.name:<{GPU_NAME}}", "gpu"), (numbers, "text"), (f"{text:<{STANDING}}", role),
                      (gpu.label[:room], "muted")))  # fmt: skip
    return lines


def _standing(found: Standing | None) -> tuple[str, str]:
    """Return a GPU's deviation from the median of its model, and the role."""
    if found is None:
        return "only one", "muted"
    off = found.ratio - 1
    text = f"{'+' if off >= 0 else '-'}{percent(abs(off))}%"
    return (f"! slow {text}", "bad") if found.is_slow else (text, "text")


def peers_lines(run: RunState, row: Row, width: int) -> list[Spans]:
    """Return the copies between GPUs, in rows of the workload for copies."""
    if row.case.workload != WORKLOAD:
        return []
    lines = [line for sentence in peer_sentences(run) for line in wrapped(sentence, width, "strong")]
    for matrix in matrices(run):
        lines += [(), *wrapped(matrix.title, width, "title"), *_matrix(matrix, width)]
    return lines


def _matrix(matrix: Matrix, width: int) -> list[Spans]:
    """Return the lines of a matrix, with as many columns as fit."""
    shown = max((width - CELL) // CELL, 1)
    found: list[Spans] = []
    for index, (name, *cells) in enumerate((matrix.heads, *matrix.rows)):
        text = "".join(f"{cell:>{CELL}}" for cell in cells[:shown])
        found.append(((f"{name:<{CELL}}", "muted" if index == 0 else "gpu"), (text, "text" if index else "muted")))
    if len(matrix.heads) - 1 > shown:
        found.append(((f"{shown} of {len(matrix.heads) - 1} columns fit; exports have all", "muted"),))
    return found
