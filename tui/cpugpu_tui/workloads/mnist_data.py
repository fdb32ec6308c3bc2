"""The training images: the user's MNIST idx files, checked before anything is allocated, or generated digits.

The idx format: two zero bytes, the type (8 for unsigned bytes), the number of dimensions, each dimension as four bytes
big-endian, then the data. Files are plain or gzip. Generated digits are ten glyphs: rotated, stretched, shifted, noisy.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads.contract import Setting

if TYPE_CHECKING:
    import torch


IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
TRAIN, TEST = "train", "t10k"

MAX_COUNT = 1_000_000
"""Largest accepted number of images (784 MB); MNIST has 60,000."""

GIVE_MNIST = "Give the original MNIST files."

PLACES = ("", "MNIST/raw")
"""Subfolders to look in; torchvision creates the second."""


def read_idx(folder: str, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (images uint8 [count, 28, 28], labels int64 [count]) of `train` or `t10k`.

    Raises:
        UsageError: a file is missing, unreadable, not an idx file, truncated or too long, or a label is not a digit.
    """
    import torch

    images_path, labels_path = find(folder, f"{part}-{IMAGES}"), find(folder, f"{part}-{LABELS}")
    image_shape = header(images_path, 3)
    label_shape = header(labels_path, 1)
    if image_shape[1:] != (28, 28):
        raise UsageError(
            f"Images in {images_path} have {image_shape[1]}×{image_shape[2]} pixels, not 28×28.", GIVE_MNIST
        )
    if image_shape[0] != label_shape[0]:
        raise UsageError(
            f"{images_path} has {image_shape[0]:,} images, but {labels_path.name} has {label_shape[0]:,} labels.",
            GIVE_MNIST,
        )
    labels = torch.frombuffer(bytearray(content(labels_path, label_shape)), dtype=torch.uint8)
    if int(labels.max()) > 9:
        raise UsageError(f"{labels_path} has the label {int(labels.max())}, but labels are 0 to 9.", GIVE_MNIST)
    images = torch.frombuffer(bytearray(content(images_path, image_shape)), dtype=torch.uint8)
    return images.view(image_shape), labels.long()


def find(folder: str, name: str) -> Path:
    """Return the file of this name, plain or .gz, in the folder or in torchvision's subfolder.

    Raises:
        UsageError: no such file exists.
    """
    for place in PLACES:
        for suffix in ("", ".gz"):
            path = Path(folder, place, name + suffix)
            if path.is_file():
                return path
    raise UsageError(
        f"{name} (or {name}.gz) not found in {folder} or its subfolder MNIST/raw.",
        "Give the path of the folder with the four idx files, or omit --mnist to use generated digits.",
    )


def header(path: Path, dimensions: int) -> tuple[int, ...]:
    """Return the dimensions in a file's header.

    Raises:
        UsageError: not an idx file of unsigned bytes with so many dimensions, or its first dimension is too large.
    """
    length = 4 + 4 * dimensions
    start = _read(path, 0, length)
    wanted = bytes((0, 0, 8, dimensions))
    if start[:4] != wanted:
        raise UsageError(
            f"{path} is not an idx file of {'images' if dimensions == 3 else 'labels'}: it starts with "
            f"{start[:4].hex() or 'nothing'} instead of {wanted.hex()}.",
            GIVE_MNIST,
        )
    if len(start) < length:
        raise _cut_off(path, length, len(start))
    shape = struct.unpack(f">{dimensions}I", start[4:])
    if not 0 < shape[0] <= MAX_COUNT or max(shape) > MAX_COUNT:
        raise UsageError(f"{path} declares {shape[0]:,} entries; allowed are 1 to {MAX_COUNT:,}.", GIVE_MNIST)
    return shape


def content(path: Path, shape: tuple[int, ...]) -> bytes:
    """Return the data after the header; never reads more than the size that the header declares, plus one byte.

    Raises:
        UsageError: the data is shorter or longer.
    """
    start, size = 4 + 4 * len(shape), 1
    for extent in shape:
        size *= extent
    # The extra byte detects longer data without unpacking all of a compressed file.
    data = _read(path, start, size + 1)
    if len(data) < size:
        raise _cut_off(path, start + size, start + len(data))
    if len(data) > size:
        raise UsageError(f"{path} is longer than the {start + size:,} bytes that its header declares.", GIVE_MNIST)
    return data


def _read(path: Path, start: int, size: int) -> bytes:
    try:
        with _opened(path) as file:
            # Reading up to `start` is safe: it is at most 16 bytes.
            file.read(start)
            return file.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path} is damaged: {error}.", "Copy the file again.") from error
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.", "Check its permissions.") from error


def _opened(path: Path) -> IO[bytes]:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    file: IO[bytes] = opened(path, "rb")
    return file


def _cut_off(path: Path, wanted: int, had: int) -> UsageError:
    return UsageError(f"{path} is truncated: it has {had:,} of {wanted:,} bytes.", "Copy the file again.")


SIDE = 28
"""Width and height of an image in pixels, as in MNIST."""

CHUNK = 5_000
"""Images generated at once: 16 MB of pixels and 31 MB of sampling positions."""

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
"""Digits 0 to 9 as rows of five pixels, top row first."""

TURN, STRETCH, SHEAR, SHIFT, NOISE = 0.4, 0.3, 0.4, 0.3, 0.32
"""Spread of angle (rad), size, slant, position (half images) and noise. 128 hidden units then reach about 98 %."""


def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return generated (images uint8 [count, 28, 28], labels int64 [count]); the same for any number of threads."""
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
    # Factors above 1 shrink the glyph to about 20 of 28 pixels; positions outside [-1, 1] are background.
    high, wide = 1.4 * (1 + spread(STRETCH)), 1.9 * (1 + spread(STRETCH))
    cosine, sine = angle.cos(), angle.sin()
    first = torch.stack([wide * cosine, wide * (slant - sine), spread(SHIFT) * wide], 1)
    second = torch.stack([high * sine, high * cosine, spread(SHIFT) * high], 1)
    positions = affine_grid(torch.stack([first, second], 1), [count, 1, SIDE, SIDE], align_corners=False)
    strokes = grid_sample(glyphs[:, None], positions, mode="bilinear", align_corners=False)[:, 0]
    noisy = strokes * 1.4 + torch.randn(count, SIDE, SIDE, generator=generator) * NOISE
    return (noisy.clamp(0, 1) * 255).to(torch.uint8)


COUNTS = {"full": (60_000, 10_000), "small": (2_000, 500)}
"""Training and test images, by scale."""

SEED = 5
"""Seed of the generated digits: all runs share one data set, so that losses are comparable."""


class Digits(NamedTuple):
    """Images as input of the network: float32 in 0..1, flat. Scaling them is never timed."""

    train_images: torch.Tensor
    """[count, 784]."""
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


@lru_cache(maxsize=1)
def load(setting: Setting) -> Digits:
    """Return the images for a setting.

    Raises:
        UsageError: the user's files are not usable.
    """
    import torch

    train_count, test_count = COUNTS[setting.scale]
    if setting.mnist is None:
        generator = torch.Generator().manual_seed(SEED)
        train, test = draw(train_count, generator), draw(test_count, generator)
    else:
        train, test = read_idx(setting.mnist, TRAIN), read_idx(setting.mnist, TEST)
    return Digits(*_scaled(*train, train_count), *_scaled(*test, test_count))


def batch(setting: Setting, count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images of a batch, float32 [count, 784], and their labels, chosen at random or generated.

    To generate the whole data set took 6 s of a survey of an H200, which needs 4,096 images at most.
    """
    import torch

    if setting.mnist is None:
        return _scaled(*draw(count, generator), count)
    digits = load(setting)
    chosen = torch.randint(0, len(digits.train_labels), (count,), generator=generator)
    return digits.train_images[chosen], digits.train_labels[chosen]


def _scaled(images: torch.Tensor, labels: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return images[:count].reshape(-1, 784).float().div_(255), labels[:count]
