"""The first line (the run with its progress and time left, notices, the interpreter) and the last one (the keys)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from textual.binding import Binding
from textual.geometry import Size
from textual.screen import Screen

from cpugpu_tui import model
from cpugpu_tui.model.quantities import count_of, duration, size_text
from cpugpu_tui.render.progress import bar, done_text, left_text, most_cases_of
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.keys import COMMAND_BY_ID, COMMANDS, DEFAULT_KEYMAP, Command, Keymap, Situation, key_name, label
from cpugpu_tui.ui.panes.lines import Spans, StatePane, cut, fitted, plain, sanitized, spelled, visible, width_of

SMALL_WIDTH = 60
"""Below this width the first line shows progress as `3/14 0:12 left`."""
LEAST_NOTICE = 16
"""Fewest cells of a notice that is cut. The answer pane has the whole one."""
LONG_STEP_S = 2.0
"""The line shows the elapsed time of an operation that takes longer than this, once a second."""


class StatusPane(StatePane):
    """One line at the top."""

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the line: run and notices on the left, torch and Python on the right if they fit."""
        return (status_line(state, size.width, self.glyphs),)


def status_line(state: AppState, width: int, glyphs: Glyphs) -> Spans:
    """Return the status line, exactly `width` cells wide unless the left side alone is wider."""
    result: Spans = ()
    if state.key_result and not state.quitting:  # replaces everything else beside the tags
        result = fitted(((spelled(state.key_result, glyphs), "strong"),), width - width_of(tags(state)) - 1, glyphs)
    now = result or _joined([_doing(state, glyphs), _step(state, glyphs)])
    if width < SMALL_WIDTH and not result and state.situation.live:
        now = _progress(state, width - width_of(tags(state)) - 1, glyphs) or now
    counted = _count(state, glyphs)
    if width_of(_joined([tags(state), counted])) > width:
        counted = counted[:1]  # the keys that start or cancel them
    before = _joined([tags(state), counted])
    left = _joined([before, now if result else _whole_parts(now, width - width_of(before) - 1, glyphs)])
    if not result:
        left = _joined([left, _notices(state, glyphs, width - width_of(left) - 1)])
    for right in (*_places(state, glyphs), ""):
        room = width - width_of(left) - len(right)
        if room >= 2 or not right:
            return (*left, (" " * max(room, 0), "text"), (right, "muted"))
    return left


def _whole_parts(line: Spans, width: int, glyphs: Glyphs) -> Spans:
    """Return the parts of a line that fit, without those behind a dot that would be cut."""
    spans = list(line)
    while width_of(spans) > width and any(f"{glyphs.dot} " in text for text, _ in spans[1:]):
        text, role = spans.pop()
        kept = text.rpartition(f"{glyphs.dot} ")[0].rstrip()
        spans += [(kept, role)] if kept else []
    return tuple(spans)


def tags(state: AppState) -> Spans:
    """Return the tags that nobody may overlook: saved run, replay, simulation, worker."""
    # A saved run must never look like a live one.
    past: Spans = ((f" {state.past.text} ", "tag"), (" ", "text")) if state.past is not None else ()
    spans: list[tuple[str, str]] = [*past, *replay_tag(state)]
    if state.simulated:
        spans += [(" SIMULATED ", "tag")]
    if state.worker != "process":
        spans += [(f" worker: {state.worker} ", "tag")]
    return tuple(spans)


def _count(state: AppState, glyphs: Glyphs) -> Spans:
    """Return how many runs were typed, with the keys that start or cancel them."""
    if not state.asked_runs:
        return ()
    start, cancel = map(state.keymap.of, ("run", "back"))
    return ((f"{count_of(state.asked_runs, 'run')} queued", "strong"), (": ", "strong"), (start, "key"),
            (" start, ", "text"), (cancel, "key"), (f" cancel {glyphs.dot}", "text"))  # fmt: skip


def replay_tag(state: AppState) -> Spans:
    """Return the tag of a replayed recording; empty otherwise."""
    return ((f" {state.replay_tag} ", "tag"),) if state.replay_tag else ()


def _doing(state: AppState, glyphs: Glyphs) -> Spans:
    """Return the name of the run with its progress, or that nothing runs."""
    run, situation = state.run, state.situation
    name = run_name(run, run.run.plan.name, glyphs) if run.run is not None else "+".join(state.request.names)
    if state.quitting:
        return (("quitting: stopping the run", "strong"),)
    if state.past is not None:
        return _past(state, glyphs)
    if state.replay:
        return ((spelled(state.replay, glyphs), "title"),)
    if state.calibrating:
        return (("measuring the machine ", "title"), (f"{glyphs.dot} ", "muted"), calibration_step(state))
    ended = situation.demo and run.finished is not None  # the next recorded run comes in a moment
    if situation.live and not ended and (run.run is None or run.finished is not None):
        return ((f"{name} ", "title"), ("starting" if state.agent_ready else _awaited(state, glyphs), "text"))
    if situation.live and not ended:
        standing, left = _standing(state)
        series = f"run {state.repeat_number} of {state.repeats}" if state.repeats > 1 else ""
        if run.plan.is_of_two_codes and series:
            series = f"pair {state.repeat_number} of at most {state.repeats}"
        done, rest = bar(run, glyphs.full, glyphs.empty)
        return (
            (f"{name} ", "title"),
            (done, "key"), (f"{rest} ", "muted"),
            (done_text(run), "strong"),
            *((f" {glyphs.dot} {part}", "warn" if part == standing else "text")
              for part in (standing, left if not standing else "", series) if part),
        )  # fmt: skip
    if run.finished is not None:
        glyph, role = status_sign(run.status, glyphs)
        number = f" {glyphs.dot} run {run.run.number}" if run.run is not None and run.run.number is not None else ""
        if situation.demo and state.repeats > 1:
            number += f" {glyphs.dot} run {state.repeat_number} of {state.repeats}"
        failed = f" {glyphs.dot} {run.failed} failed" if run.failed else ""
        text = f", {done_text(run)}{failed}{number}"
        return ((f"{name} ", "title"), (f"{glyph} {run.status}", role), (text, "text"), *_baseline(state, glyphs))
    if state.problem is not None and not (state.agent_ready and state.environment.get("torch")):
        return (("cpugpu-tui ", "title"), ("cannot run", "bad"))
    return (("cpugpu-tui ", "title"), ("ready" if state.agent_ready else _awaited(state, glyphs), "muted"))


def _awaited(state: AppState, glyphs: Glyphs) -> str:
    return spelled(state.agent_wait, glyphs) or "starting the agent"


def run_name(run: RunState, name: str, glyphs: Glyphs) -> str:
    """Return the name of a plan or workload; of typed code its statement."""
    return sanitized(visible(model.typed_name(name, run.plan.codes)), 40, glyphs)


def _progress(state: AppState, width: int, glyphs: Glyphs) -> Spans:
    """Return name, bar, cases and time left for a narrow terminal; the bar, then the time goes if room is short."""
    run = state.run
    if run.run is None or run.finished is not None or state.calibrating or state.quitting:
        return ()
    standing, left = _standing(state)
    end = standing or left.removeprefix("at most ")
    done, rest = bar(run, glyphs.full, glyphs.empty)
    name: Spans = ((f"{run_name(run, run.run.plan.name, glyphs)} ", "title"),)
    cases: Spans = ((f"{run.settled}/{most_cases_of(run)}", "strong"),)
    ending: Spans = ((f" {end}", "warn" if standing else "text"),) if end else ()
    forms = ((*name, (done, "key"), (f"{rest} ", "muted"), *cases, *ending), (*name, *cases, *ending), (*name, *cases))
    return next((form for form in forms if width_of(form) <= width), forms[-1])


def _standing(state: AppState) -> tuple[str, str]:
    """Return `stopping` or `paused`, and the time left, each or nothing."""
    current, situation = state.run.current, state.situation
    standing = "stopping" if situation.stopping else "paused" if situation.paused else ""
    if current is None or current.seconds_left is None:
        return standing, ""
    return standing, left_text(state.run, current.seconds_left - state.step_s)


def _past(state: AppState, glyphs: Glyphs) -> Spans:
    """Return name, end and cases of the saved run that is shown."""
    assert state.past is not None
    run, status = state.run, state.past.summary.status
    sign, role = status_sign(status, glyphs)
    failed = f" {glyphs.dot} {run.failed} failed" if run.failed else ""
    name = run_name(run, state.past.summary.name, glyphs)
    cases = f" {run.settled - run.skipped}/{len(run.rows)}{failed}"
    return ((f"{name} ", "title"), (f"{sign} {status}", role), (cases, "text"), *_baseline(state, glyphs))


def _baseline(state: AppState, glyphs: Glyphs) -> Spans:
    """Return how the series on the screen compares with the baseline, if that is known."""
    series_id, text = state.baseline
    if not text or state.run.run is None or state.run.run.series_id != series_id:
        return ()
    return ((f" {glyphs.dot} {spelled(text, glyphs)}", "text"),)


def status_sign(status: str, glyphs: Glyphs) -> tuple[str, str]:
    """Return the sign and the role of a run's status."""
    signs = {
        "done": (glyphs.yes, "good"), "stopped": (glyphs.dot, "warn"), "running": (glyphs.arrow, "strong"),
        "interrupted": ("!", "warn"),
    }  # fmt: skip
    return signs.get(status, (glyphs.no, "bad"))


def calibration_step(state: AppState) -> tuple[str, str]:
    """Return the calibration's current step, or `paused` or `stopping`."""
    standing, _ = _standing(state)
    return (standing, "warn") if standing else (state.calibrating, "text")


def _step(state: AppState, glyphs: Glyphs) -> Spans:
    """Return the agent's current step, with its elapsed time if it takes long."""
    current = state.run.current
    if current is None or not state.situation.live or state.situation.paused or state.situation.stopping:
        return ()
    if current.phase == model.CALIBRATION:
        return ((f"{glyphs.dot} measuring {current.note}", "text"),)
    clock, elapsed_s = "", state.step_s + (current.elapsed_s or 0.0)
    if elapsed_s >= LONG_STEP_S or (current.estimate_s or 0) >= LONG_STEP_S:
        of = f" of about {duration(current.estimate_s)}" if current.estimate_s else ""
        clock = f" {duration(elapsed_s)}{of}"
    note = f" {glyphs.dot} {current.note}" if current.note else ""
    doing = f"{step_text(state, current, glyphs)}{clock}{note}"  # empty in a gap between two cases
    return ((f"{glyphs.dot} {doing}", "muted"),) if doing else ()


def step_text(state: AppState, current: model.Progressed, glyphs: Glyphs) -> str:
    """Return `matmul 512 GPU round 3`."""
    row = state.run.rows.get(current.case)
    case = current.case
    if row is not None:
        case = f"{run_name(state.run, row.case.workload, glyphs)} {size_text(row.case.size)}"
    device = {"": "", "cpu": " CPU"}.get(current.device, " GPU")
    name = "round" if current.phase == "gap" else current.phase
    phase = f"{name} {current.round_index}" if current.round_index else name if name != "round" else ""
    return f"{case}{device} {phase}".rstrip()


def _notices(state: AppState, glyphs: Glyphs, width: int) -> Spans:
    """Return the standing notices. One that does not fit is cut to its first clause, or left out."""
    past = state.past
    shown = state.notice if past is None or state.notice != past.notice else None
    notices: list[tuple[str, str]] = []
    unsaved = state.unsaved.text if state.unsaved else None
    for text in (unsaved or shown, spelled(state.theme_notice, glyphs)):
        room = width - width_of(notices) - len(notices) // 2 - 2
        brief = re.split(": |; ", text or "")[0] if len(text or "") > room else text
        if brief and room >= min(len(brief), LEAST_NOTICE):
            shown_text = cut(sanitized(brief, len(brief), glyphs), min(room, len(brief)), glyphs)
            notices += [(f"{' ' if notices else ''}{glyphs.dot} ", "muted"), (shown_text, "warn")]
    return tuple(notices)


def _places(state: AppState, glyphs: Glyphs) -> list[str]:
    """Return versions of torch and Python, longest form first; in a replay, the recording's summary."""
    if state.replay_of:
        parts = state.replay_of.split(" · ")  # the most important first
        return [spelled(" · ".join(parts[:count]), glyphs) for count in range(len(parts), 0, -1)]
    environment = (state.run.run.environment if state.run.run is not None else None) or state.environment
    torch, python = environment.get("torch"), environment.get("python")
    if not torch:
        return []
    short = f"torch {torch}"
    return [f"{short} {glyphs.dot} python {python}", short] if python else [short]


def _joined(parts: Sequence[Spans]) -> Spans:
    """Return the parts that are not empty with a space between them."""
    joined: list[tuple[str, str]] = []
    for part in parts:
        if plain(part):
            joined += [(" ", "text"), *part] if joined else [*part]
    return tuple(joined)


IMPORTANCE = (
    "run", "pause", "stop", "help", "filter", "chart", "quit", "find", "own-code", "open", "history", "zoom", "claims",
    "machine", "next-theme", "next-pane", "palette", "sort",
)  # fmt: skip
"""Commands of the footer, most important first; at least seven fit into 80 columns. Impossible ones come last."""


IN_SMALL = ("run", "pause", "stop", "help", "quit", "open")
"""Commands that come first below `SMALL_WIDTH`, where there is room for three or four keys."""


class KeysPane(StatePane):
    """One line at the bottom."""

    def on_mount(self) -> None:
        """Let clicks press the keys."""
        self.add_class("keys")

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the line; while the filter has the focus, its keys."""
        if not self.is_mounted:
            return (keys_line(state.situation, size.width, state.keymap),)
        focused = self.screen.focused
        if focused is not None and focused.id == "filter":
            back = state.keymap.of("back")
            return (((" enter", "key"), (" Keep  ", "text"), (back, "key"), (" Show all", "text")),)
        situation = state.situation._replace(zoomed=self.screen.has_class("-zoomed"))
        return (keys_line(situation, size.width, state.keymap, working_keys(self.screen, state.keymap)),)


SELECTS = ("select", "select_cursor")
"""Actions of a list and a table on `enter`."""


def working_keys(screen: Screen[Any], keymap: Keymap) -> dict[str, str]:
    """Return command → its first key that works with the current focus; empty while a dialog is open.

    For example a list uses `k` itself, and a field takes every letter.
    """
    found: dict[str, str] = {}
    if screen.app.screen is not screen:
        return found
    focused = screen.focused
    if focused is None:  # as in the first frame
        return {command.id: keymap.of(command.id) for command in COMMANDS}
    active = screen.active_bindings
    for command in COMMANDS:
        for key in keymap.keys[command.id]:
            name = "comma" if key == "," else next(iter(Binding.make_bindings([Binding(key, "")]))).key
            # Textual's own check misses keys whose name is not their character, such as "slash".
            if len(key) == 1 and focused is not None and focused.check_consume_key(name, key):
                continue
            bound = active.get(name)
            action = bound.binding.action.removeprefix("app.") if bound is not None else ""
            if action == command.action or (command.id == "open" and action in SELECTS):
                found.setdefault(command.id, key_name(key))
    return found


def keys_line(
    situation: Situation, width: int, keymap: Keymap = DEFAULT_KEYMAP, working: Mapping[str, str] | None = None
) -> Spans:
    """Return the keys that fit into `width` cells: the most important commands, in the order of `COMMANDS`.

    `working` maps each command to a key that works now; None for all in the keymap.
    """
    if working is None:
        working = {command.id: keymap.of(command.id) for command in COMMANDS}
    fitting: list[Command] = []
    used = 1
    # The keys that leave a saved run and the zoom come first.
    first = (*(("history",) if situation.past else ()), *(("zoom",) if situation.zoomed else ()))
    names = dict.fromkeys((*first, *(IN_SMALL if width < SMALL_WIDTH else ()), *IMPORTANCE))
    commands = [COMMAND_BY_ID[name] for name in names if name in working]
    for command in sorted(commands, key=lambda command: not command.possible(situation)):
        name = command.id
        used += len(working[name]) + 1 + len(label(command, situation)) + (2 if fitting else 0)
        if used > width:
            break
        fitting.append(command)
    spans: list[tuple[str, str]] = []
    for command in sorted(fitting, key=COMMANDS.index):
        possible = command.possible(situation)
        spans += [("  " if spans else " ", "text"), (working[command.id], "key" if possible else "muted")]
        spans += [(f" {label(command, situation)}", "text" if possible else "muted")]
    return tuple(spans)
