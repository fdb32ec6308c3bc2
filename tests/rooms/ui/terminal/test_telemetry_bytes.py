"""Bytes per second that eight live GPUs write to a real pseudo-terminal."""

import re
import signal
import sys
import time

import pytest
from tests.helpers.app.pty_app import REAL_APP, PtyApp
from tests.helpers.command_line import ROOT

SWEEPS = 60
"""Readings before bytes are counted, so that histories are full and all of their cells change."""
COUNTED = 5
LIMIT = 6000
"""Most bytes per second with eight GPUs at 200×60, one reading per second."""


@pytest.fixture
def app(request):
    columns, rows = request.param
    with PtyApp(
        [sys.executable, "-m", "tests.helpers.app.telemetry_app", "8"], columns=columns, rows=rows, cwd=ROOT
    ) as started:
        started.until_text("GPU 7")
        started.bytes_until_quiet()
        yield started


def bytes_of_a_sweep(app, sweeps=SWEEPS, counted=COUNTED):
    """Return the mean bytes of one reading; `counted` covers whole steps of the histories."""
    for _ in range(sweeps):
        app.signal(signal.SIGUSR1)
        assert app.bytes_until_quiet(0.02) >= 0
    app.bytes_until_quiet()
    before = len(app.output)
    for _ in range(counted):
        seen = len(app.output)
        app.signal(signal.SIGUSR1)
        app.until(lambda app, seen=seen: len(app.output) > seen)  # type: ignore[misc] # a busy machine paints late
        app.bytes_until_quiet()
    return (len(app.output) - before) / counted


@pytest.mark.parametrize("app", [(200, 60)], indirect=True)
def test_eight_gpus_in_the_column_stay_within_six_kilobytes_a_second(app):
    written = bytes_of_a_sweep(app)
    print(f"{written:.0f} bytes a sweep")
    assert written <= LIMIT


def test_a_run_beside_eight_gpus_of_the_real_library_stays_within_it(fake_nvml, tmp_path):
    """With everything between driver and terminal, during a run that updates its rows."""
    fake_nvml.set("count", 8)
    environment = {key: fake_nvml.environment[key] for key in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")}
    command = [sys.executable, REAL_APP, tmp_path, "2.0", "watched", "endless"]
    with PtyApp(command, columns=200, rows=60, env=environment) as app:
        app.until_text("ready")
        app.until_text("GPU 7")
        app.send("r")
        app.until(lambda app: re.search(r"[1-9] of \d", app.text) is not None)
        begun_s, before = time.monotonic(), len(app.output)
        for second in range(COUNTED):
            for gpu in range(8):
                fake_nvml.set("active", (37 * second + 11 * gpu) % 101, gpu)
                fake_nvml.set("used", 10**9 * (2 + (7 * second + gpu) % 90), gpu)
                fake_nvml.set("temperature", 40 + (second + gpu) % 40, gpu)
                fake_nvml.set("field:186", 1000 * (200 + (67 * second + 31 * gpu) % 500), gpu)
            app.bytes_during(1.0)
        bytes_per_s = (len(app.output) - before) / (time.monotonic() - begun_s)
        print(f"{bytes_per_s:.0f} bytes a second")
        assert bytes_per_s <= LIMIT
        app.until(lambda app: len(app.output) >= before + 500 * COUNTED)  # what was set has come to the screen
