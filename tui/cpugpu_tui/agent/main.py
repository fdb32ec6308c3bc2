"""The agent process: reads one plan from stdin, runs it on its torch-worker thread, exits.

The main thread only reads stdin, with `os.read`. End of file means that the controller is gone, and the process exits
at once, whatever the worker is doing. Buffered reading from `sys.stdin` would abort the interpreter at a normal exit.
Over a network a controller may disappear without an end of file. It therefore sends heartbeats, and silence ends the
process too.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import queue
import select
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from cpugpu_tui import __version__, model
from cpugpu_tui.agent.sent_files import leave, placed, unpack
from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_OK, CpuGpuError, code_not_typed
from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.processes import adopt_orphans, children, kill_children
from cpugpu_tui.machine.procfs import driver_version
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.names import CODE, FILE, INSTALLED
from cpugpu_tui.timing.calibrate import calibrate, first_ceilings
from cpugpu_tui.timing.channel import ALIVE, BEAT, REACHED, Control, Emit, LineEmitter
from cpugpu_tui.timing.device_readings import driver_read
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import CaseError, Machine, Stopwatch
from cpugpu_tui.timing.timers.cpu import FLUSH_CAP_BYTES
from cpugpu_tui.workloads import catalogue, outline
from cpugpu_tui.workloads.code_target import CALLER
from cpugpu_tui.workloads.own_files import Loaded, load, running_line
from cpugpu_tui.workloads.two_implementations import register

EXIT_CONTROLLER_GONE = 1
EXIT_BROKEN = 70


def plan_from_json(line: bytes) -> model.Plan:
    """Return the plan on one line of JSON (`to_plain` of a `Plan`).

    Raises:
        ValueError, TypeError, KeyError: the line is not a plan of this version.
    """
    data: dict[str, Any] = json.loads(line)
    simulation = data.pop("simulation", None)
    lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    lists["cases"] = tuple(model.Case(**case) for case in data["cases"])
    lists["ceilings"] = tuple(ceilings_from_plain(item) for item in data.get("ceilings", ()))
    lists["codes"] = tuple(map(code_from_plain, data.get("codes", ())))
    lists["clocks"] = tuple(model.EventClock(**item) for item in data.get("clocks", ()))
    lists["own_files"] = tuple(model.OwnFile(**item) for item in data.get("own_files", ()))
    search = data.pop("search", None)
    if search is not None:
        found = tuple(model.Found(**{**each, "case": model.Case(**each["case"])}) for each in search.pop("found"))
        search = model.Search(**search, found=found)
    return model.Plan(
        **{**data, **lists}, search=search, simulation=None if simulation is None else model.Simulation(**simulation)
    )


def code_from_plain(data: dict[str, Any]) -> model.OwnCode:
    """Return the typed code that `to_plain` made plain."""
    lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    lists["sides"] = tuple(map(code_from_plain, data.get("sides", ())))
    return model.OwnCode(**{**data, **lists, "lets": tuple((name, value) for name, value in data["lets"])})


def ceilings_from_plain(data: dict[str, Any]) -> model.Ceilings:
    """Return the `Ceilings` that `to_plain` turned into `data`."""
    clock = data.get("clock")
    transfers = {name: model.Line(**line) for name, line in data["transfers"].items()}
    return model.Ceilings(
        **{**data, "transfers": transfers, "clock": None if clock is None else model.EventClock(**clock)}
    )


def private_stdout() -> int:
    """Return a private copy of fd 1 and point fd 1 at stderr, so that output of libraries does not mix with events."""
    copy = os.dup(1)
    os.dup2(2, 1)
    return copy


def private_stdin() -> int:
    """Return a private copy of fd 0 and point fd 0 at /dev/null, so that a workload cannot read or close it."""
    copy = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return copy


def read_commands(stdin: int, plans: queue.SimpleQueue[bytes], control: Control, silence_s: float | None) -> None:
    """Read `stdin` until its end, or until `silence_s` without input: first the plan, then commands.

    Never returns: the process exits with this thread, because nothing else notices the end of the controller.
    """
    buffer, have_plan = b"", False
    words = select.poll()
    try:
        words.register(stdin, select.POLLIN)
        while True:
            # Poll, so that input that came while the process was suspended (ctrl+z) counts.
            has_input = words.poll(None if silence_s is None else silence_s * 1000)
            chunk = os.read(stdin, 65536) if has_input else b""
            if not chunk:
                leave(EXIT_CONTROLLER_GONE)
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                if line == BEAT:
                    continue
                if not have_plan:
                    have_plan = True
                    plans.put(line)
                else:
                    control.obey(line.decode("utf-8", "replace").strip())
    except BaseException:  # noqa: BLE001 - a workload may have closed the descriptor
        traceback.print_exc()
    finally:
        leave(EXIT_BROKEN)


def silence_limit_s(arguments: list[str]) -> float | None:
    """Return how long the controller may be silent, s; None if only the end of stdin counts."""
    return next((float(after) for word, after in pairwise(arguments) if word == ALIVE), None)


def serve(plans: queue.SimpleQueue[bytes], emit: LineEmitter, control: Control, arguments: list[str]) -> None:
    """Say hello, wait for the plan, run it, end the process. Runs on the torch-worker thread."""
    code = EXIT_BROKEN
    try:
        environment = facts(simulated="--simulated" in arguments)
        files, installed = wanted(arguments)
        emit(hello(environment, files, emit, installed=installed))
        emit.flush()
        if "--simulated" not in arguments:
            stand_by()
        # The controller is not an unrelated process on the cores. Not a fact of the hello, because it is not saved.
        reader = os.getppid() if silence_limit_s(arguments) is None else None  # on a host it is elsewhere
        whole = {**environment, "controller_pid": os.getppid(), "reader_pid": reader}
        plan = plan_from_json(plans.get())
        plan = replace(plan, codes=tuple(placed(code, emit.root) for code in plan.codes))
        code = 0 if work(plan, whole, emit, control, allows_code=CODE in arguments) else EXIT_BROKEN
    except BrokenPipeError:
        code = EXIT_CONTROLLER_GONE
    except BaseException:  # noqa: BLE001 - the controller shows the last line of stderr
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # The main thread is blocked in os.read, and nothing is left to clean up.
        leave(code)


def main() -> None:
    """Run the agent; never returns."""
    adopt_orphans()  # a process that code leaves behind with two forks and setsid is then found
    stdin, stdout = private_stdin(), private_stdout()
    if silence_limit_s(sys.argv[1:]) is None:  # on a host, the shell line has said so
        os.write(stdout, REACHED + b"\n")
    emit = LineEmitter(stdout, unpack(sys.argv[1:]))
    control = Control()

    def continued(_signal: int, _frame: object) -> None:
        control.was_suspended = True

    signal.signal(signal.SIGCONT, continued)
    plans: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=serve, args=(plans, emit, control, sys.argv[1:]), name=THREAD_NAME).start()
    read_commands(stdin, plans, control, silence_limit_s(sys.argv[1:]))


# ------------------------------------------------------------------ hello


INHERITED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "KMP_AFFINITY", "OMP_PROC_BIND")
"""Variables that slow the CPU silently: Ray, Dask and torchrun set thread counts to 1."""


def facts(*, simulated: bool) -> dict[str, Any]:
    """Return the agent's facts as JSON-ready data; imports torch unless `simulated`."""
    cache_bytes = procfs.last_level_cache_bytes()
    found: dict[str, Any] = {
        "version": __version__, "simulated": simulated, "hostname": platform.node(), "kernel": platform.release(),
        "python": platform.python_version(), "interpreter": sys.executable, "cpu": procfs.cpu_model(),
        "affinity_cores": len(procfs.affinity_cores()), "physical_cores": procfs.physical_cores(),
        "quota_cores": procfs.cpu_quota_cores(), "threads": procfs.default_threads(),
        "memory_total_bytes": procfs.memory_total_bytes(), "last_level_cache_bytes": cache_bytes,
        "cache_flush_bytes": min(2 * (cache_bytes or (32 << 20)), FLUSH_CAP_BYTES),
        "inherited": {name: os.environ[name] for name in INHERITED if name in os.environ},
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"), "torch": None, "torch_error": None,
    }  # fmt: skip
    return found if simulated else found | {"driver": driver_version()} | torch_facts()


def torch_facts() -> dict[str, Any]:
    """Return facts about torch, or why it cannot be imported."""
    watch = Stopwatch()
    warnings.filterwarnings("ignore", "Failed to initialize NumPy", UserWarning)  # torch works without it
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a broken torch raises anything, OSError included
        return {"torch_error": f"{type(error).__name__}: {error}"[:300]}
    return {
        "torch": str(torch.__version__), "torch_import_s": watch.elapsed_s(), "torch_git": torch.version.git_version,
        "torch_cuda": torch.version.cuda, "matmul_precision": torch.get_float32_matmul_precision(),
        "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
    }  # fmt: skip


MOST_TEXT = 400
"""Most characters of an error about a file, whose exceptions may have any length."""


def wanted(arguments: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the workload files in an agent's arguments, and whether to load installed packages."""
    files = tuple(after for word, after in pairwise(arguments) if word == FILE)
    return files, INSTALLED in arguments


def _announce(emit: Emit, source: str) -> None:
    """Announce what is about to be loaded, at once: it names the cause if the process then hangs or dies."""
    emit(model.WorkloadsLoading(source=source))
    emit.flush()


def hello(environment: dict[str, Any], files: Sequence[str], emit: Emit, *, installed: bool = False) -> model.Hello:
    """Load files and packages and return the greeting, with their workloads in its catalogue."""
    built_in = catalogue()
    found = Loaded()
    if files or installed:
        found = load(files, partial(_announce, emit), installed=installed)
    refused = tuple(
        model.Refused(each.source, printable(each.message, MOST_TEXT), printable(each.remedy, MOST_TEXT))
        for each in found.refused
    )
    # The catalogue of built-in workloads was made before files were loaded, so they cannot change it.
    return model.Hello(
        protocol=model.PROTOCOL, environment=environment, catalogue=(*built_in, *found.infos), refused=refused,
        own_files=found.files,
    )  # fmt: skip


# ------------------------------------------------------------------ worker


THREAD_NAME = "torch-worker"
"""Name of the thread that calls every kernel."""


def work(
    plan: model.Plan, environment: dict[str, Any], emit: Emit, control: Control, *, allows_code: bool = False
) -> bool:
    """Run a plan to its end; return False if this process must not be used again.

    `allows_code`: the person typed the plan's code just now; code in a plan from elsewhere is refused.

    Every outcome is an event. `RunFinished` is the last one, unless the process dies or has to be replaced.
    """
    try:
        with quiet_interpreter():
            if plan.codes and not allows_code:
                raise code_not_typed()
            others, watch = frozenset(children()), Stopwatch()
            with importing_told(plan.codes, emit):
                register(plan.codes, is_alone=not plan.is_of_two_codes)
            machine = _machine(plan, environment, emit, control)
            emit(model.DevicesFound(devices=machine.devices, no_gpu=machine.no_gpu))
            emit.flush()
            if plan.turns and not plan.times_commands:
                # At once with the other agents, because nothing is timed before all wait for a turn.
                machine.open()
                if plan.codes and plan.simulation is None:
                    outline.prepare()
            for device in machine.devices if plan.calibrate else ():
                if not control.stopping:  # a gauge of a GPU takes its context
                    calibrate(machine.gauge(device.name), machine.watch, environment, emit, control, gaps=plan.gaps)
                if plan.reads_driver and not device.is_cpu:
                    emit(driver_read(plan.simulation))
            if plan.check_clocks:
                machine.check_clocks()
            if plan.reads_driver and not plan.calibrate:
                emit(driver_read(plan.simulation))
            for checked in machine.clocks_checked():
                emit(checked)
            timed = plan.limited((plan.max_seconds or 0.0) - watch.elapsed_s())
            status = "stopped" if control.stopping else Scheduler(timed, machine, emit, control).run()
            machine.release()
            if plan.codes and "controller_pid" in environment:  # the process is an agent's alone
                kill_children(others)
            left_s = None if plan.max_seconds is None else plan.max_seconds - watch.elapsed_s()
            remark = first_ceilings(plan, machine, environment, emit, control, left_s) if status == "done" else None
    except CaseError:
        # Its CaseFailed was sent. The controller starts another process for the remaining cases.
        emit.flush()
        return False
    except CpuGpuError as error:
        emit(model.RunFinished(status="failed", message=error.message, remedy=error.remedy, exit_code=error.exit_code))
    else:
        code = EXIT_OK if status == "done" else EXIT_INTERRUPTED
        message, remedy = (remark.message, remark.remedy) if remark is not None else ("", "")
        emit(model.RunFinished(status=status, message=message, remedy=remedy, exit_code=code))
    emit.flush()
    return True


IMPORT_TOLD_S = 1.0
"""Interval at which the line is told that an import has reached."""


@contextmanager
def importing_told(codes: Sequence[model.OwnCode], emit: Emit) -> Iterator[None]:
    """Tell which line of a timed function's file the import has reached, because it may never end."""
    sources = [code.target[0] for code in codes if code.target and code.target[0] != CALLER]
    if not sources:
        yield
        return
    importer, is_over = threading.get_ident(), threading.Event()

    def tell() -> None:
        while not is_over.wait(IMPORT_TOLD_S):
            _announce(emit, running_line(sys._current_frames()[importer], sources[0]))

    _announce(emit, sources[0])
    teller = threading.Thread(target=tell, name="import-teller", daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def stand_by() -> None:
    """Prepare for a plan while nobody waits: it shortens the time from plan to first event from 240 to 9 ms."""
    import cpugpu_tui.timing.torch_machine  # noqa: F401 - 30 modules, none of them torch

    gc.collect()  # once over all of torch's objects; frozen, they cost nothing in the collection before a plan
    gc.freeze()


def _machine(plan: model.Plan, environment: dict[str, Any], emit: Emit, control: Control) -> Machine:
    if not plan.times_commands or plan.simulation is not None:
        return make_machine(plan, environment)
    from cpugpu_tui.timing.torch_machine import CommandMachine

    return CommandMachine(plan, environment, emit, control)


def make_machine(plan: model.Plan, environment: dict[str, Any]) -> Machine:
    """Return the devices of this process for a plan, simulated or real.

    Raises:
        UnfitError: a device that was asked for cannot be used.
    """
    if plan.simulation is not None:
        from cpugpu_tui.simulation.simulated_machine import SimulatedMachine

        return SimulatedMachine(plan)
    import torch

    from cpugpu_tui.timing.torch_machine import TorchMachine

    # Before the first parallel operation: new pool threads inherit the flag, existing ones keep theirs
    # (measured: denormals are 16× slower, method.md, "What disturbs a time").
    torch.set_flush_denormal(plan.flush_denormals)
    torch.set_num_threads(int(environment["threads"]))
    torch.manual_seed(plan.seed)
    return TorchMachine(plan, environment)


@contextmanager
def quiet_interpreter() -> Iterator[None]:
    """Keep the garbage collector out of timed blocks: a full collection takes up to 190 ms."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
