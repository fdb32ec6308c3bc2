"""A run as long as a search gets, made of events: 20 sizes with all their rounds and metrics."""

from dataclasses import replace

from cpugpu_tui import model
from cpugpu_tui.state.state import RunState

ROWS, ROUNDS, BLOCKS = 20, 40, 5


def large_run(rows: int = ROWS, rounds: int = ROUNDS) -> RunState:
    """Return a search as long as they get: all rounds, each with every metric an answer is made of."""
    cases = tuple(model.Case("matmul", 16 * (index + 1)) for index in range(rows))
    run = RunState().apply(
        model.RunStarted(run_id="r", series_id="s", plan=model.Plan("matmul", cases), environment={})
    )
    run = run.apply(model.DevicesFound(devices=(model.Device("cpu", "Xeon"), model.Device("cuda:0", "H200", "GPU-1"))))
    for case in cases:
        run = run.apply(model.CaseStarted(case=case.key))
        for index in range(1, rounds + 1):
            run = run.apply(half_round(case, "cpu", index)).apply(half_round(case, "cuda:0", index))
        run = run.apply(model.CaseFinished(case=case.key))
    return run


def half_round(case: model.Case, device: str, index: int) -> model.DeviceSampled:
    """Return a half-round in which the GPU has a constant cost and the CPU has none: they are level at some 160."""
    wobble = 1 + (index * 37 % 11) / 1000
    cpu_ns, gpu_ns = case.size**2 * wobble, (20_000 + case.size**1.5) * wobble
    if device == "cpu":
        samples = {model.LATENCY: (cpu_ns,) * BLOCKS, model.DEVICE: (cpu_ns,) * BLOCKS}
    else:
        once = {model.ENQUEUE: 12_000.0, model.SYNCHRONISE: 3_000.0, model.H2D_PAGEABLE: 9e3, model.D2H_PAGEABLE: 8e3,
            model.PINNED: gpu_ns + 1e4,
                model.PAGEABLE: gpu_ns + 2e4}  # fmt: skip
        samples = {name: (gpu_ns,) * BLOCKS for name in (model.LATENCY, model.DEVICE, model.DEVICE_WARM)}
        samples |= {name: (ns,) for name, ns in once.items()}
    return model.DeviceSampled(case=case.key, device=device, round_index=index, calls_per_block=1, samples=samples)


def with_a_round_more(run: RunState) -> RunState:
    """Return the run after one more half-round of its first case."""
    case = next(iter(run.rows.values())).case
    return run.apply(half_round(case, "cuda:0", ROUNDS + 1))


def fresh(run: RunState) -> RunState:
    """Return the same run without what its rows had computed."""
    rows = {
        key: replace(row, times={name: replace(times) for name, times in row.times.items()})
        for key, row in run.rows.items()
    }
    return replace(run, rows=rows)


def samples_of(run: RunState) -> int:
    """Return how many samples a run has."""
    return sum(
        len(values) for row in run.rows.values() for times in row.times.values() for values in times.samples.values()
    )
