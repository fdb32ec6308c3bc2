"""What a person reads in the detail of a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from tests.helpers.app.fake_run import opened, settled, start_run
from tests.helpers.golden import GoldenWords
from tests.rooms.ui.screens.test_machine_screen import CPU, GPU, text_of

from cpugpu_tui.model import (
    AS_WRITTEN,
    D2H_PAGEABLE,
    DEVICE,
    DEVICE_WARM,
    ENQUEUE,
    H2D_PAGEABLE,
    LATENCY,
    PAGEABLE,
    PINNED,
    SINGLE,
    SYNCED,
    SYNCHRONISE,
    Calibrated,
    Case,
    CaseFailed,
    CaseFinished,
    CaseStarted,
    Ceilings,
    Check,
    Device,
    DeviceSampled,
    DevicesFound,
    Event,
    KernelsProfiled,
    Plan,
    RunStarted,
    TensorsPlaced,
)
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from cpugpu_tui.ui.panes.lines import plain
from cpugpu_tui.ui.screens.detail import DetailScreen, detail_lines
from cpugpu_tui.ui.screens.detail.device_times import distribution

ALL, ONE = Case("matmul", 64), Case("matmul", 64, threads=1)
DEVICES = (Device("cpu", "Xeon 8480"), Device("cuda:0", "NVIDIA H200", "GPU-1"))

PARTS = {ENQUEUE: 10_500.0, SYNCHRONISE: 8_000.0, DEVICE_WARM: 5_200.0, DEVICE: 7_000.0}
MOVES = {PAGEABLE: 58_000.0, PINNED: 45_000.0, H2D_PAGEABLE: 16_000.0, D2H_PAGEABLE: 15_000.0}
GPU_NS = 24_000.0
APART = "Where the GPU's time goes"
NO_BARS = str.maketrans("", "", "█░")


def calls(ns: float, count: int = 25, slow: Sequence[float] = ()) -> tuple[float, ...]:
    """Calls of different lengths within a few percent, the last of them as slow as told."""
    return (*(ns * (1 + 0.001 * (k * 7 % 31)) for k in range(count - len(slow))), *slow)


def half(case: Case, device: str, index: int, samples: dict[str, tuple[float, ...]], *marks: str) -> DeviceSampled:
    return DeviceSampled(
        case=case.key, device=device, round_index=index, calls_per_block=100, samples=samples, marks=marks
    )


def timed(
    case: Case = ALL, cpu_ns: float = 9_000.0, gpu_ns: float = GPU_NS, gpu: dict[str, float] | None = None,
    singles: int = 25, slow: Sequence[float] = (), threads: int = 16,
) -> list[Event]:  # fmt: skip
    """A case in eight rounds; `gpu` is measured once a round beside latency, `slow` are calls of the GPU's last one."""
    events: list[Event] = [CaseStarted(case=case.key, flops=2.0 * 64**3, bytes_moved=12.0 * 64**2, operations=1)]
    for device, ns in (("cpu", cpu_ns), ("cuda:0", gpu_ns)):
        events.append(
            Calibrated(
                case=case.key, device=device, estimate_ns=ns, calls_per_block=100, blocks=5, rounds=8, threads=threads
            )
        )
    for index in range(1, 9):
        for device, ns in (("cpu", cpu_ns), ("cuda:0", gpu_ns)):
            wobble = 1 + 0.002 * (index % 3 - 1)
            samples: dict[str, tuple[float, ...]] = {LATENCY: tuple(ns * wobble for _ in range(5))}
            if singles:
                outlying = slow if device != "cpu" and index == 8 else ()
                samples[SINGLE] = calls(ns, singles, outlying)
            if device != "cpu":
                samples |= {name: (value,) for name, value in (gpu or {}).items()}
            events.append(half(case, device, index, samples))
    return [*events, CaseFinished(case=case.key, check=Check("float64 on the CPU", 3e-7, 1e-3))]


def run_of(
    *events: Event, devices: tuple[Device, ...] = DEVICES, ceilings: tuple[Ceilings, ...] = (CPU, GPU)
) -> RunState:
    plan = Plan("matmul", (ALL, ONE), ceilings=ceilings)
    state = RunState().apply(RunStarted(run_id="r", series_id="s", plan=plan, environment={"torch": "2.11.0"}))
    for event in (DevicesFound(devices=devices), *events):
        state = state.apply(event)
    return state


def read(run: RunState, width: int = 120, glyphs: Glyphs = UNICODE) -> list[str]:
    return [plain(line).rstrip() for line in detail_lines(run.rows[ALL.key], run, width, glyphs)]


def section(lines: Iterable[str], heading: str) -> list[str]:
    """The lines under a heading, up to the next blank one."""
    lines = list(lines)
    first = next(index for index, line in enumerate(lines) if line.startswith(heading))
    return lines[first + 1 : [*lines, ""].index("", first)]


def squeezed(lines: Iterable[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


@pytest.mark.parametrize(("gb_per_s", "is_exceeded"), [(5.45, False), (5.0, True)])
def test_more_than_the_peak_is_explained(gb_per_s: float, is_exceeded: bool, words: GoldenWords) -> None:
    run = run_of(*timed(), ceilings=(replace(CPU, copy_bytes_per_s=gb_per_s * 1e9), GPU))
    (limited,) = [line for line in read(run) if "limited by memory" in line]
    assert ("too" in limited) is is_exceeded
    words(limited)


# ------------------------------------------------------------------ where the time goes


def test_a_call_is_taken_apart_with_names_times_shares_and_what_each_part_is(words: GoldenWords) -> None:
    said = section(read(run_of(*timed(gpu=PARTS)), 76), APART)
    bars = [line.replace("█", "").replace("░", "") for line in said]
    words(squeezed(bars))
    filled = [line.count("█") for line in said[1:5]]
    assert filled == [5, 3, 4, 0], "a bar of 12 cells is as long as its share"


def test_end_to_end_has_its_copies_and_its_own_whole(words: GoldenWords) -> None:
    said = section(read(run_of(*timed(gpu=PARTS | MOVES))), APART)
    words(line.translate(NO_BARS) for line in squeezed(said) if "cop" in line)


@pytest.mark.parametrize(
    ("gpu_ns", "word"), [(40_000.0, "unexplained"), (24_000.0, "rest "), (18_000.0, "overlap"), (12_000.0, "overlap")]
)
def test_what_the_parts_leave_or_have_too_much_is_named(gpu_ns: float, word: str, words: GoldenWords) -> None:
    said = section(read(run_of(*timed(gpu_ns=gpu_ns, gpu=PARTS))), APART)
    named = [word for word in ("unexplained", "rest ", "overlap") if any(word in line for line in said)]
    assert named == [word]
    words(line.translate(NO_BARS) for line in squeezed(said) if word in f"{line} ")


def test_parts_that_leave_nothing_have_no_line_of_a_rest() -> None:
    said = section(read(run_of(*timed(gpu_ns=23_700.0, gpu=PARTS))), APART)
    assert not [line for line in said if "rest" in line or "overlap" in line]


def test_kernels_that_run_while_the_host_queues_the_next_say_that_only_their_rest_is_shown(words: GoldenWords) -> None:
    profiled = KernelsProfiled(case=ALL.key, device="cuda:0", count=4, elapsed_ns=8_000.0)
    said = section(read(run_of(*timed(gpu=PARTS), profiled)), APART)
    (kernels,) = [line for line in said if line.startswith("  warm kernels")]
    assert "5.50 µs   23 %" in kernels
    words(kernels.translate(NO_BARS).split("%")[1])


def test_end_to_end_is_taken_apart_also_without_a_time_of_the_wait() -> None:
    parts = {name: ns for name, ns in (PARTS | MOVES).items() if name != SYNCHRONISE}
    said = section(read(run_of(*timed(gpu=parts))), APART)
    assert "with copies" in said[0]
    assert "58.0 µs" in said[0]
    assert not any("wait" in line for line in said)


@pytest.mark.parametrize(
    "run",
    [run_of(*timed()), run_of(*timed(gpu={ENQUEUE: 1.0, DEVICE_WARM: 1.0})), run_of(*timed()[:-1])],
    ids=["ended", "without the wait", "active"],
)
def test_a_call_that_is_not_taken_apart_says_why(run: RunState, words: GoldenWords) -> None:
    words(section(read(run), APART))


def test_a_run_without_a_gpu_has_no_part_about_one() -> None:
    of_cpu = [event for event in timed() if getattr(event, "device", "cpu") == "cpu"]
    assert not any("GPU" in line for line in read(run_of(*of_cpu, devices=DEVICES[:1])))


def test_a_row_without_results_shows_neither_parts_nor_worlds() -> None:
    failed = CaseFailed(case=ALL.key, kind="oom", message="Needs 18 GB, 12 free.", remedy="Go smaller.")
    said = read(run_of(CaseStarted(case=ALL.key), failed))
    assert said[:2] == [failed.message, failed.remedy]
    assert not any("time goes" in line or "What if" in line for line in said)


def test_a_mismatch_shows_no_time_of_the_row(words: GoldenWords) -> None:
    failed = CaseFailed(case=ALL.key, kind="mismatch", message="Results differ.", remedy="")
    said = read(run_of(*timed(gpu=PARTS | MOVES)[:-1], failed))
    words(section(said, APART))
    assert not any("µs" in line for line in said)


# ------------------------------------------------------------------ other worlds


def test_each_world_has_its_speedup_and_its_winner(words: GoldenWords) -> None:
    said = squeezed(section(read(run_of(*timed(gpu=PARTS | MOVES))), "The GPU's speedup"))
    assert "0.375× ±" in said[0]
    assert "▼" in said[0]
    assert any("0.155×" in line and "▼" in line for line in said)
    assert any("1.73×" in line and "▲" in line for line in said)
    words(said)
    assert not any("CPU thread" in line for line in said), "no row of the run has one thread"


def test_one_thread_comes_from_the_row_beside_it(words: GoldenWords) -> None:
    one = timed(ONE, cpu_ns=27_000.0, threads=1)
    said = read(run_of(*timed(gpu=PARTS), *one))
    (world,) = [line for line in squeezed(said) if "CPU thread" in line]
    assert "1.13×" in world
    assert "▲" in world
    words(line for line in section(said, "CPU") if "one thread" in line)
    assert not any("one thread" in line for line in section(said, "cuda:0"))
    alone = squeezed(read(run_of(*timed(gpu=PARTS))))
    assert not any("one thread" in line for line in alone)


def test_in_few_columns_the_winner_is_one_word() -> None:
    said = section(read(run_of(*timed(gpu=PARTS | MOVES)), 50), "The GPU's speedup")
    assert said[0].endswith("▼ CPU")
    assert max(map(len, said)) <= 50


# ------------------------------------------------------------------ how the samples spread


def test_the_histogram_has_a_bar_for_each_bin_between_two_times(words: GoldenWords) -> None:
    said = section(read(run_of(*timed())), "CPU")
    first = next(index for index, line in enumerate(said) if "200 single calls" in line)
    words(said[first])
    bars = said[first + 1 : first + 4]
    assert all(set(line) <= set(" ▁▂▃▄▅▆▇█") for line in bars)
    assert "█" in bars[0], "the highest bar reaches the top"
    assert len(bars[2]) == 4 + 3 * 12, "twelve bars of three cells"
    assert said[first + 4].split() == ["9.00", "µs", "9.27", "µs", "3.0", "%", "of", "the", "median", "apart"]
    assert "no outliers" in said[first + 5]


def test_a_gap_between_two_speeds_is_a_gap_in_the_picture() -> None:
    two = tuple(1_000.0 * speed + k for k in range(20) for speed in (5, 6))
    said = section(read(run_of(CaseStarted(case=ALL.key), half(ALL, "cpu", 1, {LATENCY: two}))), "CPU")
    first = next(index for index, line in enumerate(said) if "40 blocks" in line)
    assert [line[4:].split(" ")[0] for line in said[first + 1 : first + 4]] == ["███"] * 3
    assert said[first + 3][4:] == "███" + " " * 18 + "███"


def test_slow_calls_are_counted_and_named_and_stay_in_the_numbers(words: GoldenWords) -> None:
    said = section(read(run_of(*timed(slow=(90_000.0, 120_000.0, 400_000.0)))), "cuda:0")
    at = next(index for index, line in enumerate(said) if "outlier" in line)
    words(squeezed(said[at : at + 2]))
    (row,) = [line.split() for line in said if line.startswith("  single calls")]
    assert row[2:11] == ["200", "24.3", "µs", "24.7", "µs", "90.3", "µs", "24.0", "µs"]


def test_tails_need_two_hundred_single_calls_and_their_lack_says_so(words: GoldenWords) -> None:
    said = section(read(run_of(*timed(singles=5))), "CPU")
    (row,) = [line.split() for line in said if line.startswith("  single calls")]
    assert row[2:9] == ["40", "9.13", "µs", "–", "–", "9.00", "µs"]
    words(line for line in said if "p99:" in line)
    none = section(read(run_of(*timed(singles=0))), "CPU")
    words(line for line in none if "p99:" in line)
    assert any("40 blocks" in line for line in none)


def test_cold_kernels_longer_than_the_latency_say_why(words: GoldenWords) -> None:
    colder = [half(ALL, "cuda:0", index, {DEVICE: calls(2 * GPU_NS)}) for index in range(1, 9)]
    said = " ".join(squeezed(section(read(run_of(*timed(), *colder)), "cuda:0")))
    assert "cold kernels" in said
    words(said[said.index("Cold kernels") :].partition(" – ")[0])
    assert "Cold kernels" not in "".join(section(read(run_of(*timed(gpu=PARTS))), "cuda:0"))


def test_the_papers_clock_says_that_it_times_a_first_call() -> None:
    first = half(ALL, "cpu", 0, {AS_WRITTEN: (4.97e6,), SYNCED: (4.97e6,)})
    said = section(read(run_of(*timed(), first), 76), "CPU  ")
    assert any(line.startswith("  paper's, 1st call") and "4.97 ms" in line for line in said)


def test_blocks_of_one_call_are_single_calls() -> None:
    long = Calibrated(case=ALL.key, device="cpu", estimate_ns=3e6, calls_per_block=1, blocks=5, rounds=40, threads=16)
    halves = [half(ALL, "cpu", index, {LATENCY: calls(3e6, 5)}) for index in range(1, 41)]
    said = section(read(run_of(CaseStarted(case=ALL.key), long, *halves)), "CPU")
    (row,) = [line for line in said if line.startswith("  latency")]
    assert "–" not in row
    assert any("200 single calls" in line for line in said)


def test_equal_samples_have_no_picture(words: GoldenWords) -> None:
    halves = [half(ALL, "cpu", index, {LATENCY: (5_000.0,) * 5}) for index in range(1, 9)]
    said = section(read(run_of(CaseStarted(case=ALL.key), *halves)), "CPU")
    words(line for line in said if "blocks of calls" in line or "outliers" in line)


def test_every_sample_is_in_a_bin_or_an_outlier() -> None:
    values = [100.0 + k % 17 for k in range(500)] + [1.0, 1e6]
    found = distribution(values)
    assert sorted(found.outliers) == [1.0, 1e6]
    assert sum(found.bins) == 500
    assert (found.low_ns, found.high_ns) == (100.0, 116.0)


# ------------------------------------------------------------------ marks and tensors


def test_marks_say_what_leaving_them_out_would_change(words: GoldenWords) -> None:
    same = half(ALL, "cuda:0", 9, {LATENCY: (GPU_NS,) * 5}, "starved")
    said = section(read(run_of(*timed(), same)), "cuda:0")
    assert any(line.startswith("  ~ starved:") for line in said)
    words(line for line in said if "half-rounds" in line)
    all_marked = [half(ALL, "cuda:0", index, {LATENCY: (GPU_NS,) * 5}, "throttled") for index in range(1, 9)]
    said = section(read(run_of(CaseStarted(case=ALL.key), *all_marked)), "cuda:0")
    words(line for line in said if "half-round" in line)


def test_it_says_where_the_tensors_lay() -> None:
    factor = "[64, 64] float32 on cuda:0"
    placed = TensorsPlaced(
        case=ALL.key, device="cuda:0", inputs=(factor, factor, "[64] float32 on cpu"), results=(factor,)
    )
    said = section(read(run_of(*timed(), placed)), "cuda:0")
    assert [line for line in said if " on c" in line] == [
        "  tensors  inputs  [64, 64] float32 on cuda:0, twice",
        "                   [64] float32 on cpu",
        "           results [64, 64] float32 on cuda:0",
    ]
    assert not any("tensors" in line for line in section(read(run_of(*timed(), placed)), "CPU"))


# ------------------------------------------------------------------ the whole page


def everything() -> RunState:
    placed = TensorsPlaced(case=ALL.key, device="cuda:0", inputs=("12 parameters on cuda:0",) * 2, results=())
    return run_of(*timed(gpu=PARTS | MOVES, slow=(9e5,)), placed, *timed(ONE, cpu_ns=27_000.0, threads=1))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("width", [56, 76, 116, 196])
def test_nothing_is_cut_at_any_width_and_the_signs_are_the_terminals(width: int, glyphs: Glyphs) -> None:
    lines = read(everything(), width, glyphs)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert (text.isascii(), " us" in text) == ((True, True) if glyphs is ASCII else (False, False))


def test_the_answer_comes_first_then_why_then_each_device() -> None:
    lines = read(everything())
    headings = ("speedup", APART, "The GPU's speedup", "CPU  ", "cuda:0  ", "Results", "Environment")
    at = [next(index for index, line in enumerate(lines) if line.startswith(heading)) for heading in headings]
    assert at == sorted(at)
    assert at[0] == 0
    assert all(lines[index - 1] == "" for index in at[1:]), "a blank line before each part"


async def test_the_app_shows_it_and_it_scrolls() -> None:
    async with opened(size=(80, 24)) as pilot:
        session = await start_run(pilot)
        case = session.plan.cases[0]
        for event in timed(gpu=PARTS | MOVES):
            session.put(replace(event, case=case.key))
        session.gap(case)
        await settled(pilot, lambda: pilot.app.state.run.rows[case.key].status == "ok")
        await pilot.press("home", "enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, DetailScreen))
        assert APART in text_of(pilot, "#page-text")
        before = pilot.app.screen.query_one("#page").scroll_y
        await pilot.press("G")
        await settled(pilot, lambda: pilot.app.screen.query_one("#page").scroll_y > before)


def test_the_least_latency_is_that_of_all_starts_as_the_median_is() -> None:
    later = [replace(half(ALL, "cpu", index, {LATENCY: (4_000.0,)}), start=1) for index in range(1, 9)]
    line = next(line for line in read(run_of(*timed(), *later)) if line.startswith("  latency"))
    assert line.split()[1] == "40"
    assert "6.00 µs" in line
    assert "4.00 µs" in line, "8.98 µs, the least of the first start, above the median of both"
