"""A driver that hangs costs the app nothing but new readings."""

import sys

from tests.helpers.app.pty_app import REAL_APP, PtyApp


def test_a_simulated_machine_shows_nothing_of_this_one(fake_nvml, tmp_path):
    """Real readings beside simulated times would look as if they belonged together."""
    env = {name: fake_nvml.environment[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE", "FAKE_NVML_CALLS")}
    with PtyApp([sys.executable, REAL_APP, tmp_path], columns=120, rows=40, env=env) as app:
        app.until_text("simulated GPU")
        app.until_text("GPU-SIM0")
        assert "H200" not in app.text
        app.quit()
    assert fake_nvml.calls() == []


def test_keys_runs_and_quitting_live_on_while_the_driver_hangs(fake_nvml, tmp_path):
    env = {name: fake_nvml.environment[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE", "FAKE_NVML_CALLS")}
    with PtyApp([sys.executable, REAL_APP, tmp_path, "0", "watched"], columns=120, rows=40, env=env) as app:
        app.until_text("NVML 1")
        fake_nvml.set("hang:nvmlDeviceGetClockInfo", 1)
        app.until_text("not answered")
        app.until_text("NVML 1")  # the last values stay
        app.send("?")
        app.until_text("Keys of the")
        app.send("\x1b")
        app.until_text("not answered")
        app.send("r")
        app.until_text("The GPU wins")
        app.until_text("Run again")
        app.bytes_until_quiet()  # the series ends after the run that the table shows; before that, q would ask
        app.quit()
