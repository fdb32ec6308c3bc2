"""The real machine: torch's CPU and GPUs, host inputs, comparison of results, and explanation of torch's errors."""

from __future__ import annotations

import math
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui import model
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.machine.processes import children
from cpugpu_tui.timing.channel import Control, Emit
from cpugpu_tui.timing.compiling import compile_step, require_compiled
from cpugpu_tui.timing.device_readings import CpuWatcher, GpuWatcher
from cpugpu_tui.timing.gauges import CpuGauge, CudaGauge
from cpugpu_tui.timing.host_watch import HostWatch
from cpugpu_tui.timing.own_code import check_later_call, examine, raised_by, require_threads
from cpugpu_tui.timing.own_lines import profile_lines
from cpugpu_tui.timing.result_check import check_results, check_sides, examine_side
from cpugpu_tui.timing.timers import Announce, CaseError, Gauge, Singles, Stopwatch, Timer, Watch, Watcher, unannounced
from cpugpu_tui.timing.timers.cpu import CpuTimer
from cpugpu_tui.timing.timers.cuda import CudaTimer, out_of_memory, ran_out_of_memory, require_memory
from cpugpu_tui.timing.timers.event_clock import CudaEvents, EventClocks
from cpugpu_tui.timing.timers.gpu_link import GpuLink
from cpugpu_tui.timing.timers.overheads import SettledClock
from cpugpu_tui.timing.timers.timed_operation import Operation, time_written
from cpugpu_tui.timing.torch_devices import describe, first_line, gpu_names, resolve, sentence, synchronizer, tensors_in
from cpugpu_tui.workloads import Report, Setting, Workload
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.contract import as_inputs
from cpugpu_tui.workloads.two_implementations import TwoImplementations

EXACT_FLOPS = 4e10
"""Largest case with a float64 reference, FLOPs: about one second on two cores."""


class TorchMachine:
    """Devices of this process as torch sees them. Creates a CUDA context only on GPUs that are used."""

    def __init__(self, plan: model.Plan, environment: dict[str, Any]) -> None:
        """Find the devices that the plan names.

        Raises:
            UnfitError: a requested GPU cannot be used.
        """
        self._before_code = frozenset(children()) if "controller_pid" in environment else None
        self._cold = plan.cache == "cold"
        self._seed = plan.seed
        self._agents = max(1, plan.turns)
        self._has_sketches = plan.is_of_two_codes
        self._timers: dict[str, Timer] = {}
        self._touched: set[str] = set()
        self._threads = int(environment["threads"])
        self._cores = int(environment.get("physical_cores") or 1)
        self._import_ns = 1e9 * float(environment.get("torch_import_s") or 0.0)
        self._flush_bytes = 2 * (procfs.last_level_cache_bytes() or (32 << 20))
        self.watch: Watch = HostWatch(
            controller=environment.get("controller_pid"), reader=environment.get("reader_pid")
        )
        Workload.setting = Setting(plan.scale, plan.mnist)
        self._wanted = plan.devices
        names, self.no_gpu = resolve(plan.devices)
        self.devices: tuple[model.Device, ...] = tuple(describe(name, environment) for name in names)
        # Before the context exists: a container recognises its own process by its appearance on the GPU.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._probes = {
            device.name: GpuProbe(device.uuid or "", visible=visible) for device in self.devices if not device.is_cpu
        }
        # NVML's UUIDs, because the controller matches GPUs by them and never by an index.
        self.devices = tuple(
            replace(device, uuid=self._probes[device.name].uuid or None) if device.name in self._probes else device
            for device in self.devices
        )
        self._watchers: dict[str, Watcher] = {}
        self._clocks = EventClocks(
            plan.known_clocks, CudaEvents, torch=str(environment.get("torch") or ""), driver=environment.get("driver")
        )

    def open(self) -> None:
        """Create the contexts of all GPUs. One that fails fails again in the first case, which reports it."""
        for device in (each for each in self.devices if not each.is_cpu):
            self._touched.add(device.name)
            with suppress(RuntimeError):
                CudaEvents(device)

    def timer(self, device: str) -> Timer:
        """Return the timer of a device, created on first use."""
        if device not in self._timers:
            found = next(d for d in self.devices if d.name == device)
            self._timers[device] = self._cpu_timer(found) if found.is_cpu else self._cuda_timer(found)
        return self._timers[device]

    def _cpu_timer(self, device: model.Device) -> CpuTimer:
        fresh = "cpu" not in self._touched
        return CpuTimer(device, self._flush_bytes, self._threads, self._cores, cold=self._cold, fresh=fresh)

    def _cuda_timer(self, device: model.Device) -> CudaTimer:
        clock = SettledClock(self._probes[device.name]) if device.uuid else None
        timer = CudaTimer(device, cold=self._cold, fresh=device.name not in self._touched, clock=clock)
        timer.is_event_clock_sound = self._clocks.of(device).is_sound
        if timer.is_event_clock_sound:
            timer.calibrate_spin()
        return timer

    def watcher(self, device: str) -> Watcher:
        """Return the watcher of a device, which reads its counters."""
        if device not in self._watchers:
            found = next(d for d in self.devices if d.name == device)
            self._watchers[device] = CpuWatcher() if found.is_cpu else GpuWatcher(self._probes[device], found.label)
        return self._watchers[device]

    def gauge(self, device: str) -> Gauge:
        """Return the gauge of a device for a calibration."""
        import torch

        found = next(d for d in self.devices if d.name == device)
        self._touched.add(device)
        torch.set_num_threads(self._threads)  # a case may have changed it
        return CpuGauge(found) if found.is_cpu else CudaGauge(found, self._clocks.of(found))

    def check_clocks(self) -> None:
        """Check the event clock of every GPU, which creates its context."""
        for device in self.devices:
            if not device.is_cpu:
                self._clocks.of(device)

    def clocks_checked(self) -> list[model.ClockChecked]:
        """Return the outcomes of checks since the last call, of the devices of this run."""
        names = {device.name for device in self.devices}
        return [told for told in self._clocks.untold() if told.device in names]

    def peers(self) -> tuple[model.Device, ...]:
        """Return all visible GPUs, or those that the plan names. Contexts are created by the first copy."""
        if self.no_gpu is not None or not {"auto", "cuda"} & set(self._wanted):
            return tuple(device for device in self.devices if not device.is_cpu)
        known = {device.name: device for device in self.devices}
        return tuple(known.get(name) or describe(name, {}) for name in gpu_names())

    def peer_link(self, source: model.Device, target: model.Device) -> GpuLink:
        """Return the timer of copies from one GPU to another."""
        return GpuLink(source.name, target.name, is_clock_sound=self._clocks.of(source).is_sound)

    def operations(self, case: model.Case) -> int:
        """Return the number of calls between the publication's clock readings; 0 if it did not run this case."""
        workload = catalogue.find(case.workload)
        written = workload.as_written
        covered = written is not None and written.covers(case.variant, case.size, workload.setting.scale)
        return workload.written_operations(case.size) if covered else 0

    def has_whole_clock(self, case: model.Case) -> bool:
        """Return whether the publication's clock covers more than one call of this case."""
        written = catalogue.find(case.workload).as_written
        return written is not None and written.whole and self.operations(case) > 0

    def written(self, case: model.Case, device: str, report: Report) -> Singles:
        """Run the publication's clock, before anything else uses the device."""
        self._require_host_memory(case)
        first, self._touched = not self._touched, self._touched | {device}
        # The first device's notebook cell imports torch; the second cell finds it loaded.
        import_ns = self._import_ns if first else 0.0
        if device != "cpu":
            set_device(device)
        catalogue.find(case.workload).prepare_written(case.variant, case.size, device)
        return time_written(case, device, report, synchronizer(device), import_ns)

    def make_inputs(self, case: model.Case) -> tuple[Any, ...]:
        """Create the inputs on the host, after checking that the case fits into its memory and every GPU's."""
        import torch

        self._require_host_memory(case)
        for device in self.devices:
            if not device.is_cpu:
                self.timer(device.name)
                require_memory(device, catalogue.case_costs(case).memory_bytes, self._agents)
        workload = catalogue.find(case.workload)
        generator = torch.Generator().manual_seed(self._seed)
        return as_inputs(workload.inputs(case.size, getattr(torch, model.torch_dtype(case.dtype)), generator))

    def _require_host_memory(self, case: model.Case) -> None:
        need_bytes = self._agents * catalogue.case_costs(case).memory_bytes
        free_bytes = procfs.available_memory_bytes()
        if free_bytes is not None and need_bytes > free_bytes:
            raise out_of_memory("the host", need_bytes, free_bytes, self._agents)

    def placement(self, operation: Operation, result: Any, device: str) -> tuple[tuple[str, ...], ...]:
        """Return shape, dtype and device of an operation's inputs and result, one line per tensor."""
        return tensors_in(operation.inputs), tensors_in(result)

    def examine(self, operation: Operation, device: str) -> model.CodeTraced | None:
        """Return what one call of a person's own code executed; None for other workloads.

        Raises:
            CaseError: `refused`: its times would be wrong.
        """
        wait = synchronizer(device)
        if isinstance(operation.workload, TwoImplementations):
            traced = examine_side(operation, operation.workload, device, wait, self._before_code)
        elif isinstance(operation.workload, CodeWorkload):
            traced = examine(operation, operation.workload, device, wait, self._before_code)
        else:
            return None
        operation.runs_torch = traced.operators > 0
        if device == "cpu":
            require_threads(operation)
        return traced

    def compile(self, operation: Operation, device: str, announce: Announce = unannounced) -> model.CodeCompiled:
        """Replace the step of an operation by its compiled form.

        Raises:
            CaseError: it cannot be compiled, or ran eagerly after all.
        """
        return compile_step(operation, device, synchronizer(device), announce)

    def check_later_call(self, operation: Operation) -> None:
        """Compare a call after a half-round with earlier ones, of own code, and check that compiled code ran.

        Raises:
            CaseError: `refused`.
        """
        check_later_call(operation)
        if operation.compiled is not None:
            require_compiled(operation)

    def profile_lines(self, operation: Operation, device: str) -> model.LinesProfiled | None:
        """Return the lines of own code that cost most in a profiled call; None for other workloads."""
        if not isinstance(operation.workload, CodeWorkload):
            return None
        self.timer(device).ready(operation, 1)
        return profile_lines(operation, operation.workload, device, synchronizer(device))

    def check(
        self, case: model.Case, inputs: tuple[Any, ...], results: dict[str, Any], *, exact: bool
    ) -> model.Check | None:
        """Compare the results with a float64 reference, or with the first device's if that takes too long.

        Raises:
            CaseError: `mismatch`, also if a result is NaN.
        """
        workload = catalogue.find(case.workload)
        if isinstance(workload, TwoImplementations):
            return check_sides(case, workload, results, has_sketches=self._has_sketches)
        exact = exact and self._affords_reference(case)
        return check_results(case, inputs, results, exact=exact, has_sketches=self._has_sketches)

    def _affords_reference(self, case: model.Case) -> bool:
        costs, free_bytes = catalogue.case_costs(case), procfs.available_memory_bytes()
        # The case's memory a second time, with elements of eight bytes.
        double_bytes = costs.memory_bytes * 8 / model.ITEMSIZE_BYTES[case.dtype]
        return costs.flops <= EXACT_FLOPS and (free_bytes is None or double_bytes < free_bytes)

    def explain(self, error: Exception | SystemExit, case: model.Case) -> CaseError:
        """Return the case's failure for an exception of torch or the workload."""
        if isinstance(error, SystemExit):
            return raised_by(error, case)  # whatever its text says
        text = first_line(error)
        if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
            return self._out_of_memory(case, on_gpu="CUDA" in text)
        if "CUDA error" in text or type(error).__name__ == "AcceleratorError":
            return CaseError(
                "error", f"The GPU reported: {sentence(text)}", "The remaining cases run in a new agent.", fatal=True
            )
        if "can't convert cuda" in text:
            return CaseError(
                "unsupported", f"This workload does not run on a GPU: {sentence(text)}", "Add --device cpu."
            )
        if isinstance(error, NotImplementedError) or re.search(r"not (implemented|supported(?! between))", text):
            return CaseError(
                "unsupported", f"{case.dtype} is not supported here: {sentence(text)}", "Choose another dtype."
            )
        if isinstance(error, CpuGpuError):
            return CaseError("error", error.message, error.remedy)
        return raised_by(error, case)

    def _out_of_memory(self, case: model.Case, *, on_gpu: bool) -> CaseError:
        import torch

        need_bytes = catalogue.case_costs(case).memory_bytes
        if on_gpu and torch.cuda.is_available():
            return ran_out_of_memory("the GPU", need_bytes, torch.cuda.mem_get_info()[0])
        return ran_out_of_memory("the host", need_bytes, procfs.available_memory_bytes() or 0)

    def release(self) -> None:
        """Free torch's cached memory and restore settings that cases have changed."""
        import torch

        self.watch.close()
        gpus = [timer for timer in self._timers.values() if isinstance(timer, CudaTimer)]
        for timer in gpus:
            timer.close()
        if gpus:
            torch.cuda.empty_cache()


def set_device(name: str) -> None:
    """Make a GPU the current device of this thread, which streams, events and graphs use by default."""
    import torch

    torch.cuda.set_device(name)


# ------------------------------------------------------------------ commands


class CommandMachine(TorchMachine):
    """Processes in place of torch's calls, on the same devices and sensors. This process itself uses no GPU."""

    def __init__(self, plan: model.Plan, environment: dict[str, Any], emit: Emit, control: Control) -> None:
        super().__init__(plan, environment)
        self._codes = {code.name: code for code in plan.codes}
        self._max_seconds = plan.max_seconds
        self._watch = Stopwatch()
        self._emit = emit
        self._control = control
        self._folder = ""

    def open(self) -> None:
        """Do nothing: only the processes that are timed have contexts."""

    def timer(self, device: str) -> Timer:
        """Return the timer of a device, created on first use."""
        from cpugpu_tui.timing.timers.command import CommandTimer

        self._folder = self._folder or tempfile.mkdtemp(prefix="cpugpu-tui-output-")
        if device not in self._timers:
            found = next(each for each in self.devices if each.name == device)
            self._timers[device] = CommandTimer(
                found, self._codes, self._folder, self._probes, self._threads, self._is_over, self._announce
            )
        return self._timers[device]

    def _is_over(self) -> bool:
        """Return whether a process is to be killed: after a stop, and at the end of the run's time."""
        return self._control.stopping or self._watch.elapsed_s() >= (self._max_seconds or math.inf)

    def _announce(self, case: model.Case, device: str, phase: str) -> None:
        self._emit(model.Progressed(case=case.key, device=device, phase=phase))
        self._emit.flush()

    def make_inputs(self, case: model.Case) -> tuple[Any, ...]:
        """Return nothing: a command makes its own inputs."""
        return ()

    def placement(self, operation: Any, result: Any, device: str) -> tuple[tuple[str, ...], ...]:
        """Return nothing: tensors of other processes are not seen."""
        return (), ()

    def examine(self, operation: Any, device: str) -> model.CodeTraced | None:
        """Return what the first run of the command did."""
        traced: model.CodeTraced | None = operation.traced
        return traced

    def check_later_call(self, operation: Any) -> None:
        """Do nothing: output is not compared."""

    def check(self, case: model.Case, inputs: Any, results: dict[str, Any], *, exact: bool) -> model.Check | None:
        """Return None: output is not compared."""
        return None
