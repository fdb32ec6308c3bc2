"""A history as long as a machine's life: 10 000 runs of five cases, 1 000 000 measurements, over three years."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from cpugpu_tui import model
from cpugpu_tui.store import Store
from cpugpu_tui.store.rows import Owner, insert_case, insert_run, put_devices, result_row, to_json

RUNS, CASES, ROUNDS = 10_000, 5, 10
MEASUREMENTS = RUNS * CASES * ROUNDS * 2
"""Two devices, one metric each: rows of the table `measurement`."""

NAMES = ("matmul", "vector-dot", "elementwise", "jacobian")
DEVICES = model.DevicesFound(
    seq=2, devices=(model.Device("cpu", "Some CPU"), model.Device("cuda:0", "Some GPU", "GPU-1", 2**37))
)
HOUR_NS = 3600 * 10**9


def facts(number: int) -> dict[str, object]:
    """Return a run's environment: torch changes every 500 runs."""
    return {
        "version": "0.1.0", "hostname": f"node{number % 4}", "cpu": "Some CPU", "python": "3.11.7", "threads": 16,
        "torch": f"2.{number // 500}.0", "kernel": "6.1.0", "argv": ["run", NAMES[number % 4]], "torch_import_s": 1.5,
        "physical_cores": 16, "affinity_cores": 16, "inherited": {}, "worker": "process",
    }  # fmt: skip


def started(number: int) -> model.RunStarted:
    """Return how a run begins; five runs make a series."""
    name = NAMES[number % 4]
    cases = tuple(model.Case(name, 64 << index) for index in range(CASES))
    return model.RunStarted(
        seq=1, wall_ns=number * 3 * HOUR_NS, run_id=f"{number:011x}", series_id=f"s{number // 5}",
        plan=model.Plan(name, cases), environment=facts(number),
    )  # fmt: skip


def case_events(case: model.Case, seq: int) -> list[model.Event]:
    """Return a case of so many rounds on both devices."""
    half_rounds: Iterator[model.Event] = (
        model.DeviceSampled(
            case=case.key, device=device, round_index=index, calls_per_block=7,
            samples={"latency": tuple(1e3 * case.size + index + block for block in range(5))},
        )
        for index in range(1, ROUNDS + 1)
        for device in ("cpu", "cuda:0")
    )  # fmt: skip
    calibrated = (
        model.Calibrated(
            case=case.key, device=device, estimate_ns=1e3, calls_per_block=7, blocks=5, rounds=8, threads=16
        )
        for device in ("cpu", "cuda:0")
    )
    events = [model.CaseStarted(case=case.key), *calibrated, *half_rounds, model.CaseFinished(case=case.key)]
    return [replace(event, seq=seq + position) for position, event in enumerate(events)]


def make_history(path: Path, runs: int = RUNS) -> None:
    """Write a history, 500 runs a transaction: one for each case, as runs have it, would take an hour."""
    owner = Owner("node0", 1, "boot", 1)
    with closing(Store.open(path)) as store:
        for first in range(0, runs, 500):
            with store._writing() as connection:
                for index in range(first, min(first + 500, runs)):
                    run = started(index)
                    number = insert_run(connection, run, "done", owner)
                    put_devices(connection, number, DEVICES)
                    for position, case in enumerate(run.plan.cases):
                        events = case_events(case, 3 + position * 100)
                        insert_case(connection, number, case, events, result_row(events))
                    finished = model.RunFinished(seq=1000, wall_ns=run.wall_ns + HOUR_NS, status="done")
                    connection.execute(
                        "UPDATE run SET finished_wall_ns = ?, finished = ? WHERE number = ?",
                        (finished.wall_ns, to_json(finished), number),
                    )
