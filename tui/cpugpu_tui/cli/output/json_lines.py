"""JSON on stdout, one object per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import CpuGpuError

if TYPE_CHECKING:
    from cpugpu_tui.model import Event
    from cpugpu_tui.state.state import RunState


def print_json(data: dict[str, Any]) -> None:
    """Print one JSON object on a line."""
    print(json.dumps(data, allow_nan=False))


def print_line(data: dict[str, Any]) -> None:
    """Print a JSON object at once, in order with events: both bypass the buffer of Python's text layer."""
    sys.stdout.buffer.write(json.dumps(data, allow_nan=False).encode() + b"\n")
    sys.stdout.buffer.flush()


def print_event(event: Event) -> None:
    """Print one event as a line, without buffering."""
    from cpugpu_tui.transport.wire import encode

    sys.stdout.buffer.write(encode(event))
    sys.stdout.buffer.flush()


def print_answer(state: RunState, **host: str) -> None:
    """Print the run's answer as a line of JSON. It is derived from the events and never read back."""
    from cpugpu_tui.model.quantities import with_micro
    from cpugpu_tui.render.answers import as_data, survey_data
    from cpugpu_tui.state.condition import conditions_data

    found = {"sweeps": as_data(state), "survey": survey_data(state), "machine": conditions_data(state)}
    answer = with_micro({**host, "event": "Answer", **found})
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")


@contextmanager
def failure_as_event(*, as_json: bool) -> Iterator[None]:
    """With --json, print a failure as the `RunFinished` of a run that could not begin, and raise it again."""
    try:
        yield
    except CpuGpuError as error:
        if as_json:
            from cpugpu_tui.model import RunFinished

            print_event(
                RunFinished(status="failed", message=error.message, remedy=error.remedy, exit_code=error.exit_code)
            )
        raise
