"""The telemetry page of all GPUs: histories in fixed ranges, what is wrong, and who uses the GPUs."""

from dataclasses import replace

import pytest
from tests.helpers.app.machine_readings import PROCESSES, gpu, idle, lost, marked, mig, moving, state, sweep, text_of
from tests.helpers.golden import assert_golden, paragraphs

from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Device, Reading, TelemetryRead
from cpugpu_tui.telemetry.sampler import aged
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, means
from cpugpu_tui.ui.panes.lines import plain, width_of
from cpugpu_tui.ui.screens.gpu.overview import overview_lines

SIZES = {"80x24": (76, 22), "120x40": (116, 38), "200x60": (196, 58), "300x80": (296, 78)}
"""Terminal → width and height of the page's lines."""
SHARES = {"kernel_active_pct": Reading(41.0), "cpu_cores": Reading(1.6)}


def lines_of(known, size="120x40", glyphs=UNICODE):
    return [plain(line) for line in overview_lines(known, (), *SIZES[size], glyphs)]


def block_of(lines, label):
    """Return the lines of one GPU or the host."""
    first = next(at for at, line in enumerate(lines) if line.startswith(label))
    ends = (at for at, line in enumerate(lines[first + 1 :], first + 1) if line[:1] in ("G", "h", "!", ""))
    return list(lines[first : next(ends)])


UNSEEN = {"kernel_active_pct": Reading(None, "no-sample"), "cpu_cores": Reading(None, "unresolved")}
OLD = {key: replace(each, age_s=30.0) for key, each in SHARES.items()}
OTHER, NAMELESS, OURS = PROCESSES
SHARED = gpu(processes=(OURS, replace(OTHER, readings=SHARES), replace(NAMELESS, readings=UNSEEN)))
BAD = gpu(3, processes=PROCESSES, persistence=False, throttle=("hw-thermal",), values={"ecc_corrected_count": 2.0})
BOARD = mig()
ON_A_SLICE = replace(BOARD, processes=(OTHER,), instances=(
    replace(BOARD.instances[0], processes=(OTHER,)), BOARD.instances[1],
))  # fmt: skip
LIMITLESS = gpu(values={"power_limit_mw": Reading(None, "not-supported"), "memory_total_bytes": Reading(None, "mig"),
                        "slowdown_temperature_c": Reading(None, "not-supported")}, throttle=())  # fmt: skip


def share_of_range(share):
    """150 sweeps in which every history has this share of its range."""
    tops = {"kernel_active_pct": 100.0, "memory_used_bytes": 150e9, "power_mw": 700_000.0, "temperature_c": 87.0}
    return (sweep(*[gpu(values={key: top * share for key, top in tops.items()})] * 8),) * 150


def moving_for(seconds, gpus=8):
    """Eight GPUs whose values jump; the first one has processes."""
    reads = (moving(second, gpus) for second in range(seconds))
    return tuple(replace(read, gpus=(replace(read.gpus[0], processes=PROCESSES), *read.gpus[1:])) for read in reads)


MOVING = moving_for(150)

SEEN: dict[str, tuple[tuple[TelemetryRead, ...], int, int]] = {
    **{f"eight GPUs at {name}": (MOVING, *size) for name, size in SIZES.items()},
    "half of each range": (share_of_range(0.5), 76, 22),
    "half of each range in two lines": (share_of_range(0.5), 116, 38),
    "all of each range": (share_of_range(1.0), 76, 22),
    "limits that are not known": ((sweep(LIMITLESS),), 196, 8),
    "a lost GPU beside another": ((sweep(lost(0), gpu(1)),), 116, 8),
    "what spoils measurements": ((sweep(idle(0), BAD),), 116, 8),
    "processes with and without shares": ((sweep(SHARED),), 116, 8),
    "an old share": ((sweep(gpu(processes=(replace(OTHER, readings=OLD),))),), 116, 8),
    "others before ours": ((sweep(*(gpu(index, processes=(OURS,)) for index in range(7)), gpu(7, processes=(OTHER,))),),
                           116, 8),
    "a process of a slice": ((sweep(ON_A_SLICE),), 116, 8),
    "nobody, and nobody knows": ((sweep(gpu(0, processes=()), gpu(1, processes=None)),), 116, 8),
    "the GPU of the run": ((sweep(gpu(0), gpu(3)),), 116, 12),
    "36 columns": ((sweep(SHARED),), 36, 10),
    "56 columns": ((sweep(SHARED),), 56, 10),
}  # fmt: skip
"""What the driver tells, and the width and height of the page."""


def test_what_a_person_sees():
    devices = (Device("cuda:1", "NVIDIA H200", gpu(3).uuid),)
    found = {name: overview_lines(state(*reads), devices, *size, UNICODE) for name, (reads, *size) in SEEN.items()}
    assert_golden("frames/telemetry-overview", paragraphs({name: marked(lines) for name, lines in found.items()}))
    assert all(width_of(line) <= SEEN[name][1] for name, lines in found.items() for line in lines)


# ------------------------------------------------------------------ how much fits


def test_histories_grow_with_fewer_gpus():
    blocks = [block_of(lines_of(state(*moving_for(9, gpus))), "GPU 0") for gpus in (8, 4, 2, 1)]
    assert [len(block) for block in blocks] == [3, 5, 9, 9]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_nothing_is_wider_than_the_page(size, glyphs):
    odd = sweep(gpu(0, processes=PROCESSES, throttle=("hw-thermal",)), lost(1), mig(2), idle(3), gpu(4, processes=None),
                problem="GPU 3 has not answered for 7 s. Look for Xid errors in dmesg.")  # fmt: skip
    lines = overview_lines(state(odd, odd, odd), (), *SIZES[size], glyphs)
    assert [plain(line) for line in lines if width_of(line) > SIZES[size][0]] == []
    assert glyphs is UNICODE or text_of(lines).isascii()


# ------------------------------------------------------------------ histories


def test_a_step_of_a_history_keeps_its_value_once_it_is_over():
    times_ns = [second * 10**9 for second in range(100)]
    values = [float(second % 7) for second in range(100)]
    before, after = (means(values[:now], times_ns[:now], 5.0, 10) for now in (94, 95))
    assert (before[:-1], before[-1]) == (after[:-1], pytest.approx(sum(values[90:94]) / 4))
    assert means(values[:96], times_ns[:96], 5.0, 10)[:-1] == after[1:], "the next step has begun"


def test_a_step_without_a_reading_is_a_gap_and_never_low():
    times_ns = [0, 10**9, 12 * 10**9]
    assert means([4.0, None, 6.0], times_ns, 5.0, 4) == (None, 4.0, None, 6.0)
    assert means([7.0], times_ns, 5.0, 3) == (None, None, 7.0), "a value that came late has the newest points"


def test_a_number_that_the_driver_does_not_give_is_a_dash_with_its_reason():
    for reason, told in REASONS.items():
        unknown = gpu(values={key: Reading(None, reason) for key in KEYS}, throttle=())
        text = " ".join(" ".join(block_of(lines_of(state(sweep(unknown)), "200x60"), "GPU 0")).split())
        assert text.count(f"– {told}"[:20]) == 4, reason
        assert "0%" not in text


def test_the_shares_of_a_gpu_that_hangs_grow_old():
    (row,) = aged((gpu(processes=(replace(PROCESSES[0], readings=SHARES),)),), 9.0)
    assert [reading.age_s for process in row.processes or () for reading in process.readings.values()] == [9.0, 9.0]
