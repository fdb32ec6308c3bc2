"""How `cpugpu-tui telemetry` ends: by ctrl+c, by a reader that goes away, on a full disk."""

import json
import resource
import signal
import subprocess

from tests.helpers.command_line import COMMAND, ROOT

from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_UNFIT
from cpugpu_tui.telemetry.recording import load

FAKE_TRACE = ROOT / "tests" / "traces" / "fake-two-gpus.ndjson"
SIMULATED = ("telemetry", "--simulate", "default", "--interval", "0.1")


def first_row(process):
    while b"host" not in (line := process.stdout.readline()):
        assert line


def test_ctrl_c_ends_it_quietly_with_130_and_all_lines_whole(cpugpu, tmp_path):
    path = tmp_path / "a.ndjson"
    with cpugpu.start(*SIMULATED, "--json", "--record", path) as process:
        first_row(process)
        process.send_signal(signal.SIGINT)
        rest, err = process.stdout.read(), process.stderr.read()
    assert (process.returncode, err) == (EXIT_INTERRUPTED, b"")
    assert all(json.loads(line) for line in rest.splitlines())
    assert load(path).samples >= 1


def test_a_line_is_there_when_its_sweep_is(cpugpu):
    """Python keeps 8 kB back when stdout is a pipe: ten seconds of a table."""
    environment = cpugpu.environment(PYTHONUNBUFFERED="")
    with subprocess.Popen([*COMMAND, *SIMULATED], stdout=subprocess.PIPE, env=environment, bufsize=0) as process:
        first_row(process)
        assert len(process.stdout.read(2000)) < 2000, "the first lines came with many others"
        process.kill()


def test_ctrl_c_while_it_is_being_loaded_is_no_traceback():
    """The first import of ours that takes time is interrupted, as by a person who mistyped."""
    interrupted = (
        "import os, signal, sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'cpugpu_tui.errors': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow()); sys.argv[1:] = ['list']\n"
        "import runpy; runpy.run_module('cpugpu_tui', run_name='__main__')"
    )
    done = subprocess.run([COMMAND[0], "-c", interrupted], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_results_that_outgrow_the_limit_of_a_file_are_a_sentence(cpugpu, tmp_path):
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [*COMMAND, "telemetry", "--replay", FAKE_TRACE, "--interval", "0", "--json"],
            stdout=out, stderr=subprocess.PIPE, timeout=120, env=cpugpu.environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        )  # fmt: skip
    assert done.returncode == EXIT_UNFIT
    assert b"ulimit -f" in done.stderr
    assert b"Traceback" not in done.stderr
