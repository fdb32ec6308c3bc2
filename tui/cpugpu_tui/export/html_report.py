"""The HTML report: one file with SVG charts inside, which loads nothing from the network. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

from cpugpu_tui.analysis import costs
from cpugpu_tui.analysis.ceilings import newest
from cpugpu_tui.analysis.ceilings import sentences as card_sentences
from cpugpu_tui.analysis.claim_numbers import OUTDATED
from cpugpu_tui.compare.claims import judge_all, numbers_of, points_of
from cpugpu_tui.config.installing import packages_of
from cpugpu_tui.export import chart as drawn
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.machine.device_state import process_text
from cpugpu_tui.machine.text import REASONS, printable
from cpugpu_tui.model import Ceilings, Device, Reading, SweepKey
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.model.quantities import percent, rate_text, size_text, time_text
from cpugpu_tui.render.columns import NONE, is_words
from cpugpu_tui.render.curves import SurveyChart, SweepChart, charts, finished_rows, survey_chart
from cpugpu_tui.render.gpus import matrices
from cpugpu_tui.render.receipts import code_lines, run_receipt
from cpugpu_tui.render.rows import full_table
from cpugpu_tui.render.sentences import PICTURE, answer_cells, heading, when
from cpugpu_tui.render.verdicts import mark_lines
from cpugpu_tui.report.report import decomposition_of
from cpugpu_tui.state.condition import Condition, condition
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

STATE_HEADS = (
    "device", "model", "SM clock", "temperature", "power", "throttled", "other processes", "waited for a core"
)  # fmt: skip
"""Columns of `device_states`."""


def device_states(run: RunState) -> list[tuple[str, ...]]:
    """Return a line for each timed device: its state over all cases, in the columns of `STATE_HEADS`."""
    lines = []
    for device in run.devices:
        timed = [(row, row.times[device.name]) for row in run.rows.values() if device.name in row.times]
        found = [condition(run, row, times) for row, times in timed if times.samples]
        if found:
            lines.append(_state(device, found, [times for _, times in timed]))
    return lines


def _state(device: Device, found: Sequence[Condition], times: Sequence[DeviceTimes]) -> tuple[str, ...]:
    temperatures = [reading for each in found for reading in (each.temperature_begin_c, each.temperature_end_c)]
    waited = sum(each.is_starved for each in times)
    of_gpu = (_span([each.sm_clock_mhz for each in found], "MHz"), _span(temperatures, "°C"))
    seen = (_throttled(found), _others(found))
    return (
        device.name, printable(device.label), *((NONE, NONE) if device.is_cpu else of_gpu),
        _span([each.watts for each in found], "W"), *((NONE, NONE) if device.is_cpu else seen),
        f"in {waited} of {len(times)} cases" if waited else "never",
    )  # fmt: skip


def _span(readings: Sequence[Reading], unit: str) -> str:
    """Return the smallest and the largest value; if none is known, why."""
    known = [reading.value for reading in readings if reading.value is not None]
    if not known:
        return REASONS.get(readings[0].reason or "", "not read") if readings else NONE
    low, high = f"{min(known):,.0f}", f"{max(known):,.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _throttled(found: Sequence[Condition]) -> str:
    """Return each reason for low clocks with its number of cases and its largest share of one."""
    known = [each for each in found if each.unthrottled_reason is None]
    if not known:
        return REASONS.get(found[0].unthrottled_reason or "", "not read")
    shares: dict[str, list[float]] = {}
    for each in known:
        for throttle in each.throttles:
            shares.setdefault(throttle.word, []).append(throttle.share)
    texts = [
        f"{word} in {len(parts)} of {len(known)} cases (up to {percent(min(max(parts), 1.0))} %)"
        for word, parts in shares.items()
    ]
    return ", ".join(texts) or "never"


def _others(found: Sequence[Condition]) -> str:
    known = [each.company for each in found if each.company is not None]
    if not known:
        return "unknown"
    named = dict.fromkeys(printable(process_text(process)) for company in known for process in company.others)
    shared = sum(company.is_shared for company in known)
    return f"in {shared} of {len(known)} cases: {'; '.join(named) or 'memory without a process'}" if shared else "none"


# ------------------------------------------------------------------ peak rates


def peak_rates(known: Sequence[Ceilings]) -> list[tuple[str, ...]]:
    """Return lines of a name and a text for each device; lines that no device has are left out."""
    if not known:
        return []
    lines = [
        ("float32 compute", *(_rate(each.flops.get("float32"), "FLOP/s") for each in known)),
        ("memory bandwidth", *(_rate(each.copy_bytes_per_s, "B/s") for each in known)),
        ("one launch, or call on the CPU", *(_time(each.launch_ns) for each in known)),
        ("one synchronisation", *(_time(each.synchronize_ns) for each in known)),
        ("one round trip", *(_time(each.round_trip_ns) for each in known)),
    ]
    ways = {"h2d": "to the GPU", "d2h": "to the host"}
    for name in dict.fromkeys(name for each in known for name in each.transfers):
        way, _, memory = name.partition("_")
        rates = (each.transfers[name].bytes_per_s if name in each.transfers else None for each in known)
        lines.append((f"{memory} copy {ways.get(way, way)}", *(_rate(rate, "B/s") for rate in rates)))
    return [line for line in lines if set(line[1:]) != {NONE}]


def _rate(value: float | None, unit: str) -> str:
    return rate_text(value, unit) if value else NONE


def _time(ns: float | None) -> str:
    return NONE if ns is None else time_text(ns)


TEMPLATE = "report.html.jinja"
"""File beside this module."""

PARTS = {
    costs.TO_GPU: "to-gpu", costs.LAUNCH: "launch", costs.KERNELS: "kernels", costs.WAIT: "wait", costs.BACK: "back",
}  # fmt: skip
"""Part of a call → CSS class of its colour and pattern."""

REST = "rest"
"""Time that no part explains."""

MOST_BARS = 12
"""Most sizes whose calls are shown in parts; the table has all sizes."""


def need() -> None:
    """Check that jinja2 and matplotlib are installed.

    Raises:
        UnfitError: one of them is missing.
    """
    with packages_of("report", "The HTML report needs"):
        import jinja2  # noqa: F401
    drawn.need()


def report(runs: Sequence[ExportedRun]) -> Iterator[bytes]:
    """Yield the HTML page.

    Raises:
        UnfitError: jinja2 or matplotlib is not installed.
    """
    need()
    import jinja2

    source = resources.files(__package__).joinpath(TEMPLATE).read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.from_string(source).render(runs=[_section(run, index) for index, run in enumerate(runs)])
    yield page.encode("utf-8", "replace")


def _section(run: ExportedRun, index: int) -> dict[str, Any]:
    state = run.state
    table = full_table(state, state.rows.values())
    drawings, lines = list(_charts(state, index)), run.sentences
    # The only chart has the sentences of the run beside it; each of several has its own.
    is_single, codes = len(drawings) == 1, code_lines(state)
    if is_single:
        drawings[0]["sentences"] = lines[1:]
    return {
        "name": codes[0] if len(codes) == 1 else run.name,
        "run_id": run.started.run_id,
        "simulated": state.simulated,
        "heading": heading(state),
        "when": when(state, run.status),
        "answer": lines[0] if lines and len(drawings) < 2 else "",
        "sentences": lines if len(drawings) > 1 else [] if is_single else lines[1:],
        "code": codes if len(codes) > 1 else [],
        "receipt": run_receipt(state),
        "marks": mark_lines(state),
        "heads": [(head, is_words(key)) for key, head in table.headings.items()],
        "rows": [[(line[key], is_words(key)) for key in table.headings] for line in table.lines],
        "matrices": [
            (matrix.title, matrix.heads, [(row[0], row[1:]) for row in matrix.rows]) for matrix in matrices(state)
        ],
        "charts": drawings,
        **_survey(state, index),
        "state_heads": STATE_HEADS,
        "states": device_states(state),
        **_card(state),
        **_claims(state),
        "facts": [(key, _fact(value)) for key, value in run.started.environment.items()],
        "devices": [(device.name, device.label) for device in state.devices],
    }


def _survey(state: RunState, index: int) -> dict[str, Any]:
    """Return picture and table of a survey."""
    chart = survey_chart(state)
    cells = [{name: text for name, text in each.items() if name != PICTURE} for each in answer_cells(state)]
    return {
        "survey": () if chart is None else _drawn(chart, f"{index} survey"),
        "survey_heads": list(cells[0]) if cells else [],
        "survey_rows": [list(each.values()) for each in cells],
    }


def _drawn(chart: SweepChart | SurveyChart, salt: str) -> tuple[Any, Any]:
    """Return a chart as SVG for wide and for narrow pages."""
    import markupsafe

    # Not escaped: the SVG is made here, and matplotlib escapes its texts.
    wide, narrow = (
        markupsafe.Markup(drawn.inline_svg(chart, f"{salt} {is_narrow}", is_narrow=is_narrow))
        for is_narrow in (False, True)
    )
    return wide, narrow


def _charts(state: RunState, index: int) -> Iterator[dict[str, Any]]:
    """Yield each chart as SVG for wide and for narrow pages, with the parts of its calls."""
    for place, (sweep, chart) in enumerate(charts(state)):
        wide, narrow = _drawn(chart, f"{index} {place}")
        yield {
            "name": chart.name, "sentences": chart.sentences, "wide": wide, "narrow": narrow,
            "is_sweep": chart.is_sweep, "breakdowns": _breakdowns(state, sweep),
        }  # fmt: skip


# ------------------------------------------------------------------ where the time goes


_BreakdownRow = tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]
"""Size, time of the call, (CSS class, width in percent) of each part of the bar, and the shares as text."""


def _breakdowns(state: RunState, sweep: SweepKey) -> list[dict[str, Any]]:
    """Return the calls of a sweep in parts: with inputs on the GPU, and with copies.

    `parts` holds (name, CSS class) of each column, `rows` a `_BreakdownRow` for each size.
    """
    rows = _some([row for row in finished_rows(state, sweep) if row.gpu is not None])
    which = f", {rows[0].gpu.device}" if rows and rows[0].gpu is not None and len(state.gpus) > 1 else ""
    found = []
    for title, moved in ((f"Inputs on the GPU{which}", False), (f"Including copies{which}", True)):
        known = [(row, parts) for row in rows if (parts := decomposition_of(row, moved=moved)) is not None]
        if known:
            heads = [(name, PARTS[name]) for name, _ in known[0][1].parts]
            if any(abs(parts.share(parts.rest_ns)) >= costs.LEAST_REST for _, parts in known):
                heads.append((REST, REST))
            rows_of = [_line(row, parts, len(heads)) for row, parts in known]
            found.append({"title": title, "parts": heads, "rows": rows_of})
    return found


def _some(rows: Sequence[Row]) -> list[Row]:
    """Return at most `MOST_BARS` rows with the first and the last, evenly chosen."""
    if len(rows) <= MOST_BARS:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (MOST_BARS - 1))] for place in range(MOST_BARS)]


def _line(row: Row, found: costs.Decomposition, columns: int) -> _BreakdownRow:
    rest_ns = found.rest_ns
    parts = [*((PARTS[name], ns) for name, ns in found.parts), (REST, max(rest_ns, 0.0))]
    whole = sum(ns for _, ns in parts)  # more than the call if its parts overlap
    bar = tuple((name, f"{100 * ns / whole:.2f}") for name, ns in parts if ns > 0)
    shares = [*(found.share(ns) for _, ns in found.parts), found.share(rest_ns)]
    texts = [f"{'−' if share < 0 else ''}{percent(abs(share))} %" for share in shares]
    return size_text(row.case.size), time_text(found.measured_ns), bar, tuple(texts[:columns])


# ------------------------------------------------------------------ machine and claims


def _card(state: RunState) -> dict[str, Any]:
    """Return the peak rates that the run knows."""
    known = newest(state.plan.ceilings)
    cpu = next((each for each in known if each.device == "cpu"), None)
    gpu = next((each for each in known if each.device != "cpu"), None)
    return {
        "card_heads": [each.device for each in known],
        "card": peak_rates(known),
        "card_sentences": card_sentences(cpu, gpu) if cpu and gpu else [],
    }


def _claims(state: RunState) -> dict[str, Any]:
    """Return the claims that this run decides, and how many it does not."""
    judged = judge_all(numbers_of(points_of(state), (), newest(state.plan.ceilings), simulated=state.simulated))
    known = [each for each in judged if each.outcome != OUTDATED and not each.is_open and each.sources]
    lines = [(each.claim.publication, each.claim.sentence, each.outcome, each.here) for each in known]
    return {"claims": lines, "open_claims": sum(each.is_open for each in judged)}


def _fact(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return str(to_plain(value))
