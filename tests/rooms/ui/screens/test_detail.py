"""What a person reads in the detail of a row."""

from dataclasses import replace

import pytest
from tests.helpers.golden import assert_golden, paragraphs
from tests.rooms.ui.screens.test_machine_screen import CPU, GPU

from cpugpu_tui import model
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.panes.lines import plain
from cpugpu_tui.ui.screens.detail import detail_lines
from cpugpu_tui.ui.screens.detail.device_times import distribution

ALL, ONE = model.Case("matmul", 64), model.Case("matmul", 64, threads=1)
DEVICES = (model.Device("cpu", "Xeon 8480"), model.Device("cuda:0", "NVIDIA H200", "GPU-1"))

PARTS = {model.ENQUEUE: 10_500.0, model.SYNCHRONISE: 8_000.0, model.DEVICE_WARM: 5_200.0, model.DEVICE: 7_000.0}
MOVES = {model.PAGEABLE: 58_000.0, model.PINNED: 45_000.0, model.H2D_PAGEABLE: 16_000.0, model.D2H_PAGEABLE: 15_000.0}
GPU_NS = 24_000.0
APART = "Where the GPU's time goes"


def calls(ns, count=25, slow=()):
    """Calls of different lengths within a few percent, the last of them as slow as told."""
    return (*(ns * (1 + 0.001 * (k * 7 % 31)) for k in range(count - len(slow))), *slow)


def half(case, device, index, samples, *marks):
    return model.DeviceSampled(
        case=case.key, device=device, round_index=index, calls_per_block=100, samples=samples, marks=marks
    )


def timed(case=ALL, cpu_ns=9_000.0, gpu_ns=GPU_NS, gpu=None, singles=25, slow=(), threads=16):
    """A case in eight rounds; `gpu` is measured once a round beside latency, `slow` are calls of the GPU's last one."""
    events: list[model.Event] = [
        model.CaseStarted(case=case.key, flops=2.0 * 64**3, bytes_moved=12.0 * 64**2, operations=1)
    ]
    for device, ns in (("cpu", cpu_ns), ("cuda:0", gpu_ns)):
        events.append(
            model.Calibrated(
                case=case.key, device=device, estimate_ns=ns, calls_per_block=100, blocks=5, rounds=8, threads=threads
            )
        )
    for index in range(1, 9):
        for device, ns in (("cpu", cpu_ns), ("cuda:0", gpu_ns)):
            wobble = 1 + 0.002 * (index % 3 - 1)
            samples: dict[str, tuple[float, ...]] = {model.LATENCY: tuple(ns * wobble for _ in range(5))}
            if singles:
                outlying = slow if device != "cpu" and index == 8 else ()
                samples[model.SINGLE] = calls(ns, singles, outlying)
            if device != "cpu":
                samples |= {name: (value,) for name, value in (gpu or {}).items()}
            events.append(half(case, device, index, samples))
    return [*events, model.CaseFinished(case=case.key, check=model.Check("float64 on the CPU", 3e-7, 1e-3))]


def run_of(*events, devices=DEVICES, ceilings=(CPU, GPU)):
    plan = model.Plan("matmul", (ALL, ONE), ceilings=ceilings)
    started = model.RunStarted(run_id="r", series_id="s", plan=plan, environment={"torch": "2.11.0"})
    return folded([started, model.DevicesFound(devices=devices), *events])


def read(run, width=120, glyphs=UNICODE):
    return [plain(line).rstrip() for line in detail_lines(run.rows[ALL.key], run, width, glyphs)]


def section(lines, heading):
    """The lines under a heading, up to the next blank one."""
    lines = list(lines)
    first = next(index for index, line in enumerate(lines) if line.startswith(heading))
    return lines[first + 1 : [*lines, ""].index("", first)]


def squeezed(lines):
    return [" ".join(line.split()) for line in lines]


def halves(device, samples, *marks, count=8):
    return [half(ALL, device, index, samples, *marks) for index in range(1, count + 1)]


def alone(*events):
    """A run of the CPU's samples alone, in a row that goes on."""
    return run_of(model.CaseStarted(case=ALL.key), *events)


FAILED = model.CaseFailed(case=ALL.key, kind="oom", message="Needs 18 GB, 12 free.", remedy="Go smaller.")
MISMATCH = model.CaseFailed(case=ALL.key, kind="mismatch", message="Results differ.", remedy="")
PROFILED = model.KernelsProfiled(case=ALL.key, device="cuda:0", count=4, elapsed_ns=8_000.0)
FACTOR = "[64, 64] float32 on cuda:0"
PLACED = model.TensorsPlaced(
    case=ALL.key, device="cuda:0", inputs=(FACTOR, FACTOR, "[64] float32 on cpu"), results=(FACTOR,)
)
LONG = model.Calibrated(case=ALL.key, device="cpu", estimate_ns=3e6, calls_per_block=1, blocks=5, rounds=40, threads=16)
FIRST_CALL = half(ALL, "cpu", 0, {model.AS_WRITTEN: (4.97e6,), model.SYNCED: (4.97e6,)})
TWO_SPEEDS = tuple(1_000.0 * speed + k for k in range(20) for speed in (5, 6))
SECOND_START = [replace(each, start=1) for each in halves("cpu", {model.LATENCY: (4_000.0,)})]
UNAWAITED = {name: ns for name, ns in (PARTS | MOVES).items() if name != model.SYNCHRONISE}

RUNS: dict[str, RunState] = {
    "no parts were timed": run_of(*timed()),
    "parts without the wait": run_of(*timed(gpu={model.ENQUEUE: 1.0, model.DEVICE_WARM: 1.0})),
    "copies without the wait": run_of(*timed(gpu=UNAWAITED)),
    "active": run_of(*timed()[:-1]),
    "memory within its peak": run_of(*timed(), ceilings=(replace(CPU, copy_bytes_per_s=5.45e9), GPU)),
    "memory above its peak": run_of(*timed(), ceilings=(replace(CPU, copy_bytes_per_s=5.0e9), GPU)),
    "parts that leave much": run_of(*timed(gpu_ns=40_000.0, gpu=PARTS)),
    "parts that leave nothing": run_of(*timed(gpu_ns=23_700.0, gpu=PARTS)),
    "parts that overlap": run_of(*timed(gpu_ns=18_000.0, gpu=PARTS)),
    "parts that overlap much": run_of(*timed(gpu_ns=12_000.0, gpu=PARTS)),
    "kernels while the host queues the next": run_of(*timed(gpu=PARTS), PROFILED),
    "no GPU": run_of(*(each for each in timed() if getattr(each, "device", "cpu") == "cpu"), devices=DEVICES[:1]),
    "out of memory": run_of(model.CaseStarted(case=ALL.key), FAILED),
    "a mismatch": run_of(*timed(gpu=PARTS | MOVES)[:-1], MISMATCH),
    "one thread in the row beside it": run_of(*timed(gpu=PARTS), *timed(ONE, cpu_ns=27_000.0, threads=1)),
    "two speeds": alone(half(ALL, "cpu", 1, {model.LATENCY: TWO_SPEEDS})),
    "slow calls": run_of(*timed(slow=(90_000.0, 120_000.0, 400_000.0))),
    "too few calls for tails": run_of(*timed(singles=5)),
    "no single calls": run_of(*timed(singles=0)),
    "cold kernels longer than the latency": run_of(*timed(), *halves("cuda:0", {model.DEVICE: calls(2 * GPU_NS)})),
    "the paper's clock": run_of(*timed(), FIRST_CALL),
    "blocks of one call": alone(LONG, *halves("cpu", {model.LATENCY: calls(3e6, 5)}, count=40)),
    "equal samples": alone(*halves("cpu", {model.LATENCY: (5_000.0,) * 5})),
    "one starved half-round": run_of(*timed(), half(ALL, "cuda:0", 9, {model.LATENCY: (GPU_NS,) * 5}, "starved")),
    "all half-rounds throttled": alone(*halves("cuda:0", {model.LATENCY: (GPU_NS,) * 5}, "throttled")),
    "places of tensors": run_of(*timed(), PLACED),
    # The least latency is 4.00 µs, not the 8.98 µs of the first start, which is above the median of both.
    "a second, faster start": run_of(*timed(), *SECOND_START),
}


def test_what_a_person_reads():
    """The whole page of a row with all parts, then the lines of other rows that it has not."""
    whole = read(run_of(*timed(gpu=PARTS | MOVES)))
    told = {"all parts": "\n".join(whole), "50 columns": "\n".join(read(run_of(*timed(gpu=PARTS | MOVES)), 50))}
    for name, run in RUNS.items():
        lines = read(run)
        lacking = [f"without: {line}" for line in whole if line not in lines]
        told[name] = "\n".join([line for line in lines if line not in whole] or lacking)
    assert_golden("frames/detail", paragraphs(told))


def test_no_row_shows_times_that_it_should_not():
    assert read(RUNS["out of memory"])[:2] == [FAILED.message, FAILED.remedy]
    for name, words in (("out of memory", ("time goes", "What if")), ("a mismatch", ("µs",)), ("no GPU", ("GPU",))):
        assert not [line for line in read(RUNS[name]) for word in words if word in line], name


def test_every_sample_is_in_a_bin_or_an_outlier():
    values = [100.0 + k % 17 for k in range(500)] + [1.0, 1e6]
    found = distribution(values)
    assert sorted(found.outliers) == [1.0, 1e6]
    assert sum(found.bins) == 500
    assert (found.low_ns, found.high_ns) == (100.0, 116.0)


# ------------------------------------------------------------------ the whole page


def everything():
    placed = model.TensorsPlaced(case=ALL.key, device="cuda:0", inputs=("12 parameters on cuda:0",) * 2, results=())
    return run_of(*timed(gpu=PARTS | MOVES, slow=(9e5,)), placed, *timed(ONE, cpu_ns=27_000.0, threads=1))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("width", [56, 76, 116, 196])
def test_nothing_is_cut_at_any_width_and_the_signs_are_the_terminals(width, glyphs):
    lines = read(everything(), width, glyphs)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert (text.isascii(), " us" in text) == ((True, True) if glyphs is ASCII else (False, False))


def test_the_answer_comes_first_then_why_then_each_device():
    lines = read(everything())
    headings = ("speedup", APART, "The GPU's speedup", "CPU  ", "cuda:0  ", "Results", "Environment")
    at = [next(index for index, line in enumerate(lines) if line.startswith(heading)) for heading in headings]
    assert (at, at[0]) == (sorted(at), 0)
    assert all(lines[index - 1] == "" for index in at[1:]), "a blank line before each part"
