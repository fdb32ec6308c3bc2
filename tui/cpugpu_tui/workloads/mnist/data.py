"""The images that a process trains on: a person's own or drawn ones, loaded once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from cpugpu_tui.workloads.contract import Setting
from cpugpu_tui.workloads.mnist import digits, idx

if TYPE_CHECKING:
    import torch

COUNTS = {"full": (60_000, 10_000), "small": (2_000, 500)}
"""Images to train on and to test with, by scale."""

SEED = 5
"""Of the drawn digits: one data set for all runs, so that losses can be compared."""


@dataclass(frozen=True)
class Digits:
    """Images as the network takes them: float32 in 0..1, flat; scaling them is outside every clock."""

    train_images: torch.Tensor
    """[count, 784]."""
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


@lru_cache(maxsize=1)
def load(setting: Setting) -> Digits:
    """Return the images for a setting.

    Raises:
        UsageError: the person's own files are not usable.
    """
    import torch

    train_count, test_count = COUNTS[setting.scale]
    if setting.mnist is None:
        generator = torch.Generator().manual_seed(SEED)
        train, test = digits.draw(train_count, generator), digits.draw(test_count, generator)
    else:
        train, test = idx.load(setting.mnist, idx.TRAIN), idx.load(setting.mnist, idx.TEST)
    return Digits(*_scaled(*train, train_count), *_scaled(*test, test_count))


def _scaled(images: torch.Tensor, labels: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return images[:count].reshape(-1, 784).float() / 255, labels[:count]
