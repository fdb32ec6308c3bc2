"""The text of the telemetry pane at usual sizes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.app.machine_readings import PROCESSES, gpu, idle, lost, marked, mig, moving, reading, state, sweep
from tests.helpers.golden import assert_golden, paragraphs

from cpugpu_tui.cli.output.telemetry_table import throttle_text
from cpugpu_tui.machine.nvml.values import KEYS, SLOW_KEYS
from cpugpu_tui.model import Device, GpuProcess, GpuTelemetry, Reading, TelemetryRead
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.panes.lines import plain, width_of
from cpugpu_tui.ui.panes.telemetry.arrangements import telemetry_lines
from cpugpu_tui.ui.panes.telemetry.facts import BUSY_SWEEPS
from cpugpu_tui.ui.panes.telemetry.wording import GPU, GPU_GROUPS, top_of

SMALL, NORMAL, COLUMN = (78, 4), (116, 10), (36, 80)
"""Cells of the pane at 80×24, 120×40 and 200×60; the last one is higher, so that nothing is left out."""
UNDER_LOAD = BUSY_SWEEPS + 1
NONE = {key: Reading(None, "no-permission") for key in KEYS}
BUSY, AT_REST = sweep(gpu(values={"pcie_generation": 1.0})), sweep(idle(0, pcie_generation=1.0))
SLICES = mig()
STRANGER = GpuProcess(4242, 1 << 30, "ann", "python train.py", own=False)


def named_slices():
    """A GPU whose instances repeat its name, as the driver writes it; the second was read 9 s ago."""
    old = {key: replace(each, age_s=9.0) for key, each in SLICES.instances[1].readings.items()}
    first, second = (replace(each, name=f"{SLICES.name} MIG 1g.18gb") for each in SLICES.instances)
    return replace(SLICES, instances=(first, replace(second, readings=old)))


def on_a_slice(*listed):
    """Another user's process on a slice, which the driver also lists for the GPU, or not."""
    first, second = SLICES.instances
    return sweep(replace(SLICES, processes=listed, instances=(replace(first, processes=(STRANGER,)), second)))


def with_throttle(*words):
    return sweep(*(gpu(index, throttle=("power-capped", word)) for index, word in enumerate(words)))


SEEN: dict[str, tuple[TelemetryRead, ...]] = {
    "others beside our agent": (sweep(gpu(3, processes=PROCESSES)),) * 3,
    "two at the limit, one shared": (sweep(gpu(), gpu(1, processes=PROCESSES)),),
    "processes that cannot be listed": (sweep(gpu(processes=None)),),
    "a tenth of the limit is a low line": (sweep(gpu(values={"power_mw": 70_000.0})),) * 40,
    "no reading has a number": (sweep(gpu(values=NONE, throttle=())),),
    "a GPU without readings": (sweep(GpuTelemetry(0, None, "", None, {})),),
    "old for their kinds": (sweep(gpu(values={key: reading(key, age_s=age_s) for key, age_s in
                                              (("power_mw", 4.0), ("pcie_generation", 13.0))})),),
    "not old for their kinds": (sweep(gpu(values={key: reading(key, age_s=age_s) for key, age_s in
                                                  (("power_mw", 0.5), ("pcie_generation", 4.0))})),),
    "reasons that matter": (with_throttle("thermal", "hw-thermal", "power-brake", "hw-slowdown"),),
    "heat between two readings": (sweep(gpu(values={"throttled_thermal_pct": 12.0}, throttle=())),),
    "used memory with the driver's reserve":
        (sweep(gpu(values={"memory_reserved_bytes": Reading(None, "in-used")}, throttle=())),),
    "a slow link under load": (BUSY,) * UNDER_LOAD,
    "a slow link, two sweeps are not yet load": (BUSY,) * 2,
    "a slow link at rest": (AT_REST,) * UNDER_LOAD,
    "a slow link that may be from before the load": (AT_REST,) * UNDER_LOAD + (BUSY,) * (BUSY_SWEEPS - 1),
    "memory errors, no persistence": (sweep(gpu(values={"ecc_corrected_count": 3.0, "ecc_uncorrected_count": 1.0},
                                                persistence=False)),),
    "persistence unknown, data over NVLink": (sweep(gpu(values={"nvlink_tx_bytes_per_s": 382e9}, persistence=None)),),
    "idle": (sweep(idle()),),
    "slices, named by the driver": (sweep(named_slices()),),
    "somebody on a slice": (on_a_slice(STRANGER),),
    "a lost GPU beside another": (sweep(lost(0), gpu(1)),),
    "no driver": (sweep(problem="No NVIDIA driver found. CPU results only."),),
}  # fmt: skip
"""What the driver tells, sweep by sweep."""

DEVICES = (Device("cpu", "Xeon"), Device("cuda:0", "NVIDIA H200", gpu(3).uuid),
           Device("cuda:1", "NVIDIA H200 MIG", SLICES.instances[1].uuid))  # fmt: skip
"""CUDA_VISIBLE_DEVICES=3: torch's first GPU is NVML's fourth."""


def frame(*sweeps, size=COLUMN, glyphs=UNICODE, devices=DEVICES):
    return marked(telemetry_lines(state(*sweeps), *size, glyphs, devices))


@pytest.mark.parametrize("size", [SMALL, NORMAL, COLUMN], ids=["small", "normal", "column"])
def test_what_a_person_sees(size):
    """Also: whatever is seen is ASCII on a terminal without UTF-8."""
    assert_golden(
        f"frames/telemetry-{size[0]}", paragraphs({name: frame(*seen, size=size) for name, seen in SEEN.items()})
    )
    odd = gpu(processes=(replace(PROCESSES[0], user="jürgen", command="python 東京"),), throttle=("thermal",))
    for seen in (*SEEN.values(), (sweep(odd, mig(1), lost(2)),)):
        assert frame(*seen, size=size, glyphs=ASCII).translate({ord(sign): "" for sign in "‹›"}).isascii()


# ------------------------------------------------------------------ numbers


def test_every_key_of_a_gpu_has_a_label_a_unit_and_the_right_patience():
    assert sorted(GPU) == sorted(KEYS)
    assert sum(len(group) for group in GPU_GROUPS.values()) == len(KEYS)
    assert {key for key, quantity in GPU.items() if quantity.is_slow} == set(SLOW_KEYS)


def test_without_a_limit_the_range_is_a_fixed_one_and_without_a_total_nothing_is_drawn():
    readings = gpu(values={"power_limit_mw": Reading(None, "not-supported"),
                           "memory_total_bytes": Reading(None, "not-supported")}).readings  # fmt: skip
    assert top_of(GPU["power_mw"], readings) == 1_000_000.0
    assert top_of(GPU["memory_used_bytes"], readings) is None
    assert top_of(GPU["pcie_tx_bytes_per_s"], readings) == pytest.approx(63e9, rel=0.01)


@pytest.mark.parametrize("words", [("idle",), ("app-clocks",), ("display",), ("idle", "unknown 0x400")])
def test_a_reason_is_named_as_in_the_table_and_takes_room_only_if_it_matters(words):
    """A newer driver's reason that this version does not know must not be shown as `none`."""
    quiet = replace(idle(), throttle=words)
    (line,) = [line for line in frame(sweep(quiet)).splitlines() if line.startswith("throttle ")]
    assert line.split(maxsplit=1)[1] == (words[0] if len(words) == 1 else f"‹warn ! ›‹warn {words[1]}›")
    assert throttle_text(quiet) == ", ".join(words)
    for size in (SMALL, NORMAL):
        assert ("unknown 0x400" in frame(sweep(quiet), size=size)) == (len(words) == 2)
    assert words[0] not in frame(sweep(quiet), size=SMALL)


# ------------------------------------------------------------------ which GPU, who is on it


def test_the_mapping_goes_by_uuid_and_not_by_number():
    text = " ".join(frame(sweep(gpu(0), gpu(3))).split())
    assert "cuda:0 ↔ NVML 3 ↔ GPU-3234abcd… ↔ 0000:07:00.0" in text
    assert "NVIDIA H200 NVML 0 ↔ GPU-0234abcd… ↔ 0000:04:00.0" in text


def test_somebody_on_a_slice_is_counted_once_wherever_the_driver_lists_them():
    assert frame(on_a_slice()) == frame(on_a_slice(STRANGER))


def test_at_80x24_the_gpu_of_the_run_is_shown_and_a_hot_one_is_not_hidden():
    hot = replace(gpu(6), throttle=("hw-thermal",))
    read = sweep(*(hot if index == 6 else gpu(index) for index in range(8)))
    lines = frame(read, size=SMALL, devices=(Device("cuda:0", "NVIDIA H200", gpu(5).uuid),)).splitlines()
    assert [line[:5] for line in lines] == ["GPU 0", "GPU 5", "2 of ", "host "]
    assert "!! GPU 6 hw-thermal" in lines[2]


# ------------------------------------------------------------------ form


anything: st.SearchStrategy[GpuTelemetry] = st.builds(
    lambda index, values, throttle, processes, persistence: gpu(
        index, values=values, throttle=throttle, processes=processes, persistence=persistence
    ),
    st.integers(0, 99),
    st.dictionaries(
        st.sampled_from(KEYS),
        st.builds(lambda value, age: Reading(value, None, age), st.floats(0, 1e15), st.floats(0, 1e4))
        | st.builds(lambda reason: Reading(None, reason), st.sampled_from(["mig", "timeout", "not-yet", "gpu-lost"])),
    ),
    st.lists(st.sampled_from(["idle", "power-capped", "thermal", "hw-thermal", "new-word"]), unique=True).map(tuple),
    st.none() | st.just(()) | st.just(PROCESSES * 4),
    st.none() | st.booleans(),
)


@given(st.lists(anything, max_size=9), st.integers(38, 250), st.integers(1, 60), st.sampled_from([UNICODE, ASCII]))
def test_whatever_is_read_fits_its_pane(gpus, width, height, glyphs):
    lines = telemetry_lines(state(sweep(*gpus)), width, height, glyphs)
    assert 1 <= len(lines) <= height
    assert [line for line in lines if width_of(line) > width] == []


def test_columns_of_eight_gpus_stand_still_while_their_values_change():
    first, second = (
        [plain(line) for line in telemetry_lines(state(moving(second)), *NORMAL, UNICODE)] for second in (3, 4)
    )
    for before, after in zip(first, second, strict=True):
        assert before.index("kernel-active" if "GPU" in before else "CPU") == after.index(
            "kernel-active" if "GPU" in after else "CPU"
        )
        assert (before.find(" W "), before.find("MHz")) == (after.find(" W "), after.find("MHz"))
