"""The file that `new-workload` writes: a workload that runs as it stands, with a comment at each thing to change."""

from __future__ import annotations

import re

TEMPLATE = '''\
"""A workload of my own. Check it with:  cpugpu-tui run @NAME@ --workloads @NAME@.py --scale small"""

from cpugpu_tui import Workload, workload


@workload
class @CLASS@(Workload):
    """SiLU of n normal numbers: by hand, and by the one call that torch has for it."""

    # The line above is what `list` says.
    name = "@NAME@"
    # What a size means, and the sizes that are run when nobody names any.
    axis = "numbers"
    sizes = (1_000, 100_000, 1_000_000)
    # Leave out what the operation cannot do.
    dtypes = ("float64", "float32", "bfloat16", "float16")

    def inputs(self, n, dtype, generator):
        """Return the tensors of size n on the host, as a tuple, drawn from the generator: one seed, one input."""
        import torch  # here, not above: listing workloads then costs nothing

        return (torch.randn(n, generator=generator, dtype=dtype),)

    def step(self, x):
        """Do the work once, where the tensors are, and return the result; nothing else, no print, no synchronize."""
        return x * x.sigmoid()

    def fused(self, x):
        """The same by another way: each way must return what the first one returns."""
        import torch

        return torch.nn.functional.silu(x)

    def steps(self):
        """Name the ways: the first is the default, --variant takes another. Leave this out if there is one."""
        return {"by-hand": self.step, "fused": self.fused}

    def flops(self, n):
        """Return the floating-point operations of a call: the limits and rates rest on it. 0.0 if it has no meaning."""
        return 4.0 * n  # exponential, sum, division, product

    def bytes_moved(self, n, itemsize_bytes):
        """Return the least traffic of a call: each input read once, each result written once."""
        return 2.0 * n * itemsize_bytes

    def memory_bytes(self, n, itemsize_bytes):
        """Return what inputs, temporaries and result occupy: what does not fit is refused before it is allocated."""
        return 3.0 * n * itemsize_bytes

    # More that can be written where it is needed, see docs/own-workloads.md:
    #   tolerance(dtype), scale(reference, *inputs)   how large an error may be, and relative to what
    #   place(variant, inputs, device), reset(...)    for models and other state that lives on the device
    #   reference(variant, doubles)                   the right result, from float64 inputs
'''


_TAKEN = ("None", "True", "False", "Workload")
"""Words with a capital that Python or the template's first lines have a meaning for."""


def class_name(name: str) -> str:
    """Return a Python class name for a workload's name: `my-gelu` → `MyGelu`, `none` → `OwnNone`."""
    words = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9A-Za-z]+", name))
    return words if words[:1].isalpha() and words not in _TAKEN else f"Own{words}"


def source(name: str) -> str:
    """Return the text of a workload file for a name that `own_files.NAME` allows."""
    return TEMPLATE.replace("@NAME@", name).replace("@CLASS@", class_name(name))
