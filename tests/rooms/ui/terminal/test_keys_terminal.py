"""Configured keys, palette and clipboard on a real pseudo-terminal."""

import base64
import re
import sys

from tests.helpers.app.pty_app import PtyApp

SIMULATED = [sys.executable, "-m", "cpugpu_tui", "--simulate", "default", "--no-save"]


def configured(folder, text):
    """Return an environment with this config file."""
    path = folder / "config" / "cpugpu-tui" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}


def test_keys_of_the_config_work_where_a_terminal_sends_them(tmp_path):
    env = configured(tmp_path, '[keys]\nhelp = "f1"\nnext-theme = "alt+t"\nmachine = "ctrl+b"\nquit = "Q"\n')
    with PtyApp(SIMULATED, columns=80, rows=24, env=env) as app:
        app.until_text("f1 Help")
        app.send("\x1bOP")
        app.until_text("Keys of the workload")
        app.send("\x02")
        app.until_text("Machine card")
        app.send("Q")
        assert app.exit_code() == 0


def test_the_palette_runs_a_preset_and_the_command_that_repeats_it_reaches_the_terminal_through_tmux(tmp_path):
    env = {**configured(tmp_path, ""), "TMUX": "/tmp/tmux,1,0", "TERM": "tmux-256color"}
    with PtyApp([*SIMULATED, "--worker", "thread"], columns=80, rows=24, env=env) as app:
        app.until_text("ready")
        app.send(":")
        app.until_text("Commands")
        app.send("run quick\r")
        app.until_text("✓ done")
        app.send("C")
        app.until_text("Copied")
        plain, envelope = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\a", bytes(app.output))
        assert plain == envelope
        assert base64.b64decode(plain).startswith(b"cpugpu-tui run quick")
        assert b"\x1bPtmux;\x1b\x1b]52;c;" in app.output
        app.quit()
