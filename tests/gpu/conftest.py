"""Fixtures of the tests that need GPUs."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def gpu_count() -> int:
    """Number of GPUs; skip unless there are two."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < 2:
        pytest.skip(f"needs two GPUs, and here {'is' if count == 1 else 'are'} {count}")
    return count
