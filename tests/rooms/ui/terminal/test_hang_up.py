"""When the terminal of a command is closed, its run is stopped and saved, and the exit code is that of SIGHUP."""

import json

import pytest
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.command_line import COMMAND, FAST

LONG = ("matmul", "--size", "64:1064:1", "--simulate", f"{FAST},pace=1")
PATIENCE_S = 60.0


@pytest.mark.parametrize(
    "command",
    [("run", *LONG), ("run", "--json", *LONG), ("fleet", "run", "-w", "n1", "--launcher", "local", "--json", *LONG)],
    ids=["run", "run --json", "fleet run"],
)
def test_a_closed_terminal_ends_a_run_in_order(cpugpu, tmp_path, command):
    exported = tmp_path / "run.json"
    words = [*COMMAND, *command, "--export", exported]
    with PtyApp(words, env={"CPUGPU_DB": str(cpugpu.database), "CPUGPU_SIMULATE": None}) as app:
        app.until_bytes(b"CaseFinished" if "--json" in command else b"1 of 1000 cases", deadline_s=PATIENCE_S)
        app.hang_up()
        assert app.exit_code(PATIENCE_S) == 129
    (run,) = cpugpu.here("history", "--json").objects
    assert run["status"] == "stopped"
    assert run["cases_ok"] >= 1
    assert json.loads(exported.read_text())


def test_with_nohup_a_closed_terminal_ends_nothing(cpugpu):
    """The same holds for SIGINT, which background jobs of a shell ignore."""
    short = ("run", "matmul", "--size", "64:70:1", "--simulate", f"{FAST},pace=0.5")
    words = ["sh", "-c", 'trap "" HUP INT; exec "$@"', "sh", *COMMAND, *short]
    with PtyApp(words, env={"CPUGPU_DB": str(cpugpu.database), "CPUGPU_SIMULATE": None}) as app:
        app.until_bytes(b"1 of 6 cases", deadline_s=PATIENCE_S)
        app.send("\x03")
        app.hang_up()
        assert app.exit_code(PATIENCE_S) == 0
    (run,) = cpugpu.here("history", "--json").objects
    assert (run["status"], run["cases_ok"]) == ("done", 6)
