"""The status line: what runs, how far it is, how long it takes, and in which interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.model import CALIBRATION, Progressed
from cpugpu_tui.model.quantities import duration, size_text
from cpugpu_tui.render.progress import bar, left_text, points_text
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import PicturePane, spelled
from cpugpu_tui.ui.panes.telemetry.wording import stranger
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans, plain, width_of

LONG_STEP_S = 2.0
"""An operation longer than this has its own clock in the line, which then moves once a second."""


class StatusPane(PicturePane):
    """One line at the top."""

    def draw(self, picture: Picture, size: Size) -> Sequence[Spans]:
        """Return the line: what must be said left, where it runs right, as far as both fit."""
        return (status_line(picture, size.width, self.glyphs),)


def status_line(picture: Picture, width: int, glyphs: Glyphs) -> Spans:
    """Return the status line, exactly `width` cells wide unless the left side alone is wider."""
    said = _said(picture, width, glyphs) if picture.said and not picture.quitting else ()
    now = said or _joined([_doing(picture, glyphs), _step(picture, glyphs)])
    left = _joined([tags(picture), _count(picture, glyphs), now])
    if not said:
        left = _joined([left, _notices(picture, glyphs, width - width_of(left) - 1)])
    for right in (*_places(picture, glyphs), ""):
        room = width - width_of(left) - len(right)
        if room >= 2 or not right:
            return (*left, (" " * max(room, 0), "text"), (right, "muted"))
    return left


def _said(picture: Picture, width: int, glyphs: Glyphs) -> Spans:
    """Return what came of the last key; it takes the place of everything but the tags, and an ellipsis says more."""
    text, room = spelled(picture.said, glyphs), width - width_of(tags(picture)) - 1
    if len(text) > room > len(glyphs.ellipsis):
        text = text[: room - len(glyphs.ellipsis)] + glyphs.ellipsis
    return ((text, "strong"),)


def tags(picture: Picture) -> Spans:
    """Return what must never be overlooked about the numbers."""
    spans: list[tuple[str, str]] = [*past_tag(picture), *replay_tag(picture)]
    if picture.simulated:
        spans += [(" SIMULATED ", "tag")]
    if picture.worker != "process":
        spans += [(f" worker: {picture.worker} ", "tag")]
    return tuple(spans)


def _count(picture: Picture, glyphs: Glyphs) -> Spans:
    """Return how many runs have been typed, and what to do with them."""
    if not picture.count:
        return ()
    runs = f"{picture.count} run{'s' if picture.count > 1 else ''}"
    return (
        (f"{runs}: ", "strong"),
        (picture.keymap.of("run"), "key"),
        (" starts, ", "text"),
        (picture.keymap.of("back"), "key"),
        (f" drops {glyphs.dot}", "text"),
    )


def replay_tag(picture: Picture) -> Spans:
    """Return that this is a recording, if it is one."""
    return ((f" {picture.replay_tag} ", "tag"),) if picture.replay_tag else ()


def past_tag(picture: Picture) -> Spans:
    """Return which saved run is shown, if one is: it must never look like a live one."""
    return ((f" {picture.past.text} ", "tag"), (" ", "text")) if picture.past is not None else ()


def _doing(picture: Picture, glyphs: Glyphs) -> Spans:
    """Return the name of the run with its progress, or that nothing runs."""
    run, situation = picture.run, picture.situation
    name = run.run.plan.name if run.run is not None else "+".join(picture.request.names)
    if picture.quitting:
        return (("quitting: the run is being stopped", "strong"),)
    if picture.past is not None:
        return _past(picture, glyphs)
    if picture.replay:
        return ((spelled(picture.replay, glyphs), "title"),)
    if picture.calibrating:
        return (
            ("measuring the machine ", "title"), (f"{glyphs.dot} ", "muted"), calibration_step(picture)
        )  # fmt: skip
    ended = situation.demo and run.finished is not None  # the next recorded run comes in a moment
    if situation.live and not ended and (run.run is None or run.finished is not None):
        return ((f"{name} ", "title"), ("starting" if picture.agent_ready else "starting the agent", "text"))
    if situation.live and not ended:
        state = "stopping" if situation.stopping else "paused" if situation.paused else ""
        series = f"run {picture.repeat_number} of {picture.repeats}" if picture.repeats > 1 else ""
        left = _time_left(picture) if not state else ""
        return (
            (f"{name} ", "title"),
            *_bar(picture, glyphs),
            (points_text(run), "strong"),
            *((f" {glyphs.dot} {part}", "warn" if part == state else "text") for part in (state, left, series) if part),
        )
    if run.finished is not None:
        glyph, role = status_sign(run.status, glyphs)
        number = f" {glyphs.dot} run {run.run.number}" if run.run is not None and run.run.number is not None else ""
        number += (
            f" {glyphs.dot} run {picture.repeat_number} of {picture.repeats}"
            if situation.demo and picture.repeats > 1
            else ""
        )
        failed = f" {glyphs.dot} {run.failed} failed" if run.failed else ""
        return (
            (f"{name} ", "title"),
            (f"{glyph} {run.status}", role),
            (f" {points_text(run)}{failed}{number}", "text"),
            *_baseline(picture, glyphs),
        )
    if picture.problem is not None and not (picture.agent_ready and picture.environment.get("torch")):
        return (("cpugpu-tui ", "title"), ("cannot run", "bad"))
    return (("cpugpu-tui ", "title"), ("ready" if picture.agent_ready else "starting the agent", "muted"))


def _past(picture: Picture, glyphs: Glyphs) -> Spans:
    """Return name, end and cases of the saved run that is shown."""
    assert picture.past is not None
    run, status = picture.run, picture.past.summary.status
    sign, role = status_sign(status, glyphs)
    failed = f" {glyphs.dot} {run.failed} failed" if run.failed else ""
    return (
        (f"{stranger(spelled(picture.past.summary.name, glyphs), 40, glyphs)} ", "title"),
        (f"{sign} {status}", role),
        (f" {run.settled}/{len(run.rows)}{failed}", "text"),
        *_baseline(picture, glyphs),
    )


def _baseline(picture: Picture, glyphs: Glyphs) -> Spans:
    """Return how the series on the screen stands to the baseline, as far as that is known."""
    series_id, text = picture.baseline
    if not text or picture.run.run is None or picture.run.run.series_id != series_id:
        return ()
    return ((f" {glyphs.dot} {spelled(text, glyphs)}", "text"),)


def status_sign(status: str, glyphs: Glyphs) -> tuple[str, str]:
    """Return the sign of how a run ended, and its role."""
    signs = {
        "done": (glyphs.yes, "good"), "stopped": (glyphs.dot, "warn"), "running": (glyphs.arrow, "strong"),
        "interrupted": ("!", "warn"),
    }  # fmt: skip
    return signs.get(status, (glyphs.no, "bad"))


def calibration_step(picture: Picture) -> tuple[str, str]:
    """Return what is being measured for the machine card, or that it waits."""
    situation = picture.situation
    if situation.stopping or situation.paused:
        return ("stopping" if situation.stopping else "paused", "warn")
    return (picture.calibrating, "text")


def _time_left(picture: Picture) -> str:
    current = picture.run.current
    if current is None or current.seconds_left is None:
        return ""
    return left_text(picture.run, current.seconds_left - picture.step_s)


def _bar(picture: Picture, glyphs: Glyphs) -> Spans:
    """Return how much of the run is done, as a bar."""
    done, rest = bar(picture.run, glyphs.full, glyphs.empty)
    return ((done, "key"), (f"{rest} ", "muted"))


def _step(picture: Picture, glyphs: Glyphs) -> Spans:
    """Return what the agent is doing, with its own clock when it takes long."""
    current = picture.run.current
    if current is None or not picture.situation.live or picture.situation.paused or picture.situation.stopping:
        return ()
    if current.phase == CALIBRATION:
        return ((f"{glyphs.dot} measuring {current.note}", "text"),)
    clock, elapsed_s = "", picture.step_s + (current.elapsed_s or 0.0)
    if elapsed_s >= LONG_STEP_S or (current.estimate_s or 0) >= LONG_STEP_S:
        of = f" of about {duration(current.estimate_s)}" if current.estimate_s else ""
        clock = f" {duration(elapsed_s)}{of}"
    note = f" {glyphs.dot} {current.note}" if current.note else ""
    doing = f"{step_text(picture, current)}{clock}{note}"  # empty in a gap between two cases
    return ((f"{glyphs.dot} {doing}", "muted"),) if doing else ()


def step_text(picture: Picture, current: Progressed) -> str:
    """Return `matmul 512 GPU round 3`."""
    row = picture.run.rows.get(current.case)
    case = f"{row.case.workload} {size_text(row.case.size)}" if row is not None else current.case
    device = {"": "", "cpu": " CPU"}.get(current.device, " GPU")
    name = "round" if current.phase == "gap" else current.phase
    phase = f"{name} {current.round_index}" if current.round_index else name if name != "round" else ""
    return f"{case}{device} {phase}".rstrip()


def _notices(picture: Picture, glyphs: Glyphs, width: int) -> Spans:
    """Return what a person should know all the time; what is too long for the line says what it is about."""
    past = picture.past
    shown = picture.notice if past is None or picture.notice != past.notice else None
    said: list[tuple[str, str]] = []
    unsaved = picture.unsaved.text if picture.unsaved else None
    for text in (unsaved or shown, spelled(picture.theme_notice, glyphs)):
        room = max(width - width_of(tuple(said)) - len(said) // 2 - 2, 8)
        if text:
            brief = text.partition(": ")[0] if len(text) > room else text
            said += [(f"{' ' if said else ''}{glyphs.dot} ", "muted"), (stranger(brief, room, glyphs), "warn")]
    return tuple(said)


def _places(picture: Picture, glyphs: Glyphs) -> list[str]:
    """Return interpreter and torch build, longest form first; of a replay what was recorded, as much as fits."""
    if picture.replay_of:
        parts = picture.replay_of.split(" · ")  # the most telling first
        return [spelled(" · ".join(parts[:count]), glyphs) for count in range(len(parts), 0, -1)]
    environment = (picture.run.run.environment if picture.run.run is not None else None) or picture.environment
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
