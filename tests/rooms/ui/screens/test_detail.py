"""What a person reads in the detail of a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from tests.helpers.app.fake_run import opened, settled, start_run
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
from cpugpu_tui.ui.roles import plain
from cpugpu_tui.ui.screens.detail.distribution import distribution
from cpugpu_tui.ui.screens.detail.screen import DetailScreen, detail_lines

ALL, ONE = Case("matmul", 64), Case("matmul", 64, threads=1)
DEVICES = (Device("cpu", "Xeon 8480"), Device("cuda:0", "NVIDIA H200", "GPU-1"))

PARTS = {ENQUEUE: 10_500.0, SYNCHRONISE: 8_000.0, DEVICE_WARM: 5_200.0, DEVICE: 7_000.0}
MOVES = {PAGEABLE: 58_000.0, PINNED: 45_000.0, H2D_PAGEABLE: 16_000.0, D2H_PAGEABLE: 15_000.0}
GPU_NS = 24_000.0


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


def run_of(*events: Event, devices: tuple[Device, ...] = DEVICES) -> RunState:
    plan = Plan("matmul", (ALL, ONE), ceilings=(CPU, GPU))
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


# ------------------------------------------------------------------ where the time goes


def test_a_call_is_taken_apart_with_names_times_shares_and_what_each_part_is() -> None:
    said = section(read(run_of(*timed(gpu=PARTS)), 76), "Where the GPU's time goes")
    bars = [line.replace("█", "").replace("░", "") for line in said]
    assert squeezed(bars)[:5] == [
        "resident (the inputs are on the GPU): 24.0 µs a call",
        "launch 10.5 µs 44 % the host queues the call",
        "kernels 5.20 µs 22 % the GPU's own work",
        "wait 8.00 µs 33 % the host notices the end",
        "rest 300 ns 1.2 % not accounted for",
    ]
    filled = [line.count("█") for line in said[1:5]]
    assert filled == [5, 3, 4, 0], "a bar of 12 cells is as long as its share"
    assert squeezed(said)[5] == "with copies: not timed in this run"


def test_end_to_end_has_its_copies_and_its_own_whole() -> None:
    said = section(read(run_of(*timed(gpu=PARTS | MOVES))), "Where the GPU's time goes")
    moved = [line for line in squeezed(said) if "cop" in line]
    assert moved[0] == "with copies (from and to the host): 58.0 µs a call"
    assert moved[1].startswith("copy to the GPU")
    assert moved[1].endswith("16.0 µs 28 % inputs copied to the GPU")
    assert moved[2].endswith("15.0 µs 26 % result copied to the host")


@pytest.mark.parametrize(
    ("gpu_ns", "words"),
    [(40_000.0, "unexplained"), (24_000.0, "rest"), (18_000.0, "the parts overlap by 500 ns, 2.8 % of the call"),
     (12_000.0, "the parts overlap by 6.50 µs, 54 % of the call: each was timed by itself")],
)  # fmt: skip
def test_what_the_parts_leave_or_have_too_much_is_named(gpu_ns: float, words: str) -> None:
    said = section(read(run_of(*timed(gpu_ns=gpu_ns, gpu=PARTS))), "Where the GPU's time goes")
    named = [word for word in ("unexplained", "rest ", "overlap") if any(word in line for line in said)]
    assert len(named) == 1
    assert any(line.strip().startswith(words) for line in said)


def test_kernels_that_run_while_the_host_queues_the_next_say_that_only_their_rest_is_shown() -> None:
    profiled = KernelsProfiled(case=ALL.key, device="cuda:0", count=4, elapsed_ns=8_000.0)
    said = section(read(run_of(*timed(gpu=PARTS), profiled)), "Where the GPU's time goes")
    (kernels,) = [line for line in said if line.startswith("  kernels")]
    assert kernels.endswith("5.50 µs   23 %  what nothing else hides")


def test_end_to_end_is_taken_apart_also_without_a_time_of_the_wait() -> None:
    parts = {name: ns for name, ns in (PARTS | MOVES).items() if name != SYNCHRONISE}
    said = section(read(run_of(*timed(gpu=parts))), "Where the GPU's time goes")
    assert said[0] == "  with copies (from and to the host): 58.0 µs a call"
    assert not any("wait" in line for line in said)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (run_of(*timed()), "Not taken apart: this run has no time of launch, wait and kernels alone."),
        (run_of(*timed(gpu={ENQUEUE: 1.0, DEVICE_WARM: 1.0})), "Not taken apart: this run has no time of wait alone."),
        (run_of(*timed()[:-1]), "Not taken apart: this run has no time yet of launch, wait and kernels alone."),
        (
            run_of(*[event for event in timed() if getattr(event, "device", "cpu") == "cpu"], devices=DEVICES[:1]),
            "No GPU in this run.",
        ),
    ],
)
def test_a_call_that_is_not_taken_apart_says_why(run: RunState, why: str) -> None:
    assert section(read(run), "Where the GPU's time goes") == [f"  {why}"]


def test_a_row_without_results_shows_neither_parts_nor_worlds() -> None:
    failed = CaseFailed(case=ALL.key, kind="oom", message="Needs 18 GB, 12 free.", remedy="Go smaller.")
    said = read(run_of(CaseStarted(case=ALL.key), failed))
    assert said[:2] == ["Needs 18 GB, 12 free.", "Go smaller."]
    assert not any("time goes" in line or "What if" in line for line in said)


def test_a_mismatch_shows_no_time_of_the_row() -> None:
    failed = CaseFailed(case=ALL.key, kind="mismatch", message="Results differ.", remedy="")
    said = read(run_of(*timed(gpu=PARTS | MOVES)[:-1], failed))
    assert section(said, "Where the GPU's time goes") == [
        "  Not shown: the results differ, so that no time of this row counts."
    ]
    assert not any("µs" in line for line in said)


# ------------------------------------------------------------------ other worlds


def test_each_world_has_its_speedup_and_its_winner() -> None:
    said = squeezed(section(read(run_of(*timed(gpu=PARTS | MOVES))), "What if"))
    assert said[0].startswith("inputs on the device 0.375× ±")
    assert said[0].endswith("▼ the CPU is faster")
    assert any(line.startswith("data starts and ends on the host 0.155×") for line in said)
    assert any(line.startswith("no launch cost 1.29×") and line.endswith("▲ the GPU is faster") for line in said)
    assert said[-1] == "computed from measured times: 10 calls, 100 calls, no launch cost"
    assert not any("one CPU thread" in line for line in said), "no row of the run has one thread"


def test_one_thread_comes_from_the_row_beside_it() -> None:
    one = timed(ONE, cpu_ns=27_000.0, threads=1)
    said = read(run_of(*timed(gpu=PARTS), *one))
    (world,) = [line for line in squeezed(said) if line.startswith("one CPU thread")]
    assert world.startswith("one CPU thread 1.13×")
    assert world.endswith("▲ the GPU is faster")
    assert "  one thread takes 27.0 µs, 3.00× slower than with 16" in section(said, "CPU")
    assert not any("one thread" in line for line in section(said, "cuda:0"))
    alone = squeezed(read(run_of(*timed(gpu=PARTS))))
    assert not any("one thread" in line for line in alone)


def test_in_few_columns_the_winner_is_one_word() -> None:
    said = section(read(run_of(*timed(gpu=PARTS | MOVES)), 56), "What if")
    assert said[0].endswith("▼ CPU")
    assert max(map(len, said)) <= 56


# ------------------------------------------------------------------ how the samples spread


def test_the_histogram_has_a_bar_for_each_bin_between_two_times() -> None:
    said = section(read(run_of(*timed())), "CPU")
    first = next(index for index, line in enumerate(said) if "how 200 single calls spread" in line)
    assert said[first].endswith("fastest left (highest bar: 24 of them)")
    bars = said[first + 1 : first + 4]
    assert all(set(line) <= set(" ▁▂▃▄▅▆▇█") for line in bars)
    assert "█" in bars[0], "the highest bar reaches the top"
    assert len(bars[2]) == 4 + 3 * 12, "twelve bars of three cells"
    assert said[first + 4].split() == ["9.00", "µs", "9.27", "µs", "3.0", "%", "of", "the", "median", "apart"]
    assert "no outliers" in said[first + 5]


def test_a_gap_between_two_speeds_is_a_gap_in_the_picture() -> None:
    two = tuple(1_000.0 * speed + k for k in range(20) for speed in (5, 6))
    said = section(read(run_of(CaseStarted(case=ALL.key), half(ALL, "cpu", 1, {LATENCY: two}))), "CPU")
    first = next(index for index, line in enumerate(said) if "how 40 blocks of calls spread" in line)
    assert [line[4:].split(" ")[0] for line in said[first + 1 : first + 4]] == ["███"] * 3
    assert said[first + 3][4:] == "███" + " " * 18 + "███"


def test_slow_calls_are_counted_and_named_and_stay_in_the_numbers() -> None:
    said = section(read(run_of(*timed(slow=(90_000.0, 120_000.0, 400_000.0)))), "cuda:0")
    text = " ".join(squeezed(said))
    assert "3 outliers (further than 14.8 median deviations from the median), the slowest 400 µs" in text
    assert "part of every number, but not drawn" in text
    (row,) = [line.split() for line in said if line.startswith("  single calls")]
    assert row[2:11] == ["200", "24.3", "µs", "24.7", "µs", "90.3", "µs", "24.0", "µs"]


def test_tails_need_two_hundred_single_calls_and_their_lack_says_so() -> None:
    said = section(read(run_of(*timed(singles=5))), "CPU")
    (row,) = [line.split() for line in said if line.startswith("  single calls")]
    assert row[2:9] == ["40", "9.13", "µs", "–", "–", "9.00", "µs"]
    assert "  – no p90 and p99: they take 200 single calls, here were 40" in said
    none = section(read(run_of(*timed(singles=0))), "CPU")
    assert "  – no p90 and p99: they take 200 single calls, here were none" in none
    assert any("how 40 blocks of calls spread" in line for line in none)


def test_cold_kernels_longer_than_the_latency_say_why() -> None:
    colder = [half(ALL, "cuda:0", index, {DEVICE: calls(2 * GPU_NS)}) for index in range(1, 9)]
    said = " ".join(squeezed(section(read(run_of(*timed(), *colder)), "cuda:0")))
    assert "cold kernels" in said
    assert "Cold kernels take longer than the latency here: caches are emptied before each of them" in said
    assert "longer than the latency" not in "".join(section(read(run_of(*timed(gpu=PARTS))), "cuda:0"))


def test_the_papers_clock_says_that_it_times_a_first_call() -> None:
    first = half(ALL, "cpu", 0, {AS_WRITTEN: (4.97e6,), SYNCED: (4.97e6,)})
    said = section(read(run_of(*timed(), first), 76), "CPU  ")
    assert any(line.startswith("  paper's, 1st call") and "4.97 ms" in line for line in said)


def test_blocks_of_one_call_are_single_calls() -> None:
    long = Calibrated(
        case=ALL.key, device="cpu", estimate_ns=3e6, calls_per_block=1, blocks=5, rounds=40, threads=16
    )  # fmt: skip
    halves = [half(ALL, "cpu", index, {LATENCY: calls(3e6, 5)}) for index in range(1, 41)]
    said = section(read(run_of(CaseStarted(case=ALL.key), long, *halves)), "CPU")
    (row,) = [line for line in said if line.startswith("  latency")]
    assert "–" not in row
    assert any("how 200 single calls spread" in line for line in said)


def test_equal_samples_have_no_picture() -> None:
    halves = [half(ALL, "cpu", index, {LATENCY: (5_000.0,) * 5}) for index in range(1, 9)]
    said = section(read(run_of(CaseStarted(case=ALL.key), *halves)), "CPU")
    assert "  all 40 blocks of calls took 5.00 µs" in said
    assert "  outliers cannot be told: more than half of the samples are equal" in said


def test_every_sample_is_in_a_bin_or_an_outlier() -> None:
    values = [100.0 + k % 17 for k in range(500)] + [1.0, 1e6]
    found = distribution(values)
    assert sorted(found.outliers) == [1.0, 1e6]
    assert sum(found.bins) == 500
    assert (found.low_ns, found.high_ns) == (100.0, 116.0)


# ------------------------------------------------------------------ marks and tensors


def test_marks_say_what_leaving_them_out_would_change() -> None:
    same = half(ALL, "cuda:0", 9, {LATENCY: (GPU_NS,) * 5}, "starved")
    said = section(read(run_of(*timed(), same)), "cuda:0")
    assert any(line.startswith("  ~ starved: the queue ran dry") for line in said)
    assert "  without the marked half-rounds the latency is the same" in said
    all_marked = [half(ALL, "cuda:0", index, {LATENCY: (GPU_NS,) * 5}, "throttled") for index in range(1, 9)]
    said = section(read(run_of(CaseStarted(case=ALL.key), *all_marked)), "cuda:0")
    assert "  every half-round has a mark: there is no latency without" in said


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
    if glyphs is ASCII:
        assert text.isascii()
        assert "24.0 us a call" in text
    else:
        assert " us" not in text


def test_the_answer_comes_first_then_why_then_each_device() -> None:
    lines = read(everything())
    headings = ("speedup", "Where the GPU's time goes", "What if", "CPU  ", "cuda:0  ", "Results", "Environment")
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
        assert "Where the GPU's time goes" in text_of(pilot, "#page-text")
        before = pilot.app.screen.query_one("#page").scroll_y
        await pilot.press("G")
        await settled(pilot, lambda: pilot.app.screen.query_one("#page").scroll_y > before)
