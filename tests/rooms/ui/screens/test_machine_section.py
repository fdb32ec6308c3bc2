"""What the detail of a row says of the machine that the result was made on."""

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.golden import GoldenWords
from tests.rooms.ui.screens.test_detail import ALL, GPU_NS, half, read, run_of, section, squeezed, timed

from cpugpu_tui.model import LATENCY, DeviceSampled, EnergyMeasured, GpuProcess, MachineRead, Reading, Simulation
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs

CALM = {
    "sm_clock_mhz": 1980.0, "temperature_c": 36.0, "memory_used_bytes": 1e9, "energy_mj": 5e9,
    "throttled_power_cap_ns": 1e9, "throttled_hw_thermal_ns": 15_814e9,
}  # fmt: skip
OURS = GpuProcess(4711, 10**9, "ada", "agent", own=True)
ENERGY = {"calls": 1000, "elapsed_ns": 1.6e9, "tick_ns": 1e8, "begin_mj": 1e9}


def edge(name: str, processes: Any = (OURS,), **values: float) -> MachineRead:
    readings = {key: Reading(value) for key, value in {**CALM, **values}.items()}
    return MachineRead(
        case=ALL.key, device="cuda:0", edge=name, readings=readings, processes=processes,
        elapsed_ns=1e9 if name == "end" else 0.0,
    )  # fmt: skip


def watched_half(index: int = 9, watched_ns: float = 50e6, **throttled_ns: float) -> DeviceSampled:
    samples = {LATENCY: (GPU_NS,) * 5}
    throttled = {word.replace("_", "-"): ns for word, ns in throttled_ns.items()}
    return DeviceSampled(
        case=ALL.key, device="cuda:0", round_index=index, calls_per_block=100, samples=samples, sm_clock_mhz=1980.0,
        sm_clock_end_mhz=1905.0, throttled_ns={"power-capped": 0.0, **throttled}, watched_ns=watched_ns,
    )  # fmt: skip


def raw(*events: Any, width: int = 100, glyphs: Glyphs = UNICODE) -> list[str]:
    started, *rest = timed()
    return section(read(run_of(started, edge("begin"), *rest, *events), width, glyphs), "cuda:0")


def said(*events: Any, glyphs: Glyphs = UNICODE) -> str:
    return "\n".join(" ".join(line.split()) for line in raw(*events, glyphs=glyphs))


def facts(text: str, *names: str) -> list[str]:
    """The lines of these facts."""
    return [line for line in text.splitlines() if line.startswith(names)]


def test_clock_throttling_heat_and_company_stand_in_words(words: GoldenWords) -> None:
    text = said(watched_half(watched_ns=2e9, power_capped=0.8e9), edge("end", temperature_c=52.0))
    words(facts(text, "clock", "throttled", "temperature", "others"))


def test_a_simulated_gpu_without_sensors_does_not_list_them() -> None:
    started, *rest = timed()
    unknown = dict.fromkeys(("sm_clock_mhz", "temperature_c", "energy_mj"), Reading(None, "not-supported"))
    edges = [edge(name) for name in ("begin", "end")]
    begin, end = (replace(each, readings={**each.readings, **unknown}) for each in edges)
    run = run_of(started, begin, *rest, end)
    planted = replace(run, run=replace(run.run, plan=replace(run.run.plan, simulation=Simulation())))
    real, simulated = (squeezed(section(read(each), "cuda:0")) for each in (run, planted))
    assert {"clock", "temperature", "power"} <= {line.partition(" ")[0] for line in real}
    assert not any("not supported" in line for line in simulated)


def test_a_calm_gpu_was_never_throttled_whatever_its_counters_had_before() -> None:
    assert "throttled never" in said(watched_half(), edge("end"))


@pytest.mark.parametrize(("glyphs", "sign"), [(UNICODE, "✗"), (ASCII, "x")])
def test_failing_cooling_is_told_by_a_sign_and_words_not_by_colour_alone(
    glyphs: Glyphs, sign: str, words: GoldenWords
) -> None:
    text = said(watched_half(), edge("end", throttled_hw_thermal_ns=15_814e9 + 0.02e9), glyphs=glyphs)
    assert f"{sign} hw-thermal 2.0 %" in text
    words(facts(text, "throttled"))


def test_energy_that_nobody_asked_for_says_how_to_ask(words: GoldenWords) -> None:
    text = said(watched_half(), edge("end"))
    assert "--energy" in text
    words(facts(text, "power", "energy"))


def test_energy_of_a_call_has_its_uncertainty_and_idle_beside_it(words: GoldenWords) -> None:
    window = EnergyMeasured(case=ALL.key, device="cuda:0", end_mj=1e9 + 560e3, **ENERGY)  # type: ignore[arg-type]
    idle = EnergyMeasured(case="", device="cuda:0", end_mj=1e9 + 192e3, **{**ENERGY, "calls": 0})  # type: ignore[arg-type]
    text = said(watched_half(), edge("end"), idle, window)
    for number in ("350 W ± 6.2 %", "560 mJ", "368 mJ"):
        assert number in text
    words(facts(text, "energy"))
    assert "disputed" not in text


def test_a_counter_that_the_power_contradicts_says_so(words: GoldenWords) -> None:
    window = EnergyMeasured(
        case=ALL.key, device="cuda:0", end_mj=1e9 + 560e3, power_mw=(600_000.0,), scope="board", **ENERGY  # type: ignore[arg-type]
    )  # fmt: skip
    text = said(watched_half(), edge("end"), window)
    words(facts(text, "energy", "~ disputed"))


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        ({"end_mj": 5.0}, "counter was reset"),
        ({"end_mj": 1e9}, "the window is shorter"),
        ({"end_mj": 2e9, "elapsed_ns": 30e6}, "the window is shorter"),
        ({"reason": "no-permission"}, "no permission"),
    ],
)
def test_no_number_is_a_reason_and_never_0(window: dict[str, Any], reason: str) -> None:
    event = EnergyMeasured(case=ALL.key, device="cuda:0", **{**ENERGY, **window})
    assert f"energy – {reason}" in said(watched_half(), edge("end"), event)


def test_strangers_are_named_and_cannot_write_on_the_terminal() -> None:
    rude = GpuProcess(12, 3 << 30, "bob", "evil\x1b[2J\x07\u202etxt", own=False)
    unseen = GpuProcess(99999, None, None, None, own=False)
    text = said(watched_half(), edge("end", (OURS, rude, unseen), memory_used_bytes=9e9))
    assert "~ shared:" in text
    for name in ("pid 12 (bob, eviltxt), 3.0 GiB", "pid 99999 (outside namespace)"):
        assert name in text
    assert "shared-gpu: " in text
    assert text.replace("\n", "").isprintable()


def test_a_run_of_an_older_version_says_no_more_than_it_knows() -> None:
    lines = read(run_of(*timed()))
    assert not [line for line in lines if "throttled" in line or "temperature" in line]
    clock = half(ALL, "cuda:0", 9, {LATENCY: (GPU_NS,)}, "power-capped")
    assert not [line for line in read(run_of(*timed(), clock)) if "never" in line]


@pytest.mark.parametrize("width", [56, 76, 116, 196])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_nothing_is_wider_than_the_screen(width: int, glyphs: Glyphs) -> None:
    window = EnergyMeasured(
        case=ALL.key, device="cuda:0", end_mj=1e9 + 5e2, power_mw=(6e5,), scope="module", **ENERGY  # type: ignore[arg-type]
    )  # fmt: skip
    guest = GpuProcess(12, 3 << 30, "bob", "a-long-name-of-a-program-that-trains --models", own=False)
    end = edge("end", (OURS, guest), throttled_hw_thermal_ns=2e13)
    lines = raw(watched_half(power_capped=20e6), end, window, width=width, glyphs=glyphs)
    assert max(map(len, lines)) <= width
    assert glyphs is UNICODE or all(line.isascii() for line in lines)


def test_a_remark_behind_bars_moves_below_them_where_it_would_be_cut() -> None:
    for width in range(36, 80, 4):
        lines = [line for line in read(run_of(*timed()), width) if line.endswith((" of the median", " median apart"))]
        assert len(lines) == 4, "the spread of rounds and of calls, on both devices"
        assert max(map(len, lines)) <= width
