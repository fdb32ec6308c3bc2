"""The telemetry page of all GPUs: histories in fixed ranges, what is wrong, and who uses the GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.app.machine_readings import PROCESSES, gpu, idle, lost, mig, moving, state, sweep, text_of
from tests.helpers.golden import GoldenWords

from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Device, GpuProcess, Reading, TelemetryRead
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.telemetry.sampler import aged
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs, means
from cpugpu_tui.ui.panes.lines import plain, width_of
from cpugpu_tui.ui.screens.gpu.overview import overview_lines, process_table

SIZES = {"80x24": (76, 22), "120x40": (116, 38), "200x60": (196, 58), "300x80": (296, 78)}
"""Terminal → width and height of the page's lines."""
COLUMNS = ("kernel-active", "memory", "power", "temperature")
BARS = set(" ▁▂▃▄▅▆▇█")
SHARES = {"kernel_active_pct": Reading(41.0), "cpu_cores": Reading(1.6)}


def lines_of(known: TelemetryState, size: str = "120x40", glyphs: Glyphs = UNICODE) -> list[str]:
    return [plain(line) for line in overview_lines(known, (), *SIZES[size], glyphs)]


def block_of(lines: Sequence[str], label: str) -> list[str]:
    """Return the lines of one GPU or the host."""
    first = next(at for at, line in enumerate(lines) if line.startswith(label))
    ends = (at for at, line in enumerate(lines[first + 1 :], first + 1) if line[:1] in ("G", "h", "!", ""))
    return list(lines[first : next(ends)])


def bars_of(lines: Sequence[str], label: str, column: int) -> str:
    """Return the lowest line of a history."""
    heads = next(line for line in lines if line.strip().startswith(COLUMNS[0]))
    starts = [heads.index(name) for name in COLUMNS]
    ends = [start - 2 for start in starts[1:]] + [len(heads)]
    return block_of(lines, label)[-1].ljust(len(heads))[starts[column] : ends[column]]


# ------------------------------------------------------------------ how much fits


def test_at_120x40_eight_gpus_the_host_and_their_processes_need_no_scrolling() -> None:
    known = state(*[replace(moving(second), gpus=tuple(
        replace(each, processes=PROCESSES if each.index == 0 else ()) for each in moving(second).gpus
    )) for second in range(150)])  # fmt: skip
    lines = lines_of(known)
    assert len(lines) <= 38
    for index in range(8):
        block = block_of(lines, f"GPU {index}")
        assert len(block) == 3, "numbers and two lines of history"
        for number in ("%", "MHz", "/140 GiB", "/700 W", "throttles at 87C"):
            assert number in block[0]
        assert set(block[2][8:].rstrip()) <= BARS
    assert "train.py" in text_of(overview_lines(known, (), 116, 38, UNICODE))


def test_histories_grow_with_the_terminal_and_with_fewer_gpus() -> None:
    def lines_a_gpu(size: str, gpus: int) -> int:
        return len(block_of(lines_of(state(*[moving(second, gpus) for second in range(9)]), size), "GPU 0"))

    assert [lines_a_gpu(size, 8) for size in SIZES] == [2, 3, 5, 7]
    assert [lines_a_gpu("120x40", gpus) for gpus in (8, 4, 2, 1)] == [3, 5, 9, 9]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_nothing_is_wider_than_the_page(size: str, glyphs: Glyphs) -> None:
    odd = sweep(gpu(0, processes=PROCESSES, throttle=("hw-thermal",)), lost(1), mig(2), idle(3), gpu(4, processes=None),
                problem="GPU 3 has not answered for 7 s. Look for Xid errors in dmesg.")  # fmt: skip
    lines = overview_lines(state(odd, odd, odd), (), *SIZES[size], glyphs)
    assert [plain(line) for line in lines if width_of(line) > SIZES[size][0]] == []
    assert glyphs is UNICODE or text_of(lines).isascii()


# ------------------------------------------------------------------ histories


def test_a_range_is_fixed_and_ends_at_the_limit() -> None:
    half = {"kernel_active_pct": 50.0, "memory_used_bytes": 75e9, "power_mw": 350_000.0, "temperature_c": 43.5}
    full = {"kernel_active_pct": 100.0, "memory_used_bytes": 150e9, "power_mw": 700_000.0, "temperature_c": 87.0}
    for values, bar in ((half, "▄▅"), (full, "█")):
        lines = lines_of(state(*[sweep(*(gpu(index, values=dict(values)) for index in range(8)))] * 150), "80x24")
        for column in range(4):
            lowest = set(bars_of(lines, "GPU 0", column).strip())
            assert lowest
            assert lowest <= set(bar), COLUMNS[column]
    (upper, *_) = block_of(lines_of(state(*[sweep(*[gpu(values=dict(half))] * 8)] * 150)), "GPU 0")[1:]
    assert set(upper[8:]) <= set(" ▁"), "half of the range is the lower one of two lines"


def test_a_step_of_a_history_keeps_its_value_once_it_is_over() -> None:
    times_ns = [second * 10**9 for second in range(100)]
    values = [float(second % 7) for second in range(100)]
    before, after = (means(values[:now], times_ns[:now], 5.0, 10) for now in (94, 95))
    assert before[:-1] == after[:-1]
    assert before[-1] == pytest.approx(sum(values[90:94]) / 4)
    assert means(values[:96], times_ns[:96], 5.0, 10)[:-1] == after[1:], "the next step has begun"


def test_a_step_without_a_reading_is_a_gap_and_never_low() -> None:
    times_ns = [0, 10**9, 12 * 10**9]
    assert means([4.0, None, 6.0], times_ns, 5.0, 4) == (None, 4.0, None, 6.0)
    assert means([7.0], times_ns, 5.0, 3) == (None, None, 7.0), "a value that came late has the newest points"


def test_the_page_says_how_to_read_a_history(words: GoldenWords) -> None:
    for size in SIZES:
        words(lines_of(state(moving(0)), size)[0])


# ------------------------------------------------------------------ what is not there


def test_a_number_that_the_driver_does_not_give_is_a_dash_with_its_reason() -> None:
    for reason, told in REASONS.items():
        unknown = gpu(values={key: Reading(None, reason) for key in KEYS}, throttle=())
        text = " ".join(" ".join(block_of(lines_of(state(sweep(unknown)), "200x60"), "GPU 0")).split())
        assert text.count(f"– {told}"[:20]) == 4, reason
        assert "0%" not in text


def test_an_unknown_limit_names_the_end_of_the_bars_instead() -> None:
    seen = gpu(values={"power_limit_mw": Reading(None, "not-supported"), "memory_total_bytes": Reading(None, "mig"),
                       "slowdown_temperature_c": Reading(None, "not-supported")}, throttle=())  # fmt: skip
    text = text_of(overview_lines(state(sweep(seen)), (), *SIZES["200x60"], UNICODE))
    assert "698 W, bar to 1000 W" in text
    assert "61C, bar to 100 C" in text
    assert "no range known" in text


def test_a_lost_gpu_has_its_sentence_and_the_others_their_histories() -> None:
    lines = lines_of(state(sweep(lost(0), gpu(1))))
    assert str(lost(0).problem) in block_of(lines, "GPU 0")[0]
    assert "698/700 W" in block_of(lines, "GPU 1")[0]


def test_what_spoils_a_measurement_is_said_below_with_its_gpu(words: GoldenWords) -> None:
    bad = gpu(3, processes=PROCESSES, persistence=False, throttle=("hw-thermal",), values={"ecc_corrected_count": 2.0})
    lines = lines_of(state(sweep(idle(0), bad)))
    words(line for line in lines if line.startswith("!"))
    assert not [line for line in lines_of(state(sweep(gpu(0)))) if line.startswith("!")], "at its limit is no warning"


# ------------------------------------------------------------------ processes


def test_processes_have_their_shares_and_each_dash_a_reason(words: GoldenWords) -> None:
    unseen = {"kernel_active_pct": Reading(None, "no-sample"), "cpu_cores": Reading(None, "unresolved")}
    first, second, ours = PROCESSES
    seen = gpu(0, processes=(ours, replace(first, readings=SHARES), replace(second, readings=unseen)))
    words(text_of(overview_lines(state(sweep(seen)), (), *SIZES["120x40"], UNICODE)).split("Processes\n")[1])


def test_others_stand_before_our_own_processes() -> None:
    everywhere = tuple(gpu(index, processes=(PROCESSES[2],)) for index in range(7))
    lines = lines_of(state(sweep(*everywhere, gpu(7, processes=PROCESSES[:1]))))
    pids = [line.split()[1] for line in lines[lines.index("Processes") + 2 :] if line[2:3].isdigit()]
    assert pids == ["4242", *["77"] * 7]


def test_a_process_of_a_slice_is_listed_with_it() -> None:
    board = mig()
    first = replace(board.instances[0], processes=PROCESSES[:1])
    seen = replace(board, processes=PROCESSES[:1], instances=(first, board.instances[1]))
    rows = [line for line in lines_of(state(sweep(seen))) if "4242" in line and not line.startswith("!")]
    assert [row.split()[:4] for row in rows] == [["0", "MIG", "0", "4242"]]


def test_nobody_and_nobody_knows_are_told_apart() -> None:
    text = "\n".join(lines_of(state(sweep(gpu(0, processes=()), gpu(1, processes=None)))))
    assert "none" in text.split("Processes")[1]
    assert "– GPU 1: processes cannot be listed" in text


def test_an_old_share_is_dimmed() -> None:
    old = {key: replace(reading, age_s=30.0) for key, reading in SHARES.items()}
    lines = process_table([("0", replace(PROCESSES[0], readings=old))], 116, UNICODE)
    assert {role for line in lines for text, role in line if "41%" in text or "cores" in text} == {"stale"}


strange: st.SearchStrategy[GpuProcess] = st.builds(
    GpuProcess, st.integers(0, 2**31), st.none() | st.integers(0, 2**50), st.none() | st.text(), st.none() | st.text(),
    st.booleans(), st.just({}) | st.just(SHARES),
)  # fmt: skip


@given(st.lists(strange, min_size=1, max_size=4), st.integers(60, 250), st.sampled_from([UNICODE, ASCII]))
def test_names_of_strangers_fit_the_table(processes: list[GpuProcess], width: int, glyphs: Any) -> None:
    lines = process_table([("0", process) for process in processes], width, glyphs)
    assert [line for line in lines if width_of(line) > width] == []


def test_the_shares_of_a_gpu_that_hangs_grow_old() -> None:
    (row,) = aged((gpu(processes=(replace(PROCESSES[0], readings=SHARES),)),), 9.0)
    assert [reading.age_s for process in row.processes or () for reading in process.readings.values()] == [9.0, 9.0]


def test_torchs_name_stands_below_that_of_its_gpu() -> None:
    devices = (Device("cuda:1", "NVIDIA H200", gpu(3).uuid),)
    lines = [plain(line) for line in overview_lines(state(sweep(gpu(0), gpu(3))), devices, 116, 38, UNICODE)]
    assert block_of(lines, "GPU 3")[1].startswith("cuda:1")
    assert not block_of(lines, "GPU 0")[1].startswith("cuda")


def test_narrow_terminals_get_the_panes_lines_and_the_processes() -> None:
    read: TelemetryRead = sweep(gpu(processes=PROCESSES))
    for width in (36, 46, 56):
        assert [
            plain(line) for line in overview_lines(state(read), (), width, 10, UNICODE) if width_of(line) > width
        ] == []
    lines = overview_lines(state(read), (), 36, 10, UNICODE)
    assert "698" in text_of(lines)
    assert "train.py" in text_of(lines)
