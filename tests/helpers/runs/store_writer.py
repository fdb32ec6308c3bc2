"""Writes cases into a store and says so on stdout after each commit, until it is killed: run by test_store_kill."""

import sys
from pathlib import Path

from cpugpu_tui import model
from cpugpu_tui.store import Store


def run_started(run_id: str) -> model.RunStarted:
    return model.RunStarted(run_id=run_id, series_id="s", plan=model.Plan("sweep", ()), environment={})


def case_events(index: int) -> list[model.Event]:
    """A case of eight rounds on two devices, all metrics: 64 rows; its samples are `index`."""
    key = model.Case("matmul", index).key
    rounds = [
        model.DeviceSampled(
            case=key,
            device=device,
            round_index=round_index,
            calls_per_block=7,
            samples=dict.fromkeys(model.METRICS, (float(index),) * 5),
        )
        for round_index in range(1, 9)
        for device in ("cpu", "cuda:0")
    ]
    return [model.CaseStarted(case=key), *rounds, model.CaseFinished(case=key)]


def main() -> None:
    path, run_id = Path(sys.argv[1]), sys.argv[2]
    store = Store.open(path)
    store.begin_run(run_started(run_id))
    for index in range(1, 100_000):
        store.commit_cases(run_id, [case_events(index)], [model.TelemetryRead(seq=index)])
        print(index, flush=True)


if __name__ == "__main__":
    main()
