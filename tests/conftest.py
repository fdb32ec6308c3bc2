"""What several rooms' tests share: the command line as a person uses it, and interpreters to name with --python."""

import gc
import importlib.util
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import pytest
from tests.helpers.app.answered import use_event_loop
from tests.helpers.command_line import CommandLine, forget, registered, start_in_threads
from tests.helpers.golden import WORDS, GoldenWords
from tests.helpers.machine.fake_interpreters import interpreter

from cpugpu_tui.store import Store

pytest_plugins = [f"tests.helpers.machine.{name}" for name in ("fake_nvml_library", "nvml_library", "nvml_machine")]
"""Modules with fixtures of fake drivers."""

# The same examples on every machine, and no verdict on how long one takes: CI machines share their cores.
UNHURRIED = (hypothesis.HealthCheck.too_slow,)
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=40, suppress_health_check=UNHURRIED
)
hypothesis.settings.register_profile("thorough", derandomize=True, deadline=None, suppress_health_check=UNHURRIED)
hypothesis.settings.load_profile("repeatable")


SLOW_FILES = {
    "test_adaptive_sweep.py", "test_ascii_screens.py", "test_bad_input.py", "test_demo_app.py",
    "test_experiments_small.py", "test_export_report.py",
    "test_gpus_screens.py", "test_hostile_workload.py", "test_interpreters.py", "test_keys_terminal.py",
    "test_kill.py", "test_mnist.py", "test_resizing.py",
    "test_search_faults.py", "test_states_outside.py", "test_terminals.py", "test_theming.py",
    "test_wedged_driver.py", "test_workload_faults.py",
}  # fmt: skip
"""Files whose every test takes seconds of processes, terminals or kernels: `make thorough` runs them, CI has 15 min."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files."""
    for item in items:
        if item.path.name in SLOW_FILES:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Prepare for the tests: what is collected is out of the garbage collector's sight, pilots wait for the event loop.

    Objects of thousands of tests made each full collection slow: the unit tests took 81 s of CPU, and now 59 s.
    """
    gc.collect()
    gc.freeze()
    use_event_loop()


def pytest_configure(config: pytest.Config) -> None:
    """Let torch's threads sleep while they wait for each other, here and in the agents that tests start.

    Two workers on two cores have twice as many of these threads as cores, and by default they spin: the small
    experiments took 19.7 s of CPU where 6.7 s are enough. On a machine with a GPU the times themselves are looked at.
    """
    # A job in a shell's background ignores ctrl+c, and one of `nohup` a hang-up: so would the programs of the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # With it each of the processes that tests start compiles what it imports: 0.1 to 0.7 s of CPU.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if config.getoption("markexpr") == "not gpu":
        hypothesis.settings.load_profile("thorough")
    # One start a run, as in `CommandLine`: five would start five agents in each of hundreds of tests.
    os.environ.setdefault("CPUGPU_STARTS", "1")
    if config.getoption("markexpr") not in ("gpu", "gpu and alone"):
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@pytest.fixture
def cpugpu(tmp_path: Path) -> CommandLine:
    """`cpugpu-tui` in a process of its own, its history in this test's folder."""
    return CommandLine(tmp_path / "history.db")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty history."""
    with closing(Store.open(tmp_path / "results.db")) as opened:
        yield opened


@pytest.fixture
def words(request: pytest.FixtureRequest) -> GoldenWords:
    """Sentences that people read, held to one file a room."""
    folders = request.path.relative_to(Path(__file__).parent).parts
    room = folders[1] if folders[0] == "rooms" else folders[0]
    return GoldenWords(WORDS / f"{room}.txt", f"{request.path.name}::{request.node.name}")


@pytest.fixture
def limits_when_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `--max-seconds` of commands in this process begin when the agent is ready, which takes seconds if busy."""
    monkeypatch.setattr("cpugpu_tui.__main__.time", SimpleNamespace(monotonic=lambda: math.inf))


@pytest.fixture
def agents_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let agents be threads of this process."""
    start_in_threads(monkeypatch)


def virtual_environment(folder: Path) -> Path:
    """Make an empty one; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with nothing installed: no torch, and none of us."""
    return virtual_environment(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="session")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of another environment that has torch: this environment's, lent by a .pth file."""
    python = virtual_environment(tmp_path_factory.mktemp("torch") / "venv")
    torch = importlib.util.find_spec("torch")
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(f"{Path(torch.origin).parents[1]}\n")
    return python


@pytest.fixture
def silent_python(tmp_path: Path) -> Path:
    """A program that never answers, to be named as an interpreter."""
    return Path(interpreter(tmp_path / "silent.sh", "exec sleep 1000"))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that writes the config file of this test."""
    from cpugpu_tui.config import config_path

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def to_file(text: str) -> Path:
        path = config_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return to_file


def only_the_catalogue_stays():
    """Remove the workloads that a test registered: the app lists and counts all, so its pictures would differ.

    In one process with others, 32 of 50 pictures failed; alone, none.
    """
    before = set(registered())
    yield
    forget(before)


after_a_test = pytest.fixture(only_the_catalogue_stays, autouse=True)
after_a_module = pytest.fixture(only_the_catalogue_stays, autouse=True, scope="module")
"""For its fixtures, which register before a test begins."""
