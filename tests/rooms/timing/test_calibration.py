"""Calibration: its steps, its end, its report, and recovery of planted constants."""

import threading

import pytest
from tests.helpers.command_line import PATIENCE_S
from tests.helpers.runs.recorder import Recorder

from cpugpu_tui.agent.main import facts, work
from cpugpu_tui.errors import EXIT_UNFIT, UnfitError
from cpugpu_tui.machine.cores import Waited
from cpugpu_tui.model import CeilingsMeasured, Device, Plan, Progressed, RunFinished, Simulation
from cpugpu_tui.simulation.laws import PlantedWatch, SimulatedGauge
from cpugpu_tui.simulation.simulated_events import VirtualClock
from cpugpu_tui.timing.calibrate import TRANSFER_NAMES, calibrate, copy_size, largest_product
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.gauges import CpuGauge
from cpugpu_tui.timing.host_watch import Disturbance

GPU = Device("cuda:0", "H200", "GPU-1")
ENVIRONMENT = {"hostname": "node1", "torch": "2.11"}


class ScriptedGauge(SimulatedGauge):
    """A device of 141 GB whose products take planted times."""

    def __init__(self, matmul_ns=None, free_bytes=141e9):
        super().__init__(GPU, Simulation(noise=0.0))
        self.tried: list[int] = []
        self.released = 0
        self._matmul_ns, self._free_bytes = matmul_ns, free_bytes

    def free_bytes(self):
        return self._free_bytes

    def matmul_ns(self, dtype, n):
        self.tried.append(n)
        return self._matmul_ns(dtype, n) if self._matmul_ns is not None else super().matmul_ns(dtype, n)

    def release(self):
        self.released += 1


def at_rate(*rates):
    """Products of n = 512, 1024, … reach these FLOP/s."""
    return lambda _, n: 2e9 * n**3 / rates[n.bit_length() - 10]


def product(gauge, dtype="float32"):
    return largest_product(gauge, dtype, lambda _: None)


# ------------------------------------------------------------------ the largest product


def test_n_doubles_while_the_rate_grows_and_the_best_is_timed_again():
    gauge = ScriptedGauge(at_rate(1e12, 5e12, 20e12, 40e12, 51e12))
    assert product(gauge) == (8192, pytest.approx(51e12))
    assert gauge.tried == [512, 1024, 2048, 4096, 8192, 8192, 8192]


def test_a_rate_that_stands_still_ends_it():
    gauge = ScriptedGauge(at_rate(1e12, 5e12, 50e12, 50.5e12))
    assert product(gauge) == (4096, pytest.approx(50.5e12))
    assert 8192 not in gauge.tried


def test_one_size_that_suits_the_gpu_badly_does_not():
    assert product(ScriptedGauge(at_rate(5e12, 4e12, 30e12, 45e12, 51e12))) == (8192, pytest.approx(51e12))


def test_an_interruption_of_the_best_product_is_not_its_rate():
    times = at_rate(1e12, 5e12, 20e12, 40e12, 51e12)
    gauge = ScriptedGauge(lambda dtype, n: times(dtype, n) * (1.2 if gauge.tried.count(8192) == 1 else 1.0))
    assert product(gauge) == (8192, pytest.approx(51e12))


def test_a_small_memory_ends_it():
    gauge = ScriptedGauge(at_rate(1e12, 5e12, 20e12, 40e12, 51e12), free_bytes=1e9)
    assert product(gauge, "float64") == (2048, pytest.approx(20e12))
    assert product(gauge, "float16") == (4096, pytest.approx(40e12))


@pytest.mark.parametrize("n", [1024, 4096])
def test_running_out_of_memory_on_the_way_keeps_what_was_reached(n):
    def up_to(dtype, tried):
        if tried >= n:
            raise RuntimeError("CUDA out of memory")
        return at_rate(1e12, 5e12, 20e12)(dtype, tried)

    found = product(ScriptedGauge(up_to))
    assert found[0] == n // 2


@pytest.mark.parametrize(
    ("free_bytes", "copied"), [(141e9, 1 << 30), (8e9, 1 << 28), (1e9, 1 << 25), (0.0, 1 << 24)], ids=str
)
def test_a_copy_takes_an_eighth_of_the_free_memory_at_most(free_bytes, copied):
    assert copy_size(free_bytes) == copied


# ------------------------------------------------------------------ the whole


class Quiet(PlantedWatch):
    """A host without disturbances."""

    def __init__(self):
        super().__init__(Simulation(), VirtualClock(0.0))


def calibrated(gauge, control=None, **more):
    recorder = Recorder()
    return calibrate(gauge, Quiet(), ENVIRONMENT, recorder, control or Control(), **more), recorder


def test_planted_constants_come_back_within_three_percent():
    laws = Simulation(seed=7)
    recorder = Recorder()
    work(Plan("machine", (), calibrate=True, simulation=laws), facts(simulated=True), recorder, Control())
    cpu, gpu = (event.ceilings for event in recorder.of(CeilingsMeasured))
    near = {"rel": 0.03}
    assert (cpu.device, gpu.device, cpu.simulated, gpu.simulated) == ("cpu", "cuda:0", True, True)
    assert cpu.flops["float32"] == pytest.approx(1e9 / laws.cpu_ns_per_flop, **near)
    assert gpu.flops["float32"] == pytest.approx(1e9 / laws.gpu_ns_per_flop, **near)
    assert cpu.copy_bytes_per_s == pytest.approx(1e9 * laws.cpu_bytes_per_ns, **near)
    assert gpu.copy_bytes_per_s == pytest.approx(1e9 * laws.gpu_bytes_per_ns, **near)
    assert cpu.launch_ns == pytest.approx(laws.cpu_overhead_ns, **near)
    assert (cpu.synchronize_ns, cpu.round_trip_ns, cpu.transfers) == (None, None, {})
    assert gpu.launch_ns == pytest.approx(laws.launch_ns, **near)
    assert gpu.synchronize_ns == pytest.approx(laws.sync_ns, **near)
    assert gpu.round_trip_ns == pytest.approx(laws.launch_ns + laws.kernel_overhead_ns + laws.sync_ns, **near)
    assert set(gpu.transfers) == {"h2d_pageable", "h2d_pinned", "d2h_pageable", "d2h_pinned"}
    for name, line in gpu.transfers.items():
        rate = laws.pinned_bytes_per_ns if name.endswith("pinned") else laws.pageable_bytes_per_ns
        assert line.alpha_ns == pytest.approx(laws.transfer_alpha_ns, **near)
        assert line.bytes_per_s == pytest.approx(1e9 * rate, **near)
    (finished,) = recorder.of(RunFinished)
    assert (finished.status, finished) == ("done", recorder.events[-1])


def test_it_says_what_it_measures_before_it_does():
    _, recorder = calibrated(ScriptedGauge())
    notes = [event.note for event in recorder.of(Progressed)]
    assert {(event.phase, event.device) for event in recorder.of(Progressed)} == {("calibration", "cuda:0")}
    assert {"float32 matmul 512", "copy of 1,024 MiB", *TRANSFER_NAMES.values()} <= {*notes}
    assert isinstance(recorder.events[-1], CeilingsMeasured)


@pytest.mark.parametrize("stopped_at", ["float32 matmul 2048", "launch and synchronise"])
def test_a_stop_is_obeyed_before_the_next_step_and_memory_given_back(stopped_at):
    control, gauge = Control(), ScriptedGauge()

    class Stopping(Recorder):
        def __call__(self, event):
            super().__call__(event)
            if event.note == stopped_at:
                control.obey("stop")

    recorder = Stopping()
    assert calibrate(gauge, Quiet(), ENVIRONMENT, recorder, control) is None
    assert recorder.events[-1].note == stopped_at  # type: ignore[attr-defined]
    assert gauge.released == 1


def test_a_pause_holds_it_between_two_steps():
    control, gauge = Control(), ScriptedGauge()
    control.obey("pause")
    thread = threading.Thread(target=calibrated, args=(gauge, control))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert gauge.tried == []
    control.obey("resume")
    thread.join(PATIENCE_S)
    assert gauge.released == 1


def test_a_device_that_fails_is_a_sentence_and_gives_its_memory_back(words):
    class Full(ScriptedGauge):
        def copy_ns(self, size_bytes):
            raise RuntimeError("CUDA out of memory. Tried to allocate 1 GiB.\nmore")

    gauge = Full()
    with words.of(UnfitError):
        calibrated(gauge)
    assert gauge.released == 1


def test_rates_that_other_work_took_part_of_are_not_kept(monkeypatch, words):
    monkeypatch.setattr(PlantedWatch, "end", lambda _: Disturbance((), Waited(0.6, 1.0, 0.6)))
    recorder = Recorder()
    work(Plan("machine", (), calibrate=True, simulation=Simulation()), facts(simulated=True), recorder, Control())
    assert recorder.of(CeilingsMeasured) == []
    (finished,) = recorder.of(RunFinished)
    assert (finished.status, finished.exit_code) == ("failed", EXIT_UNFIT)
    words(f"{finished.message} {finished.remedy}")


def test_without_being_asked_nothing_is_calibrated():
    recorder = Recorder()
    work(Plan("quick", (), simulation=Simulation()), facts(simulated=True), recorder, Control())
    assert recorder.of(CeilingsMeasured) == []


# ------------------------------------------------------------------ the processor, really


def test_the_processor_answers_every_question():
    gauge = CpuGauge(Device("cpu", "Xeon"))
    assert gauge.matmul_ns("float32", 128) > 0
    assert gauge.matmul_ns("float64", 128) > 0
    assert gauge.copy_ns(1 << 20) > 0
    assert 0 < gauge.launch_ns() < 1e6
    assert (gauge.synchronize_ns(), gauge.round_trip_ns(), gauge.directions) == (None, None, ())
    assert gauge.free_bytes() > 0
    assert gauge.threads() >= 1
    gauge.release()
