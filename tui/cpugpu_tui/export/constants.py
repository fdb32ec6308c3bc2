"""Variables of other programs that a file of thresholds answers, beside its own.

SCILIB-Accel sends a matrix product to the GPU unless ∛(m·n·k) < `SCILIB_MATRIX_OFFLOAD_SIZE` (default 500). For square
products that is n, so the value is the smallest n from which the GPU wins float64 products. Its offload mode 1 copies
in every call. Mode 3, for Grace Hopper, keeps the matrices on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cpugpu_tui.thresholds import GPU, Threshold

PRODUCT, DOUBLE = "matmul", "float64"
"""Operation and element type of the products that count."""

VARIABLE = "SCILIB_MATRIX_OFFLOAD_SIZE"


def variables(entries: Sequence[Threshold]) -> Iterator[str]:
    """Yield lines with the variables of other programs, and comments; nothing without float64 products."""
    products = [
        each for each in entries if each.best and (each.operation, each.dtype, each.threads) == (PRODUCT, DOUBLE, 0)
    ]
    if not products:
        return
    yield "# SCILIB-Accel offloads products from this (m*n*k)^(1/3) on. Its mode 1 copies in every call:"
    yield _line(products, resident=False)
    yield "# Its mode 3 (Grace Hopper) keeps the matrices on the GPU, which is measured here by resident inputs:"
    line = _line(products, resident=True)
    yield line if line.startswith("#") else f"# {line}"


def _line(products: Sequence[Threshold], *, resident: bool) -> str:
    """Return the variable, or a comment if the largest sizes are not the GPU's."""
    parts = next((each.faster for each in products if each.resident is resident), ())
    if not parts or parts[-1][0] != GPU:
        return f"# {VARIABLE} has no value: the GPU does not win the largest products that were timed."
    return f"{VARIABLE}={parts[-1][1]}"
