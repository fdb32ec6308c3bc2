"""JSON on stdout, one object a line."""

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
    """Print an object past Python's text layer, which would hold it back behind the events that go past it."""
    sys.stdout.buffer.write(json.dumps(data, allow_nan=False).encode() + b"\n")
    sys.stdout.buffer.flush()


def print_event(event: Event) -> None:
    """Print one event as a line, at once."""
    from cpugpu_tui.transport.wire import encode

    sys.stdout.buffer.write(encode(event))
    sys.stdout.buffer.flush()


def print_answer(state: RunState, **host: str) -> None:
    """Print what the run says as a line of JSON; it is derived, so it is no event and nothing reads it back."""
    from cpugpu_tui.model.quantities import with_micro
    from cpugpu_tui.render.answers import as_data
    from cpugpu_tui.state.condition import conditions_data

    said = with_micro({**host, "event": "Answer", "sweeps": as_data(state), "machine": conditions_data(state)})
    sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")


@contextmanager
def failure_as_event(*, as_json: bool) -> Iterator[None]:
    """With --json, print a failure as the `RunFinished` of a run that could not begin; it goes on as an exception."""
    try:
        yield
    except CpuGpuError as error:
        if as_json:
            from cpugpu_tui.model import RunFinished

            print_event(
                RunFinished(status="failed", message=error.message, remedy=error.remedy, exit_code=error.exit_code)
            )
        raise
