"""The text of the telemetry pane at usual sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.app.machine_readings import PROCESSES, gpu, idle, lost, mig, moving, reading, state, sweep, text_of
from tests.helpers.golden import GoldenWords

from cpugpu_tui.cli.output.telemetry_table import throttle_text
from cpugpu_tui.machine.nvml.values import KEYS, SLOW_KEYS
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Device, GpuProcess, GpuTelemetry, Reading, TelemetryRead
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from cpugpu_tui.ui.panes.lines import Spans, plain, width_of
from cpugpu_tui.ui.panes.telemetry import telemetry_lines
from cpugpu_tui.ui.panes.telemetry.facts import BUSY_SWEEPS, gpu_facts
from cpugpu_tui.ui.panes.telemetry.wording import GPU, GPU_GROUPS, top_of

SMALL, NORMAL, COLUMN = (78, 4), (116, 10), (36, 56)
"""Cells of the pane at 80×24, 120×40 and 200×60."""
UNDER_LOAD = BUSY_SWEEPS + 1


def lines_of(*sweeps: TelemetryRead, size: tuple[int, int] = COLUMN, glyphs: Glyphs = UNICODE,
             devices: tuple[Device, ...] = ()) -> list[Spans]:  # fmt: skip
    return telemetry_lines(state(*sweeps), *size, glyphs, devices)


def text_at(*sweeps: TelemetryRead, size: tuple[int, int] = COLUMN, glyphs: Glyphs = UNICODE,
            devices: tuple[Device, ...] = ()) -> str:  # fmt: skip
    return text_of(lines_of(*sweeps, size=size, glyphs=glyphs, devices=devices))


def role_of(lines: list[Spans], wanted: str) -> str:
    """Return the role of the piece of text that contains `wanted`."""
    return next(role for line in lines for text, role in line if wanted in text)


# ------------------------------------------------------------------ numbers


def test_every_key_of_a_gpu_has_a_label_a_unit_and_the_right_patience() -> None:
    assert sorted(GPU) == sorted(KEYS)
    assert sum(len(group) for group in GPU_GROUPS.values()) == len(KEYS)
    assert {key for key, quantity in GPU.items() if quantity.is_slow} == set(SLOW_KEYS)


def test_a_column_says_what_a_person_who_benchmarks_asks(words: GoldenWords) -> None:
    text = text_at(*[sweep(gpu(3, processes=PROCESSES))] * 3)
    words(text)
    assert "efficien" not in text


def test_at_80_columns_a_capped_gpu_keeps_its_numbers_in_one_line() -> None:
    lines = lines_of(sweep(gpu(), gpu(1, processes=PROCESSES)), size=SMALL)
    assert len(lines) == 3
    for wanted in ("97%", "698 W", "12/140 GiB", "▼ capped 43%"):
        assert wanted in plain(lines[0])
        assert wanted in plain(lines[1]), "who shares a GPU asks how much of its memory is left"
    assert "1575 MHz" in plain(lines[0])
    assert "! 2 others" in plain(lines[1])


def test_a_history_keeps_its_range_however_small_the_values() -> None:
    small = sweep(gpu(values={"power_mw": 70_000.0, "power_limit_mw": 700_000.0}))
    drawn = [line for line in text_at(*[small] * 40).splitlines() if set(line) <= set(" ▁▂▃▄▅▆▇█") and line.strip()]
    assert drawn[1] == "▂" * 36, "a tenth of the limit is a low line, not a full one"


def test_without_a_limit_the_range_is_a_fixed_one_and_without_a_total_nothing_is_drawn() -> None:
    readings = gpu(values={"power_limit_mw": Reading(None, "not-supported"),
                           "memory_total_bytes": Reading(None, "not-supported")}).readings  # fmt: skip
    assert top_of(GPU["power_mw"], readings) == 1_000_000.0
    assert top_of(GPU["memory_used_bytes"], readings) is None
    assert top_of(GPU["pcie_tx_bytes_per_s"], readings) == pytest.approx(63e9, rel=0.01)


def test_a_value_that_is_not_there_is_a_dash_with_a_reason_never_a_zero() -> None:
    unknown = gpu(values={key: Reading(None, "no-permission") for key in KEYS}, throttle=())
    text = text_at(sweep(unknown))
    gpu_part = text.split("host")[0]
    assert gpu_part.count("– no permission") == 8
    assert "0%" not in gpu_part
    assert "none" not in gpu_part, "nobody knows whether it is throttled"


@pytest.mark.parametrize(("key", "age_s", "role"), [
    ("power_mw", 0.5, "text"), ("power_mw", 4.0, "stale"),
    ("pcie_generation", 4.0, "text"), ("pcie_generation", 13.0, "stale"),
])  # fmt: skip
def test_what_is_old_for_its_kind_is_dimmed(key: str, age_s: float, role: str) -> None:
    old = gpu(values={key: reading(key, age_s=age_s)})
    lines = lines_of(sweep(old))
    assert role_of(lines, "698/700 W" if key == "power_mw" else "gen 5 ×16") == role


# ------------------------------------------------------------------ throttling


def test_power_capped_is_said_with_its_share_and_is_no_warning() -> None:
    lines = lines_of(sweep(gpu()))
    assert "▼ power-capped 43%" in text_of(lines)
    assert {role for line in lines for _, role in line} & {"warn", "bad"} == set()


@pytest.mark.parametrize("word", ["idle", "app-clocks", "display"])
def test_what_says_nothing_about_a_measurement_is_named_as_everywhere_but_warns_of_nothing(word: str) -> None:
    quiet = replace(idle(), throttle=(word,))
    lines = lines_of(sweep(quiet))
    (line,) = [plain(line) for line in lines if plain(line).startswith("throttle ")]
    assert line.split() == ["throttle", word]
    assert throttle_text(quiet) == word, "the table's word"
    assert role_of(lines, word) == "text"
    assert word not in text_at(sweep(quiet), size=SMALL), "no room is spent on it"


@pytest.mark.parametrize("size", [SMALL, NORMAL, COLUMN])
def test_a_reason_without_a_name_is_said_by_its_bits(size: tuple[int, int]) -> None:
    """A newer driver's reason that this version does not know must not be shown as `none`."""
    nameless = replace(idle(), throttle=("idle", "unknown 0x400"))
    text = text_at(sweep(nameless), size=size)
    assert "! unknown 0x400" in text
    assert throttle_text(nameless) == "idle, unknown 0x400"


@pytest.mark.parametrize(("size", "wanted"), [
    (SMALL, "12/140 GiB +res"), (NORMAL, "12.1/140 GiB +reserve"), (COLUMN, "12.1/140 GiB +reserve"),
])  # fmt: skip
def test_memory_that_holds_the_drivers_reserve_says_so(size: tuple[int, int], wanted: str) -> None:
    """Old drivers count their reserve as used: 2.6 GB instead of 2.0."""
    old = gpu(values={"memory_reserved_bytes": Reading(None, "in-used")}, throttle=())
    assert wanted in text_at(sweep(old), size=size)
    assert "reserve" not in text_at(sweep(gpu()), size=size)


def test_a_slice_is_told_by_its_profile_and_how_old_its_number_is() -> None:
    """The driver's name of an instance begins with that of the GPU, which would fill the line."""
    board = mig()
    name = f"{board.name} MIG 1g.18gb"
    readings = {key: replace(r, age_s=9.0) for key, r in board.instances[1].readings.items()}
    first, second = (replace(each, name=name) for each in board.instances)
    text = text_at(sweep(replace(board, instances=(first, replace(second, readings=readings)))))
    assert "MIG 0 1g.18gb  2.1/17.5 GiB\n" in text
    assert "MIG 1 1g.18gb 2.1/17.5 GiB 9 s old" in text


@pytest.mark.parametrize(("word", "sign", "role"), [
    ("thermal", "! ", "warn"), ("hw-thermal", "!! ", "bad"), ("power-brake", "!! ", "bad"),
    ("hw-slowdown", "!! ", "bad"),
])  # fmt: skip
@pytest.mark.parametrize("size", [SMALL, NORMAL, COLUMN])
def test_what_spoils_a_measurement_alarms_by_sign_and_words(
    word: str, sign: str, role: str, size: tuple[int, int]
) -> None:
    lines = lines_of(sweep(gpu(throttle=("power-capped", word))), size=size)
    assert f"{sign}{word}" in text_of(lines)
    assert role_of(lines, word) == role


def test_heat_between_two_readings_is_known_by_its_counter() -> None:
    hot = gpu(values={"throttled_thermal_pct": 12.0}, throttle=())
    assert "! thermal 12%, power-capped 43%" in text_at(sweep(hot), size=NORMAL)


# ------------------------------------------------------------------ links, errors, persistence


SLOW_LINK = {"pcie_generation": 1.0}


def test_a_slow_link_is_a_warning_only_after_some_time_under_load(words: GoldenWords) -> None:
    busy, at_rest = sweep(gpu(values=SLOW_LINK)), sweep(idle(0, **SLOW_LINK))
    assert "! gen 1 ×16 of gen 5 ×16" in text_at(*[busy] * UNDER_LOAD)
    assert "!" not in text_at(busy, busy), "two sweeps are not yet load: the link may have been read before it began"
    (line,) = [line for line in text_at(*[at_rest] * UNDER_LOAD).splitlines() if line.startswith("PCIe ")]
    words(line)
    # The link is read every 5 s, so its generation may still be that from before the load.
    assert "!" not in text_at(*[at_rest] * UNDER_LOAD, *[busy] * (BUSY_SWEEPS - 1))


def test_errors_and_persistence_are_said_only_when_there_is_something_to_say() -> None:
    assert "ECC" not in text_at(sweep(gpu()))
    assert "persistence" not in text_at(sweep(gpu()))
    bad = gpu(values={"ecc_corrected_count": 3.0, "ecc_uncorrected_count": 1.0}, persistence=False)
    text = text_at(sweep(bad))
    for wanted in ("!! 1 uncorrected", "! 3 corrected", "! off"):
        assert wanted in text
    assert "persistence" not in text_at(sweep(gpu(persistence=None)))


def test_rates_are_shown_where_something_goes_over_the_links() -> None:
    assert "PCIe rate" not in text_at(sweep(idle()))
    assert "NVLink" not in text_at(sweep(gpu()))
    assert "NVLink rate" in text_at(sweep(gpu(values={"nvlink_tx_bytes_per_s": 382e9})))


# ------------------------------------------------------------------ which GPU, who is on it


def test_the_mapping_goes_by_uuid_and_not_by_number() -> None:
    # CUDA_VISIBLE_DEVICES=3: torch's first GPU is NVML's fourth.
    devices = (Device("cpu", "Xeon"), Device("cuda:0", "NVIDIA H200", gpu(3).uuid))
    text = " ".join(text_at(sweep(gpu(0), gpu(3)), devices=devices, size=(36, 80)).split())
    assert "cuda:0 ↔ NVML 3 ↔ GPU-3234abcd… ↔ 0000:07:00.0" in text
    assert "NVIDIA H200 NVML 0 ↔ GPU-0234abcd… ↔ 0000:04:00.0" in text


def test_mig_slices_stand_below_their_gpu_and_power_is_the_boards() -> None:
    devices = (Device("cuda:0", "NVIDIA H200 MIG", mig().instances[1].uuid),)
    text = text_at(sweep(mig()), devices=devices)
    assert "MIG 0 1g.18gb  2.1/17.5 GiB" in text
    assert "MIG 1 1g.18gb  2.1/17.5 GiB  cuda:0" in text
    assert "power, whole board" in text
    assert f"– {REASONS['mig']}" in text


def test_somebody_on_a_slice_is_counted_once_wherever_the_driver_lists_them() -> None:
    stranger = GpuProcess(4242, 1 << 30, "ann", "python train.py", own=False)
    first, second = mig().instances
    for processes in ((), (stranger,)):
        seen = replace(mig(), processes=processes, instances=(replace(first, processes=(stranger,)), second))
        text = text_at(sweep(seen))
        assert "1 other: ann" in text
        assert text.count("python train.py") == 1


def test_processes_of_others_are_named_and_those_nobody_can_resolve_too() -> None:
    text = text_at(sweep(gpu(processes=PROCESSES)))
    assert "! 2 others: ann, pid 99999" in text
    assert "ann  python train.py --ep  12.0 GiB" in text
    assert "pid 99999 (outside namespace)" in text
    assert "agent" not in text, "ours are no neighbours"
    assert "cannot be listed" in text_at(sweep(gpu(processes=None)))


def test_at_80x24_the_gpu_of_the_run_is_shown_and_a_hot_one_is_not_hidden() -> None:
    hot = replace(gpu(6), throttle=("hw-thermal",))
    read = sweep(*(hot if index == 6 else gpu(index) for index in range(8)))
    devices = (Device("cuda:0", "NVIDIA H200", gpu(5).uuid),)
    lines = lines_of(read, size=SMALL, devices=devices)
    assert [plain(line)[:5] for line in lines] == ["GPU 0", "GPU 5", "2 of ", "host "]
    assert "!! GPU 6 hw-thermal" in plain(lines[2])


def test_a_lost_gpu_takes_one_sentence_and_leaves_the_others_alone() -> None:
    for size in (SMALL, NORMAL, COLUMN):
        text = text_at(sweep(lost(0), gpu(1)), size=size)
        assert str(lost(0).problem) in " ".join(text.split())
        assert ("698 W" if size == SMALL else "698/700 W") in text


# ------------------------------------------------------------------ form


@pytest.mark.parametrize("size", [SMALL, NORMAL, COLUMN])
def test_a_terminal_without_utf8_gets_ascii(size: tuple[int, int]) -> None:
    odd = gpu(processes=(replace(PROCESSES[0], user="jürgen", command="python 東京"),), throttle=("thermal",))
    text = text_at(sweep(odd, mig(1), lost(2)), size=size, glyphs=ASCII)
    assert text.isascii()


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
def test_whatever_is_read_fits_its_pane(gpus: list[GpuTelemetry], width: int, height: int, glyphs: Glyphs) -> None:
    lines = telemetry_lines(state(sweep(*gpus)), width, height, glyphs)
    assert 1 <= len(lines) <= height
    assert [line for line in lines if width_of(line) > width] == []


def test_columns_of_eight_gpus_stand_still_while_their_values_change() -> None:
    first, second = ([plain(line) for line in lines_of(moving(second), size=NORMAL)] for second in (3, 4))
    for before, after in zip(first, second, strict=True):
        assert before.index("kernel-active" if "GPU" in before else "CPU") == after.index(
            "kernel-active" if "GPU" in after else "CPU"
        )
        assert before.find(" W ") == after.find(" W ")
        assert before.find("MHz") == after.find("MHz")


def test_facts_do_not_depend_on_keys_that_are_missing() -> None:
    bare = GpuTelemetry(0, None, "", None, {})
    assert "0%" not in " ".join(fact.text for fact in gpu_facts(bare, {}, UNICODE))
