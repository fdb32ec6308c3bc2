"""Every state with a problem, caused and read on a terminal of 80×24: it shows cause and remedy.

The names are those of the list in the design of the interface; `pytest -k no-driver tests/ui/test_states.py` runs one.

- of the driver, through the real nvidia-ml-py over a library built from C: `no-driver`, `driver-not-loaded`,
  `driver-updated`, `no-permission-at-all`, `gpu-lost`, `no-permission`, `mig`, `shared-gpu`, `throttled`;
- of torch, by what torch itself would say: `cpu-only-torch`, `rocm`, `cuda-visible-devices-empty`,
  `cuda-visible-devices-wrong`, `driver-too-old`, `torch-without-driver`; by an interpreter that has none:
  `torch-missing`, `no-such-interpreter`;
- of a row, on a simulated machine with a real agent: `out-of-memory`, `mismatch`, `error`, `agent-crashed`,
  `case-timeout`, `longer-than-budget`, `throttled-row`, `simulated-without-gpu`; `unsupported-dtype` as torch says it;
- of the history, with real files: `database-not-writable`, `database-read-only`, `newer-database`,
  `damaged-database`, `foreign-database`;
- before the app opens, or as it does, in test_states_outside.py: `broken-theme`, `broken-config`,
  `term-dumb`, `no-utf8`, `sixteen-colours`, `no-color`.
"""

import re
import sqlite3
import warnings
from contextlib import AsyncExitStack, closing
from itertools import takewhile
from pathlib import Path

import pytest
import torch
from tests.helpers.app.fake_run import DEVICES, FakeBackend, finish, new_app, opened, readings, settled, start_run
from tests.helpers.app.looking import reads, screen_lines, table_of
from tests.helpers.app.saved_runs import stream
from tests.helpers.app.states import joined, slow_state, state
from tests.helpers.machine.nvml_library import LOST, NO_PERMISSION

from cpugpu_tui import store as store_read_only
from cpugpu_tui.model import CaseFailed, DevicesFound, Simulation, TelemetryRead
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.store import Store
from cpugpu_tui.timing import torch_devices
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions

SMALL = (80, 24)


# ------------------------------------------------------------------ the driver


async def see_driver(machine, tmp_path, *sentences, keys=()):
    """Show the driver's readings at 80×24 after these keys; return the lines of the screen."""
    machine.nvml.read()
    machine.now_s += 6.0
    rows, problem = machine.nvml.read()
    read = TelemetryRead(gpus=rows, host=readings().host, problem=problem)
    async with opened(new_app(backend=FakeBackend(telemetry=read)), size=SMALL) as pilot:
        await pilot.press(*keys)
        return await reads(pilot, *sentences)


@pytest.mark.parametrize(
    ("code", "sentences"),
    [
        state("no-driver", 12, ("libnvidia-ml.so.1", "time this CPU")),
        state("driver-not-loaded", 9, ("not loaded", "reboot")),
        slow_state("driver-updated", 18, ("was updated", "Reboot")),
        state("no-permission-at-all", 4, ("No permission", "/dev/nvidia")),
    ],
)
async def test_a_driver_that_does_not_start(fake_nvml, machine, tmp_path, code, sentences):
    fake_nvml.set("init", code)
    await see_driver(machine, tmp_path, *sentences)


@pytest.mark.parametrize(
    ("code", "sentences"),
    [
        state("gpu-lost", LOST, ("is lost", "reboot")),
        state("no-permission", NO_PERMISSION, ("No permission", "/dev/nvidia1")),
    ],
)
async def test_a_gpu_that_cannot_be_read(fake_nvml, machine, tmp_path, code, sentences):
    machine.rows()
    fake_nvml.fail("*", code, gpu=1)
    await see_driver(machine, tmp_path, *sentences)


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        state("mig", "mig", 2, "MIG"),
        state("shared-gpu", "process:99999999", 300 << 20, "! "),
        state("throttled", "throttle", 0x20, "! thermal"),
    ],
)
async def test_a_gpu_with_something_to_know_about(fake_nvml, machine, tmp_path, name, value, word, words):
    """Its line has a sign and a word; its page (z, tab) has the sentences."""
    fake_nvml.set("count", 1)
    fake_nvml.set(name, value, gpu=0)
    lines = await see_driver(machine, tmp_path, "kernel-active", word, keys=("tab", "z", "tab"))
    above = (line[:77].rstrip() for line in takewhile(lambda line: line.strip() != "Work", lines[1:]))  # no scrollbar
    words([line for line in above if line])


# ------------------------------------------------------------------ torch


def torch_says(monkeypatch, cuda, hip, visible, old):
    """Make torch unable to use a GPU for this reason; return the agent's message."""

    def available():
        if old:
            warnings.warn("The NVIDIA driver on your system is too old (found 11040).", UserWarning, stacklevel=1)
        return False

    monkeypatch.setattr(torch_devices, "has_nvidia_gpu", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "is_available", available)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    return torch_devices.why_no_gpu()


@pytest.mark.parametrize(
    ("cuda", "hip", "visible", "old", "sentences"),
    [
        state("cpu-only-torch", None, None, None, False, ("CPU-only build", "CUDA build")),
        slow_state("rocm", None, "6.0", None, False, ("ROCm build", "CUDA build")),
        slow_state("cuda-visible-devices-empty", "13.0", None, "", False, ("CUDA_VISIBLE_DEVICES", "Unset it")),
        state("cuda-visible-devices-wrong", "13.0", None, "7", False, ("CUDA_VISIBLE_DEVICES=7", "Unset it")),
        state("driver-too-old", "13.0", None, None, True, ("is too old", "Update the driver")),
        slow_state("torch-without-driver", "13.0", None, None, False, ("CUDA", "nvidia-smi")),
    ],
)
async def test_a_torch_that_can_use_no_gpu(monkeypatch, cuda, hip, visible, old, sentences):
    """The whole message is in the answer pane, and in the form beside the devices."""
    said = torch_says(monkeypatch, cuda, hip, visible, old)
    backend = FakeBackend()
    backend.devices = DevicesFound(devices=DEVICES[:1], no_gpu=said)
    async with opened(new_app(backend=backend), size=SMALL) as pilot:
        await settled(pilot, lambda: pilot.app.state.agent_ready)
        await pilot.press("enter")
        await settled(pilot, lambda: bool(pilot.app.state.devices))
        pilot.app.screen.query_one("#devices").focus()
        await reads(pilot, said)
        await pilot.press("escape")
        session = await start_run(pilot)
        session.put(backend.devices)
        await finish(pilot, session)
        await reads(pilot, said, *sentences)


@pytest.mark.parametrize(
    ("has_python", "sentences"),
    [
        state(
            "torch-missing",
            True,
            ("ModuleNotFoundError: No module named 'torch'", "--python auto", "cannot run", "Nothing can be timed"),
        ),
        state("no-such-interpreter", False, ("interpreter", "not found", "cannot run")),
    ],
)
async def test_an_interpreter_that_will_not_do(bare_python, tmp_path, has_python, sentences):
    python = str(bare_python) if has_python else str(tmp_path / "no" / "python")
    app = CpuGpuApp(AppOptions(python=python, database=tmp_path / "results.db"))
    async with ShownApp(app) as pilot:
        await reads(pilot, *sentences)
        await pilot.press("r")
        await settled(pilot, lambda: app.state.run.finished is not None or not has_python)
        shown = await reads(pilot, sentences[0])
        assert joined(shown).count(sentences[0]) == 1, "it is told once, also after a try to run"


# ------------------------------------------------------------------ rows


class ShownApp:
    """An app with real agents and its own history at 80×24. A live run ends with it."""

    def __init__(self, app):
        self._app = app
        self._stack = AsyncExitStack()

    async def __aenter__(self):
        return await self._stack.enter_async_context(self._app.run_test(size=SMALL))

    async def __aexit__(self, *_):
        self._app.bridge.kill()
        self._app.bridge.backend.close()
        await self._stack.aclose()


def simulated_app(folder, simulation, **request):
    asked = PlanRequest(("matmul",), **{"sizes": "64,128,256", "rounds": 5, "simulation": simulation, **request})
    return CpuGpuApp(AppOptions(request=asked, database=folder / "results.db", log_path=folder / "log.txt"))


async def run_to_its_end(pilot):
    await settled(pilot, lambda: pilot.app.state.agent_ready)
    await pilot.press("r")
    await settled(pilot, lambda: pilot.app.state.run.finished is not None and not pilot.app.state.situation.live)


@pytest.mark.parametrize(
    ("simulation", "request_", "word", "facts"),
    [
        state("out-of-memory", Simulation(oom_size=128), {}, "OOM", ("18.4 GB", "12.1 GB")),
        slow_state("mismatch", Simulation(mismatch_size=128), {}, "mismatch", ()),
        slow_state("error", Simulation(error_size=128), {}, "error", ("RuntimeError: planted error",)),
        state("agent-crashed", Simulation(crash_size=128), {}, "crashed", ()),
        state("case-timeout", Simulation(hang_size=128), {"case_timeout_s": 1.0}, "timeout", ("--case-timeout",)),
    ],
)  # fmt: skip
async def test_a_row_that_failed_says_why_and_what_to_do_where_the_cursor_is(
    tmp_path, simulation, request_, word, facts
):
    async with ShownApp(simulated_app(tmp_path, simulation, **request_)) as pilot:
        await run_to_its_end(pilot)
        failure = next(row.failure for row in pilot.app.state.run.rows.values() if row.case.size == 128)
        assert failure.remedy
        table_of(pilot).focus()
        await pilot.press("home", "down")
        await reads(pilot, word, "matmul 128:", *facts, failure.message, failure.remedy)
        await pilot.press("up")
        await settled(pilot, lambda: "matmul 128:" not in joined(screen_lines(pilot)))
        await pilot.press("down", "enter")
        await reads(pilot, *facts, failure.message, failure.remedy)


@pytest.mark.parametrize("name", [state("unsupported-dtype", "float16")])
async def test_a_dtype_that_torch_does_not_support_here(name):
    async with opened(new_app(PlanRequest(("matmul",), sizes="64,128", dtype=name)), size=SMALL) as pilot:
        session = await start_run(pilot)
        case = session.plan.cases[0]
        raised = NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Half'")
        why = TorchMachine.explain(object.__new__(TorchMachine), raised, case)
        session.put(CaseFailed(case=case.key, kind=why.kind, message=why.message, remedy=why.remedy))
        await finish(pilot, session)
        await pilot.press("home")
        await reads(pilot, "✗ not here", "float16", why.message, why.remedy)


@pytest.mark.parametrize(
    ("simulation", "keys", "sentences"),
    [
        state("longer-than-budget", Simulation(cpu_ns_per_flop=3e3, noise=0.0), ("home", "down", "down", "enter"),
              ("was timed once", "Choose smaller sizes")),
        state("throttled-row", Simulation(throttle_share=1.0), ("home", "enter", "G"), ("throttled",)),
        state("simulated-without-gpu", Simulation(gpus=0), (), ("no GPU", "gpus=0")),
    ],
)  # fmt: skip
async def test_a_row_with_something_to_know_about(tmp_path, simulation, keys, sentences):
    async with ShownApp(simulated_app(tmp_path, simulation, rounds=None)) as pilot:
        await run_to_its_end(pilot)
        table_of(pilot).focus()
        await pilot.press(*keys)
        await reads(pilot, *sentences)


# ------------------------------------------------------------------ the history


def missing_folder(folder):
    return folder / "typo" / "results.db"


def read_only(folder):
    path = folder / "results.db"
    Store.open(path).close()
    return path


def newer(folder):
    path = folder / "results.db"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    return path


def damaged(folder):
    path = folder / "results.db"
    with closing(Store.open(path)) as store:
        store.import_run(stream("lost"))
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    return path


def foreign(folder):
    path = folder / "results.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photos (name TEXT)")
    return path


@pytest.mark.parametrize(
    ("make", "brief", "sentences"),
    [
        state("database-not-writable", missing_folder, "Not saved", ("does not exist", "--db")),
        state("database-read-only", read_only, "Not saved", ("read-only", "--db")),
        slow_state("newer-database", newer, "Not saved", ("newer", "Update cpugpu-tui")),
        state("damaged-database", damaged, "The database", ("was damaged", ".recover`")),
        slow_state("foreign-database", foreign, "Not saved", ("another program", "--db")),
    ],
)
async def test_a_history_that_takes_nothing_is_said_and_runs_go_on(tmp_path, monkeypatch, make, brief, sentences):
    path = make(tmp_path)
    if make is read_only:  # to root nothing is; that modes are seen is told in test_history_backend.py
        monkeypatch.setattr(store_read_only, "is_read_only", lambda _: True)
    asked = PlanRequest(("matmul",), sizes="64", rounds=5, simulation=Simulation())
    async with ShownApp(CpuGpuApp(AppOptions(request=asked, database=path))) as pilot:
        await reads(pilot, *sentences)
        await run_to_its_end(pilot)
        await reads(pilot, "done, 1 case")
        assert brief in joined(screen_lines(pilot)[:1]), "the status line says it all the time"


def test_the_list_of_states_is_whole():
    """The names in this module's docstring are exactly those of the tests."""
    told = set(re.findall(r"`([a-z][a-z0-9-]+)`", __doc__ or ""))
    source = "".join(
        Path(__file__).with_name(name).read_text() for name in ("test_states.py", "test_states_outside.py")
    )
    tested = set(re.findall(r'state\(\s*"([a-z0-9-]+)"', source))
    assert told == tested
