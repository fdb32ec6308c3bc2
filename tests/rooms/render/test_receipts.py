"""What is said of the lines of typed code: for each reason, below a table, and what the profiler cost."""

from dataclasses import replace

from cpugpu_tui import model
from cpugpu_tui.model.line_costs import COPY, FALLBACK, LINE_REASONS, LOOP, OUTSIDE, SMALL, WAIT, WORK
from cpugpu_tui.render.receipts import compiled_lines, eager_ns, line_words, run_receipt, slow_lines
from cpugpu_tui.state.folding import folded

SMALL_CASE, LARGE_CASE = model.Case("mine", 64), model.Case("mine", 128)


def cost(reason, **more):
    line = model.LineCost("my_model.py", 31, "loss.item()", reason, 340_000.0, share=0.62, visits=1, operators=1)
    return replace(line, **more)


COSTS = (
    cost(WAIT, synchronisations=1),
    cost(WAIT, visits=64, synchronisations=64),
    cost(COPY, bytes_to_gpu=4 << 20, operators=0),
    cost(COPY, bytes_to_gpu=4096, bytes_to_host=8, visits=2),
    cost(FALLBACK, on_cpu=2),
    cost(LOOP, visits=64, operators=128),
    cost(LOOP, visits=64, operators=0),
    cost(LOOP, visits=64, operators=64, synchronisations=64),
    cost(SMALL, operators=30),
    cost(OUTSIDE, operators=0),
    cost(WORK),
    cost(WORK, device_ns=1e7, operators=3, share=0.98),
    cost(WORK, file="statement", line=1, source_line="x @ x", share=0.031),
    cost(WORK, file="setup", line=3),
)


def run_of(*events, cases=(SMALL_CASE, LARGE_CASE)):
    plan = model.Plan("mine", cases)
    devices = (model.Device("cpu", "Xeon"), model.Device("cuda:0", "H200", "GPU-1"))
    started = model.RunStarted(run_id="r", series_id="s", plan=plan, environment={})
    return folded([started, model.DevicesFound(devices=devices), *events])


def timed(case, *lines, device="cuda:0"):
    key = case.key
    return (
        model.CaseStarted(case=key), model.CodeTraced(case=key, device=device, operators=7),
        model.CaseFinished(case=key),
        model.LinesProfiled(case=key, device=device, lines=lines, profiled_ns=1.9e6, unprofiled_ns=6e5),
    )  # fmt: skip


def test_each_reason_has_a_sentence(words):
    assert {each.reason for each in COSTS} == set(LINE_REASONS)
    words([line_words(each, "cuda:0") for each in COSTS])


def test_the_largest_row_shows_three_lines_and_what_the_profiler_cost(words):
    run = run_of(*timed(SMALL_CASE, *COSTS[4:8]), *timed(LARGE_CASE, *COSTS[:4]))
    words(run_receipt(run))


def test_a_lone_line_without_a_fault_is_not_shown():
    run = run_of(*timed(LARGE_CASE, cost(WORK)))
    assert not slow_lines(run.rows[LARGE_CASE.key])
    run = run_of(*timed(LARGE_CASE, cost(WAIT)))
    assert len(slow_lines(run.rows[LARGE_CASE.key])) == 1


def test_source_code_cannot_control_the_terminal():
    assert "\x1b" not in line_words(cost(WORK, source_line="x = '\x1b[2J'"), "cpu")


def compiled_run(*cases, **ns):
    """Return a run of these cases, whose calls take so many ns by variant."""
    events: list[model.Event] = []
    for case in cases:
        key = case.key
        events.append(model.CaseStarted(case=key))
        for device, has_kernels in (("cpu", True), ("cuda:0", False)):
            if case.variant == "compiled":
                events.append(model.CodeCompiled(case=key, device=device, elapsed_ns=2e9, variant="default",
                                           has_kernels=has_kernels))  # fmt: skip
            on_gpu_ns = 9_000.0 if case.variant == "compiled" else 8_000.0
            latency = (ns[case.variant] if device == "cpu" else on_gpu_ns,)
            events += [
                model.DeviceSampled(case=key, device=device, round_index=number, calls_per_block=1,
                              samples={"latency": latency})
                for number in (1, 2)
            ]  # fmt: skip
        events.append(model.CaseFinished(case=key))
    return run_of(*events, cases=cases)


EAGER, COMPILED = model.Case("mine", 128), model.Case("mine", 128, variant="compiled")


def test_compiling_pays_after_its_cost_over_what_a_call_saves(words):
    small = replace(COMPILED, size=64)
    run = compiled_run(EAGER, COMPILED, small, default=30_000.0, compiled=20_000.0)
    words(run_receipt(run))  # 2 s / 10 us, and never on the GPU
    assert "pays after 200,000 calls" in compiled_lines(run, run.rows[COMPILED.key])[1]
    slower = compiled_run(EAGER, COMPILED, default=20_000.0, compiled=30_000.0)
    assert compiled_lines(slower, slower.rows[COMPILED.key])[1].endswith("1.50× slower than eager, never pays.")
    words([*compiled_lines(run, run.rows[small.key]), *run_receipt(compiled_run(EAGER, default=1.0))])


def test_a_row_whose_threads_lacked_a_core_tells_nothing(words):
    run = compiled_run(EAGER, COMPILED, default=30_000.0, compiled=20_000.0)
    starved = model.DeviceSampled(case=EAGER.key, device="cpu", round_index=3, calls_per_block=1,
                            samples={"latency": (3e4,)}, marks=(model.NO_CORE,))  # fmt: skip
    assert eager_ns(run, run.rows[COMPILED.key], run.rows[COMPILED.key].times["cpu"]) == 30_000.0
    run = run.apply(starved)
    assert eager_ns(run, run.rows[COMPILED.key], run.rows[COMPILED.key].times["cpu"]) is None
    words(compiled_lines(run, run.rows[COMPILED.key])[1])
