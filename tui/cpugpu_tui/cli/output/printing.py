"""Text and JSON on stdout. Every command imports this: keep it light."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.errors import CpuGpuError, shown

if TYPE_CHECKING:
    from rich.console import Console

    from cpugpu_tui.state.state import RunState


def shown_lines(text: str) -> str:
    """Return lines of text with control characters escaped."""
    return "\n".join(map(shown, text.split("\n")))


def tell(text: str) -> None:
    """Print lines on stdout with control characters escaped."""
    print(shown_lines(text))


def print_lines(out: Console, lines: Iterable[str]) -> None:
    """Print lines that are never broken, in characters that stdout can show."""
    for line in lines:
        out.print(plain(line), soft_wrap=True)


def unicode() -> bool:
    """Return whether stdout shows more than ASCII. For a terminal, the app's rule decides.

    Python's encoding is not enough: under LC_ALL=C it is UTF-8 (PEP 540), although the app itself uses ASCII there.
    """
    encoding = sys.stdout.encoding or ""
    if sys.stdout.isatty():
        from cpugpu_tui.render.capabilities import capabilities

        return capabilities(os.environ, encoding, isatty=True, size=(80, 24)).utf8
    return "utf" in encoding.lower()


def plain(text: str) -> str:
    """Return text in characters that stdout can show."""
    return text if unicode() else text.translate(IN_ASCII).encode("ascii", "replace").decode()


IN_ASCII = str.maketrans(
    {"×": "x", "±": "+-", "≈": "~", "≤": "<=", "–": "-", "·": "-", "µ": "u", "…": "...", "░": ".", "▓": "=", "█": "#",
     "│": "|"}
)  # fmt: skip


# ------------------------------------------------------------------ JSON, one object per line


def print_json(data: dict[str, Any]) -> None:
    """Print one JSON object on a line."""
    print(json.dumps(data, allow_nan=False))


def print_line(data: dict[str, Any]) -> None:
    """Print a JSON object at once, in order with events: both bypass the buffer of Python's text layer."""
    _write(json.dumps(data, allow_nan=False).encode() + b"\n")


def print_event(event: model.Event) -> None:
    """Print one event as a line, without buffering."""
    from cpugpu_tui.transport.agent_output import encode

    _write(encode(event))


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def print_answer(state: RunState, **host: str) -> None:
    """Print the run's answer as a line of JSON. It is derived from the events and never read back."""
    from cpugpu_tui.render.answers import as_data, survey_data
    from cpugpu_tui.state.condition import conditions_data
    from cpugpu_tui.state.recorded_gpu import with_recorded

    state = with_recorded(state)
    host |= {model.RECORDED: state.gpu.label} if state.gpu is not None and state.gpu.name == model.RECORDED else {}
    found = {"sweeps": as_data(state), "survey": survey_data(state), "machine": conditions_data(state)}
    _write(json.dumps({**host, "event": "Answer", **found}).encode() + b"\n")


@contextmanager
def failure_as_event(*, as_json: bool) -> Iterator[None]:
    """With --json, print a failure as the `RunFinished` of a run that could not begin, and raise it again."""
    try:
        yield
    except CpuGpuError as error:
        if as_json:
            from cpugpu_tui.session.endings import failed_by

            print_event(failed_by(error))
        raise
