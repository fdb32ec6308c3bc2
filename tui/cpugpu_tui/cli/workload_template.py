"""The file that `new-workload` writes: a workload that runs without changes, with a comment at each part to change."""

from __future__ import annotations

import re

TEMPLATE = '''\
"""A workload of my own. Check it with:  cpugpu-tui run @NAME@ --workloads @NAME@.py --scale small"""

from cpugpu_tui import Workload, workload


@workload
class @CLASS@(Workload):
    """SiLU of n normal numbers, written by hand and as one torch call."""

    # `list` shows the line above.
    name = "@NAME@"
    # The meaning of a size, and the default sizes.
    axis = "numbers"
    sizes = (1_000, 100_000, 1_000_000)
    # Remove the dtypes that the operation does not support.
    dtypes = ("float64", "float32", "bfloat16", "float16")

    def inputs(self, n, dtype, generator):
        """Return the inputs of size n as a tuple of host tensors. Draw random numbers only from the generator."""
        import torch  # here, so that listing workloads stays fast

        return (torch.randn(n, generator=generator, dtype=dtype),)

    def step(self, x):
        """Do the work once, on the device of the tensors, and return the result. Do not print or synchronise."""
        return x * x.sigmoid()

    def fused(self, x):
        """Do the same work in another way. All variants must return the same result."""
        import torch

        return torch.nn.functional.silu(x)

    def steps(self):
        """Return the variants by name. The first is the default. Remove this method if there is only one."""
        return {"by-hand": self.step, "fused": self.fused}

    def flops(self, n):
        """Return the floating-point operations of a call, for rates and `limited by`. 0.0 if they have no meaning."""
        return 4.0 * n  # exponential, sum, division, product

    def bytes_moved(self, n, itemsize_bytes):
        """Return the least memory traffic of a call: each input read once, each result written once."""
        return 2.0 * n * itemsize_bytes

    def memory_bytes(self, n, itemsize_bytes):
        """Return the memory of inputs, temporaries and result. Cases that do not fit are refused."""
        return 3.0 * n * itemsize_bytes

    # Optional methods, see docs/own-workloads.md:
    #   tolerance(dtype), scale(reference, *inputs)   the largest allowed error, and its reference value
    #   place(variant, inputs, device), reset(...)    models and other state on the device
    #   reference(variant, doubles)                   the correct result, from float64 inputs
'''


_TAKEN = ("None", "True", "False", "Workload")
"""Capitalised words that already have a meaning in Python or in the template."""


def class_name(name: str) -> str:
    """Return a Python class name for a workload's name: `my-gelu` → `MyGelu`, `none` → `OwnNone`."""
    words = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9A-Za-z]+", name))
    return words if words[:1].isalpha() and words not in _TAKEN else f"Own{words}"


def source(name: str) -> str:
    """Return the text of a workload file for a name that `own_files.NAME` allows."""
    return TEMPLATE.replace("@NAME@", name).replace("@CLASS@", class_name(name))
