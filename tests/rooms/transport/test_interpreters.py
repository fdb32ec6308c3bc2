"""Any interpreter can run the agent, which is sent as a zip and installs nothing."""

import glob
import os
import shutil
import subprocess
from contextlib import closing
from dataclasses import replace

import pytest
from tests.helpers.runs.listening import environment_of, heard, next_of, run_with
from tests.helpers.runs.recorder import plan_of

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import CaseFinished, Hello, RunFinished
from cpugpu_tui.transport.agent_pool import Agents


def test_another_environments_interpreter_runs_the_kernels_with_its_torch(torch_python):
    """This program is not installed there; the agent is sent as a zip."""
    plan = replace(plan_of(16, rounds=1, metrics=("latency",)), simulation=None, devices=("cpu",), budget_s=0.1)
    events = run_with(Agents(str(torch_python)), plan)
    environment = environment_of(events)
    assert environment["interpreter"] == str(torch_python)
    assert environment["torch"]
    assert [type(event) for event in events[-2:]] == [CaseFinished, RunFinished]


def test_an_interpreter_without_torch_simulates(bare_python):
    events = run_with(Agents(str(bare_python), simulated=True), plan_of(64))
    assert environment_of(events)["interpreter"] == str(bare_python)
    assert [type(event) for event in events[-2:]] == [CaseFinished, RunFinished]


def python_3_10():
    """Return an interpreter of the oldest supported version, if one is found."""
    places = [shutil.which("python3.10"), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.10*/bin/python3.10"))]
    for place in filter(None, places):
        asked = subprocess.run([place, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
        if asked.stdout.strip() == "(3, 10)":
            return place
    return None


def test_the_agents_side_runs_on_python_3_10():
    python = python_3_10()
    if python is None:
        pytest.skip("there is no Python 3.10 on this machine")
    events = run_with(Agents(python, simulated=True), plan_of(64))
    assert environment_of(events)["python"].startswith("3.10.")
    assert [type(event) for event in events[-2:]] == [CaseFinished, RunFinished]


def test_a_stray_torch_in_the_current_folder_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise SystemExit('stray')\n")
    monkeypatch.chdir(tmp_path)
    with closing(Agents()) as agents:
        hello = next_of(heard(agents.take()), Hello)
    assert hello.environment["torch"]


def test_a_torch_that_breaks_on_import_is_a_fact_of_the_hello(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(Agents()) as agents:
        hello = next_of(heard(agents.take()), Hello)
    assert hello.environment["torch"] is None
    assert hello.environment["torch_error"] == "OSError: libcudart.so.12: cannot open shared object file"


@pytest.mark.parametrize("python", ["/no/such/python", "no-such-python-on-the-path", "/etc/passwd", "/"])
def test_an_interpreter_that_does_not_exist_is_named(python, words):
    with pytest.raises(UsageError) as caught:
        Agents(python).take()
    assert python in caught.value.message
    words(str(caught.value))


def test_a_file_that_the_system_cannot_execute_is_said(tmp_path):
    """An interpreter of another processor architecture, for example."""
    broken = tmp_path / "python"
    broken.write_bytes(b"\x7fELF" + bytes(60))
    broken.chmod(0o755)
    with pytest.raises(UsageError, match="Exec format error"):
        Agents(str(broken)).take()


def test_starting_an_agent_leaves_no_descriptor_open(bare_python):
    before = set(os.listdir("/proc/self/fd"))
    with closing(Agents(str(bare_python), simulated=True)) as agents:
        heard(agents.take())
        after = set(os.listdir("/proc/self/fd"))
    assert len(after - before) == 4  # stdin, stdout, stderr, and the pidfd that tells of its end
