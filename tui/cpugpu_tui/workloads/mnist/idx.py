"""A person's own MNIST: four idx files, plain or gzip, checked before anything is allocated.

Format: two zero bytes, the type (8 for unsigned bytes), the number of dimensions, each dimension as four bytes
big-endian, then the data.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cpugpu_tui.errors import UsageError

if TYPE_CHECKING:
    import torch

IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
TRAIN, TEST = "train", "t10k"

MAX_COUNT = 1_000_000
"""More images than this are no MNIST: 784 MB."""

PLACES = ("", "MNIST/raw")
"""Folders below the named one in which the files may lie; torchvision makes the second."""


def load(folder: str, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (images uint8 [count, 28, 28], labels int64 [count]) of `train` or `t10k`.

    Raises:
        UsageError: a file is missing, unreadable, no idx file, cut off, too long, or its labels are no digits.
    """
    import torch

    images_path, labels_path = find(folder, f"{part}-{IMAGES}"), find(folder, f"{part}-{LABELS}")
    image_shape = header(images_path, 3)
    label_shape = header(labels_path, 1)
    if image_shape[1:] != (28, 28):
        raise UsageError(f"{images_path} holds images of {image_shape[1]}×{image_shape[2]}.", "They must be 28×28.")
    if image_shape[0] != label_shape[0]:
        raise UsageError(
            f"{images_path} holds {image_shape[0]:,} images, {labels_path.name} {label_shape[0]:,} labels.",
            "Give files that belong together.",
        )
    labels = torch.frombuffer(bytearray(content(labels_path, label_shape)), dtype=torch.uint8)
    if int(labels.max()) > 9:
        raise UsageError(f"{labels_path} holds the label {int(labels.max())}.", "Labels must be digits, 0 to 9.")
    images = torch.frombuffer(bytearray(content(images_path, image_shape)), dtype=torch.uint8)
    return images.view(image_shape), labels.long()


def find(folder: str, name: str) -> Path:
    """Return the file of this name, plain or .gz, in the folder or where torchvision would have put it.

    Raises:
        UsageError: there is none.
    """
    for place in PLACES:
        for suffix in ("", ".gz"):
            path = Path(folder, place, name + suffix)
            if path.is_file():
                return path
    raise UsageError(
        f"There is no {name} (or {name}.gz) in {folder}, nor in MNIST/raw below it.",
        "Name the folder that holds the four idx files, or leave --mnist away to have digits drawn.",
    )


def header(path: Path, dimensions: int) -> tuple[int, ...]:
    """Return the dimensions that a file claims.

    Raises:
        UsageError: it is no idx file of unsigned bytes with so many dimensions, or claims too much.
    """
    length = 4 + 4 * dimensions
    start = _read(path, 0, length)
    wanted = bytes((0, 0, 8, dimensions))
    if start[:4] != wanted:
        raise UsageError(
            f"{path} is no idx file of {'images' if dimensions == 3 else 'labels'}: it begins with "
            f"{start[:4].hex() or 'nothing'}, not {wanted.hex()}.",
            "Give the original MNIST files.",
        )
    if len(start) < length:
        raise _cut_off(path, length, len(start))
    shape = struct.unpack(f">{dimensions}I", start[4:])
    if not 0 < shape[0] <= MAX_COUNT or max(shape) > MAX_COUNT:
        raise UsageError(f"{path} claims {shape[0]:,} entries.", f"It must hold 1 to {MAX_COUNT:,}.")
    return shape


def content(path: Path, shape: tuple[int, ...]) -> bytes:
    """Return the data after the header: as many bytes as it claims, no more is ever read.

    Raises:
        UsageError: there are fewer or more.
    """
    start, size = 4 + 4 * len(shape), 1
    for extent in shape:
        size *= extent
    # One byte more than claimed is read, never what a compressed file might grow to.
    data = _read(path, start, size + 1)
    if len(data) < size:
        raise _cut_off(path, start + size, start + len(data))
    if len(data) > size:
        raise UsageError(
            f"{path} goes on after the {start + size:,} bytes that its header claims.", "Give the original MNIST files."
        )
    return data


def _read(path: Path, start: int, size: int) -> bytes:
    try:
        with _opened(path) as file:
            # Read in the length that is wanted: seeking in a gzip would unpack without bound just as little.
            file.read(start)
            return file.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path} is damaged: {error}.", "Copy the file again.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.", "Check its permissions.") from error


def _opened(path: Path) -> IO[bytes]:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    file: IO[bytes] = opened(path, "rb")
    return file


def _cut_off(path: Path, wanted: int, had: int) -> UsageError:
    return UsageError(f"{path} is cut off: it has {had:,} of {wanted:,} bytes.", "Copy the file again.")
