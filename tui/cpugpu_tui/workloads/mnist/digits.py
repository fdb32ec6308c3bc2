"""Digits drawn from a seed, for machines that hold no MNIST: ten glyphs, turned, stretched, shifted, noisy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SIDE = 28
"""Pixels of an image's side, as MNIST has them."""

CHUNK = 5_000
"""Images drawn at once: 16 MB of pixels and 31 MB of sampling positions."""

GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
"""Rows of five pixels, top row first, for 0 to 9."""

TURN, STRETCH, SHEAR, SHIFT, NOISE = 0.4, 0.3, 0.4, 0.3, 0.32
"""Spread of angle (rad), size, slant, place (half images) and pixels: a net of 128 units then gets about 98 %."""


def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (images uint8 [count, 28, 28], labels int64 [count]); the same bytes for one seed and any threads."""
    import torch

    glyphs = torch.tensor([[[float(pixel) for pixel in row] for row in text.split()] for text in GLYPHS])
    labels = torch.randint(0, 10, (count,), generator=generator)
    images = torch.empty(count, SIDE, SIDE, dtype=torch.uint8)
    for start in range(0, count, CHUNK):
        chosen = labels[start : start + CHUNK]
        images[start : start + CHUNK] = _drawn(glyphs[chosen], generator)
    return images, labels


def _drawn(glyphs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return one image [28, 28] uint8 for each glyph [7, 5]."""
    import torch
    from torch.nn.functional import affine_grid, grid_sample

    count = len(glyphs)

    def spread(width: float) -> torch.Tensor:
        return (torch.rand(count, generator=generator) * 2 - 1) * width

    angle, slant = spread(TURN), spread(SHEAR)
    # A glyph fills about 20 of 28 pixels in height: positions outside [-1, 1] are background.
    high, wide = 1.4 * (1 + spread(STRETCH)), 1.9 * (1 + spread(STRETCH))
    cosine, sine = angle.cos(), angle.sin()
    first = torch.stack([wide * cosine, wide * (slant - sine), spread(SHIFT) * wide], 1)
    second = torch.stack([high * sine, high * cosine, spread(SHIFT) * high], 1)
    positions = affine_grid(torch.stack([first, second], 1), [count, 1, SIDE, SIDE], align_corners=False)
    strokes = grid_sample(glyphs[:, None], positions, mode="bilinear", align_corners=False)[:, 0]
    noisy = strokes * 1.4 + torch.randn(count, SIDE, SIDE, generator=generator) * NOISE
    return (noisy.clamp(0, 1) * 255).to(torch.uint8)
