"""Fixtures of the tests that need GPUs, and cores of its own for each worker of xdist."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Pin a worker, and so the agents that it starts, to its share of the cores: they do not wait for each other."""
    worker, count = os.environ.get("PYTEST_XDIST_WORKER", ""), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    cores = sorted(os.sched_getaffinity(0))
    if worker and len(cores) >= 2 * count:
        share = len(cores) // count
        first = int(worker.removeprefix("gw")) * share
        os.sched_setaffinity(0, cores[first : first + share])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that compile last: until then the compiler's first start has ended (`__main__.py`)."""
    items.sort(key=lambda item: "compiled" in item.name)


@pytest.fixture(scope="session")
def gpu_count() -> int:
    """Number of GPUs; skip unless there are two."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < 2:
        pytest.skip(f"needs two GPUs, and here {'is' if count == 1 else 'are'} {count}")
    return count
