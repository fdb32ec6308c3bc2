"""What the detail of a row says of the machine that the result was made on."""

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.golden import assert_golden, paragraphs
from tests.rooms.ui.screens.test_detail import ALL, GPU_NS, half, read, run_of, section, squeezed, timed

from cpugpu_tui.model import LATENCY, DeviceSampled, EnergyMeasured, GpuProcess, MachineRead, Reading, Simulation
from cpugpu_tui.ui.glyphs import ASCII, UNICODE

CALM = {
    "sm_clock_mhz": 1980.0, "temperature_c": 36.0, "memory_used_bytes": 1e9, "energy_mj": 5e9,
    "throttled_power_cap_ns": 1e9, "throttled_hw_thermal_ns": 15_814e9,
}  # fmt: skip
OURS = GpuProcess(4711, 10**9, "ada", "agent", own=True)


def edge(name, processes=(OURS,), **values):
    readings = {key: Reading(value) for key, value in {**CALM, **values}.items()}
    return MachineRead(
        case=ALL.key, device="cuda:0", edge=name, readings=readings, processes=processes,
        elapsed_ns=1e9 if name == "end" else 0.0,
    )  # fmt: skip


def watched_half(index=9, watched_ns=50e6, **throttled_ns):
    samples = {LATENCY: (GPU_NS,) * 5}
    throttled = {word.replace("_", "-"): ns for word, ns in throttled_ns.items()}
    return DeviceSampled(
        case=ALL.key, device="cuda:0", round_index=index, calls_per_block=100, samples=samples, sm_clock_mhz=1980.0,
        sm_clock_end_mhz=1905.0, throttled_ns={"power-capped": 0.0, **throttled}, watched_ns=watched_ns,
    )  # fmt: skip


def measured(**changes):
    usual: dict[str, Any] = {"calls": 1000, "elapsed_ns": 1.6e9, "tick_ns": 1e8, "begin_mj": 1e9, "end_mj": 1e9 + 560e3}
    return EnergyMeasured(**{"case": ALL.key, "device": "cuda:0", **usual, **changes})


def raw(*events, width=100, glyphs=UNICODE):
    started, *rest = timed()
    return section(read(run_of(started, edge("begin"), *rest, *events), width, glyphs), "cuda:0")


RUDE = GpuProcess(12, 3 << 30, "bob", "evil\x1b[2J\x07\u202etxt", own=False)
UNSEEN = GpuProcess(99999, None, None, None, own=False)
FAILING = edge("end", throttled_hw_thermal_ns=15_814e9 + 0.02e9)

EVENTS: dict[str, tuple[Any, ...]] = {
    "power-capped": (watched_half(watched_ns=2e9, power_capped=0.8e9), edge("end", temperature_c=52.0)),
    "failing cooling": (watched_half(), FAILING),
    "energy of a call": (watched_half(), edge("end"), measured(case="", calls=0, end_mj=1e9 + 192e3), measured()),
    "energy that the power contradicts":
        (watched_half(), edge("end"), measured(power_mw=(600_000.0,), scope="board")),
    "energy whose counter was reset": (watched_half(), edge("end"), measured(end_mj=5.0)),
    "energy without a step of its counter": (watched_half(), edge("end"), measured(end_mj=1e9)),
    "energy of too short a window": (watched_half(), edge("end"), measured(end_mj=2e9, elapsed_ns=30e6)),
    "energy that may not be read": (watched_half(), edge("end"), measured(reason="no-permission")),
    "strangers, who cannot write on the terminal":
        (watched_half(), edge("end", (OURS, RUDE, UNSEEN), memory_used_bytes=9e9)),
}  # fmt: skip
"""What is read of the GPU after its half-rounds."""


def test_what_a_person_reads():
    """A calm GPU, which was never throttled whatever its counters had before; then what differs."""
    calm = raw(watched_half(), edge("end"))
    told = {"calm": "\n".join(calm)}
    for name, events in EVENTS.items():
        told[name] = "\n".join(line for line in raw(*events) if line not in calm)
        assert all(line.isprintable() for line in raw(*events))
    told["failing cooling, in ASCII"] = "\n".join(line for line in raw(*EVENTS["failing cooling"], glyphs=ASCII)
                                                  if "hw-thermal" in line)  # fmt: skip
    assert_golden("frames/detail-machine", paragraphs(told))


def test_a_simulated_gpu_without_sensors_does_not_list_them():
    started, *rest = timed()
    unknown = dict.fromkeys(("sm_clock_mhz", "temperature_c", "energy_mj"), Reading(None, "not-supported"))
    edges = [edge(name) for name in ("begin", "end")]
    begin, end = (replace(each, readings={**each.readings, **unknown}) for each in edges)
    run = run_of(started, begin, *rest, end)
    planted = replace(run, run=replace(run.run, plan=replace(run.run.plan, simulation=Simulation())))
    real, simulated = (squeezed(section(read(each), "cuda:0")) for each in (run, planted))
    assert {"clock", "temperature", "power"} <= {line.partition(" ")[0] for line in real}
    assert not any("not supported" in line for line in simulated)


def test_a_run_of_an_older_version_says_no_more_than_it_knows():
    lines = read(run_of(*timed()))
    assert not [line for line in lines if "throttled" in line or "temperature" in line]
    clock = half(ALL, "cuda:0", 9, {LATENCY: (GPU_NS,)}, "power-capped")
    assert not [line for line in read(run_of(*timed(), clock)) if "never" in line]


@pytest.mark.parametrize("width", [56, 76, 116, 196])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_nothing_is_wider_than_the_screen(width, glyphs):
    window = measured(end_mj=1e9 + 5e2, power_mw=(6e5,), scope="module")
    guest = GpuProcess(12, 3 << 30, "bob", "a-long-name-of-a-program-that-trains --models", own=False)
    end = edge("end", (OURS, guest), throttled_hw_thermal_ns=2e13)
    lines = raw(watched_half(power_capped=20e6), end, window, width=width, glyphs=glyphs)
    assert max(map(len, lines)) <= width
    assert glyphs is UNICODE or all(line.isascii() for line in lines)


def test_a_remark_behind_bars_moves_below_them_where_it_would_be_cut():
    for width in range(36, 80, 4):
        lines = [line for line in read(run_of(*timed()), width) if line.endswith((" of the median", " median apart"))]
        assert len(lines) == 4, "the spread of rounds and of calls, on both devices"
        assert max(map(len, lines)) <= width
