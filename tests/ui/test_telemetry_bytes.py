"""What eight live GPUs cost on the line, on a real pseudo-terminal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pty_app import PtyApp

SCRIPT = Path(__file__).parent / "telemetry_app.py"
SWEEPS = 60
"""Readings before bytes are counted: by then the histories of a column are full, and all of their cells move."""
COUNTED = 5


@pytest.fixture
def app(request: pytest.FixtureRequest) -> Iterator[PtyApp]:
    columns, rows = request.param
    with PtyApp([sys.executable, SCRIPT, "8"], columns=columns, rows=rows) as started:
        started.until_text("GPU 7")
        started.bytes_until_quiet()
        yield started


def bytes_of_a_sweep(app: PtyApp) -> float:
    """Mean bytes of one sweep, of which there is one a second."""
    for _ in range(SWEEPS):
        app.signal(signal.SIGUSR1)
        assert app.bytes_until_quiet(0.02) >= 0
    app.bytes_until_quiet()
    before = len(app.output)
    for _ in range(COUNTED):
        app.signal(signal.SIGUSR1)
        assert app.bytes_until_quiet() > 0
    return (len(app.output) - before) / COUNTED


@pytest.mark.parametrize("app", [(200, 60)], indirect=True)
def test_eight_gpus_in_the_column_stay_within_six_kilobytes_a_second(app: PtyApp) -> None:
    written = bytes_of_a_sweep(app)
    print(f"{written:.0f} bytes a sweep")
    assert written <= 6000


@pytest.mark.parametrize("app", [(200, 60)], indirect=True)
def test_a_page_of_one_gpu_stays_within_it_too(app: PtyApp) -> None:
    app.send("\t\tz")
    app.until_text("kept by the driver")
    written = bytes_of_a_sweep(app)
    print(f"{written:.0f} bytes a sweep")
    assert written <= 6000
