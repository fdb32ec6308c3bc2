"""The machine: every GPU and the host, as one line each, as blocks, or as a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual.geometry import Size

from cpugpu_tui.analysis.quantities import gib
from cpugpu_tui.model import GpuTelemetry, Reading
from cpugpu_tui.runs.state import TelemetryState
from cpugpu_tui.telemetry.reasons import REASONS
from cpugpu_tui.ui.glyphs import Glyphs, trend_text
from cpugpu_tui.ui.panes.lines import PicturePane, wrapped
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans, width_of

STALE_S = 2.5
"""Older than two sweeps of one second: dimmed, so that nobody reads an old number as a new one."""
SLOW_STALE_S = 12.5
"""The same for what is read every five seconds: clock and quota of the host, limits of a GPU."""
QUIET_THROTTLES = {"idle", "app-clocks", "display"}
"""Throttle reasons that say nothing about a measurement."""
NORMAL_THROTTLES = {"power-capped", "sync-boost"}
"""Throttle reasons that belong to full load: said, but no warning (METHOD.md, step 9)."""
BLOCKS_WIDTH = 100
"""A pane as wide as this has room for three histories side by side."""
COLUMN_WIDTH = 50
"""A pane narrower than this shows one fact a line."""


@dataclass(frozen=True)
class Fact:
    """One thing worth a label: text, and a history where there is one."""

    label: str
    text: str
    role: str = "text"
    trend: tuple[float | None, ...] | None = None
    high: float = 100.0
    """Top of the trend's range; the bottom is 0."""
    short: str | None = None
    """For one line among others; None where `text` says it alone."""


class TelemetryPane(PicturePane):
    """Redrawn with every sweep; a run in progress holds that back until its next gap."""

    def draw(self, picture: Picture, size: Size) -> Sequence[Spans]:
        """Return the arrangement that fits: column, blocks, lines, or the lines that fit."""
        return telemetry_lines(picture.telemetry, size.width, self.room(), self.glyphs)

    def room(self) -> int:
        """Return how many lines the pane may have: its height is its content's, up to `max-height`."""
        limit = self.styles.max_height
        if limit is not None and limit.cells is not None:
            return max(1, limit.cells - self.gutter.height)
        return max(1, self.size.height)


def telemetry_lines(state: TelemetryState, width: int, height: int, glyphs: Glyphs) -> list[Spans]:
    """Return the richest arrangement of at most `height` lines, cut to that if none is short enough."""
    read = state.latest
    if read is None:
        return [(("reading the machine", "muted"),)]
    subjects = [
        (f"GPU {gpu.index}", gpu.name, gpu.problem, gpu_facts(gpu, state.history, glyphs), "gpu") for gpu in read.gpus
    ]
    subjects.append(("host", "", None, host_facts(read.host, state.history, glyphs), "cpu"))
    problem = wrapped(read.problem or "", width, "warn", lines=max(1, height - len(subjects)))
    room = height - len(problem)
    if width < COLUMN_WIDTH:
        arrangements = [column, compact_column]
    else:
        arrangements = [blocks if width >= BLOCKS_WIDTH else column, one_line]
    for arrange in arrangements:
        lines = [line for subject in subjects for line in arrange(*subject, width=width, glyphs=glyphs)]
        if len(lines) <= room:
            break
    if len(lines) > room:
        lines = _shortened(lines, room, len(read.gpus))
    return lines + problem


def _shortened(lines: list[Spans], room: int, gpus: int) -> list[Spans]:
    """Return what fits, the host always, and that there is more."""
    if room < 2:
        return lines[-1:]
    if room == 2:
        return [lines[0], lines[-1]]
    shown = lines[: room - 2]
    return [*shown, ((f"{len(shown)} of {gpus} GPUs; tab, z: all", "muted"),), lines[-1]]


# ------------------------------------------------------------------ facts


def gpu_facts(gpu: GpuTelemetry, history: Mapping[str, tuple[float | None, ...]], glyphs: Glyphs) -> list[Fact]:
    """Return what is known of a GPU, most important first."""
    readings, none = gpu.readings, glyphs.none

    def past(key: str) -> tuple[float | None, ...]:
        return history.get(f"gpu{gpu.index}/{key}", ())

    active = readings.get("kernel_active_pct")
    facts = [
        Fact("kernel-active", _text(active, "{:.0f}%", none), _role(active), past("kernel_active_pct"),
             short=f"kernel-active {_short(active, '{:.0f}%', none):>4}"),
        _memory(readings, past("memory_used_bytes"), glyphs),
        _power(readings, past("power_mw"), glyphs),
        _plain("SM clock", readings.get("sm_clock_mhz"), "{:.0f} MHz", none),
        _temperature(readings, none),
    ]  # fmt: skip
    words = [word for word in gpu.throttle if word not in QUIET_THROTTLES]
    alarming = not NORMAL_THROTTLES.issuperset(words)
    throttle = Fact("throttle", ", ".join(words) or "none", "warn" if alarming else "text", short=", ".join(words))
    facts.insert(1 if alarming else len(facts), throttle)
    memory_clock = readings.get("memory_clock_mhz")
    facts.append(Fact("memory clock", _text(memory_clock, "{:.0f} MHz", none), _role(memory_clock), short=""))
    facts.append(_others(gpu))
    return facts


def host_facts(
    host: Mapping[str, Reading], history: Mapping[str, tuple[float | None, ...]], glyphs: Glyphs
) -> list[Fact]:
    """Return what is known of the host, most important first."""
    none = glyphs.none
    cpu, quota = host.get("cpu_pct"), host.get("cpu_quota_cores")
    facts = [
        Fact("CPU", _text(cpu, "{:.0f}%", none), _role(cpu), history.get("host/cpu_pct", ()),
             short=f"CPU {_short(cpu, '{:.0f}%', none):>4}"),
        _memory(host, history.get("host/memory_used_bytes", ()), glyphs),
        _plain("load", host.get("load_1min"), "{:.2f}", none, "load {}"),
    ]  # fmt: skip
    frequency = host.get("cpu_freq_mhz")
    if frequency is not None and frequency.value is not None:
        facts.append(_plain("frequency", frequency, "{:.0f} MHz", none, stale_s=SLOW_STALE_S))
    else:
        facts.append(Fact("frequency", f"{none} not known here", "muted", short=""))
    if quota is not None and quota.value is not None:
        facts.append(_plain("quota", quota, "{:.3g} cores", none, "quota {}", SLOW_STALE_S))
    return facts


def _memory(readings: Mapping[str, Reading], past: tuple[float | None, ...], glyphs: Glyphs) -> Fact:
    used, total = readings.get("memory_used_bytes"), readings.get("memory_total_bytes")
    if used is None or used.value is None:
        return Fact("memory", _text(used, "", glyphs.none), "muted", short=f"memory {glyphs.none}")
    of = f"/{gib(total.value)}" if total is not None and total.value is not None else ""
    text = f"{gib(used.value)}{of} GiB"
    high = total.value if total is not None and total.value else max((v for v in past if v is not None), default=1.0)
    return Fact("memory", text, _role(used), past, high, short=text)


def _power(readings: Mapping[str, Reading], past: tuple[float | None, ...], glyphs: Glyphs) -> Fact:
    power, limit = readings.get("power_mw"), readings.get("power_limit_mw")
    if power is None or power.value is None:
        return Fact("power", _text(power, "", glyphs.none), "muted", short=f"power {glyphs.none}")
    known_limit = limit.value if limit is not None else None
    text = f"{power.value / 1000:.0f}" + (f"/{known_limit / 1000:.0f} W" if known_limit else " W")
    high = known_limit or max((v for v in past if v is not None), default=1.0)
    return Fact("power", text, _role(power), past, high, short=text)


def _temperature(readings: Mapping[str, Reading], none: str) -> Fact:
    now, slow = readings.get("temperature_c"), readings.get("slowdown_temperature_c")
    if now is None or now.value is None:
        return Fact("temperature", _text(now, "", none), "muted", short=none)
    short = f"{now.value:.0f}C"
    if slow is None or slow.value is None:
        return Fact("temperature", short, _role(now), short=short)
    role = "warn" if now.value >= slow.value else _role(now)
    return Fact("temperature", f"{short}, slows at {slow.value:.0f}C", role, short=f"{short} of {slow.value:.0f}C")


def _others(gpu: GpuTelemetry) -> Fact:
    """Return who else is on the GPU: a neighbour makes a light kernel read 15 % slow (METHOD.md)."""
    if gpu.processes is None:
        return Fact("processes", "cannot be listed", "muted", short="")
    others = [process for process in gpu.processes if not process.own]
    if not others:
        return Fact("processes", "no others", short="")
    count = f"{len(others)} other process{'es' if len(others) > 1 else ''}"
    who = ", ".join(dict.fromkeys(process.user or f"pid {process.pid}" for process in others))
    return Fact("processes", f"{count}: {who}", "warn", short=f"shared with {len(others)}")


def _plain(
    label: str, reading: Reading | None, form: str, none: str, short: str = "{}", stale_s: float = STALE_S
) -> Fact:
    text = _short(reading, form, none)
    return Fact(label, _text(reading, form, none), _role(reading, stale_s), short=short.format(text))


def _text(reading: Reading | None, form: str, none: str) -> str:
    """Return the number, or the dash with the reason."""
    if reading is None:
        return none
    if reading.value is None:
        return f"{none} {REASONS.get(reading.reason or '', '')}".strip()
    return form.format(reading.value)


def _short(reading: Reading | None, form: str, none: str) -> str:
    return form.format(reading.value) if reading is not None and reading.value is not None else none


def _role(reading: Reading | None, stale_s: float = STALE_S) -> str:
    if reading is None or reading.value is None:
        return "muted"
    return "stale" if reading.age_s > stale_s else "text"


# ------------------------------------------------------------------ arrangements


def one_line(
    label: str, name: str, problem: str | None, facts: Sequence[Fact], series: str, *, width: int, glyphs: Glyphs
) -> list[Spans]:
    """Return one line: label, history of the first fact, then as many facts as fit; there is no room for the name."""
    del name
    head: Spans = ((f"{label:<6}", "strong"),)
    if problem:
        return [(*head, (problem, "warn"))]
    spans = [*head, (trend_text(facts[0].trend or (), 8, 0, facts[0].high, glyphs), series)]
    for fact in facts:
        text = fact.text if fact.short is None else fact.short
        if text and width_of(tuple(spans)) + 2 + len(text) <= width:
            spans += [("  " if fact is not facts[0] else " ", "text"), (text, fact.role)]
    return [tuple(spans)]


def blocks(
    label: str, name: str, problem: str | None, facts: Sequence[Fact], series: str, *, width: int, glyphs: Glyphs
) -> list[Spans]:
    """Return two lines: three histories side by side, and the rest below."""
    head: Spans = ((f"{label:<7}", "strong"),)
    if problem:
        return [(*head, (f"{name}: {problem}", "warn"))]
    with_trend = [fact for fact in facts if fact.trend is not None]
    rest = [fact for fact in facts if fact.trend is None]
    bars = max(6, (width - 86) // 3)  # 86 cells are labels and numbers
    first: list[tuple[str, str]] = [*head]
    for fact in with_trend:
        first += [
            (f"{fact.label:<13} " if fact is with_trend[0] else f"{fact.label} ", "muted"),
            (trend_text(fact.trend or (), bars, 0, fact.high, glyphs), series),
            (f" {fact.text:<15} ", fact.role),
        ]
    second: list[tuple[str, str]] = [(" " * 7, "text")]
    for text, role in [(name, "muted"), *((f"{fact.label} {fact.text}", fact.role) for fact in rest)]:
        if text and width_of(tuple(second)) + 3 + len(text) <= width:
            second += [(f" {glyphs.dot} " if len(second) > 1 else "", "muted"), (text, role)]
    return [tuple(first), tuple(second)]


def column(
    label: str, name: str, problem: str | None, facts: Sequence[Fact], series: str, *, width: int, glyphs: Glyphs
) -> list[Spans]:
    """Return one fact a line, each history below its number, an empty line at the end."""
    lines = _titled(label, name, width)
    if problem:
        return [*lines, *wrapped(problem, width, "warn"), ()]
    for fact in facts:
        lines += _pair(fact, width)
        if any(value is not None for value in fact.trend or ()):
            lines.append(((trend_text(fact.trend or (), width, 0, fact.high, glyphs), series),))
    return [*lines, ()]


def compact_column(
    label: str, name: str, problem: str | None, facts: Sequence[Fact], series: str, *, width: int, glyphs: Glyphs
) -> list[Spans]:
    """Return few lines for many GPUs in a narrow column: the first history, then the other facts side by side."""
    if problem:
        return [*_titled(label, name, width), ((problem[:width], "warn"),)]
    lines = one_line(label, name, None, facts[:1], series, width=width, glyphs=glyphs)
    line: list[tuple[str, str]] = []
    for fact in facts[1:]:
        text = fact.text if fact.short is None else fact.short
        if line and width_of(tuple(line)) + 2 + len(text) > width:
            lines.append(tuple(line))
            line = []
        if text:
            line += [("  ", "text"), (text, fact.role)]
    return [*lines, tuple(line)] if line else lines


def _titled(label: str, name: str, width: int) -> list[Spans]:
    return [((label, "strong"), (f" {name}"[: max(0, width - len(label))] if name else "", "muted"))]


def _pair(fact: Fact, width: int) -> list[Spans]:
    """Return label and text at the two edges of one line, or of two where they are too long together."""
    gap = width - len(fact.label) - len(fact.text)
    if gap >= 1:
        return [((fact.label, "muted"), (" " * gap, "text"), (fact.text, fact.role))]
    return [((fact.label, "muted"),), ((f"{fact.text[:width]:>{width}}", fact.role),)]
