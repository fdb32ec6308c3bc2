"""Execute modules that code imports with torch's own defaults.

A setup runs with the dtype of its case as torch's default, and on the meta device where only shapes are wanted. A
module that is imported meanwhile and makes tensors as constants would keep these for the whole process: after
torchdiffeq's tables of coefficients were made on the meta device, no solver could run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType


class PlainLoader(SourceFileLoader):
    """Loads a module on the CPU, with float32 as the default dtype."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module."""
        import torch

        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            with torch.device("cpu"):
                super().exec_module(module)
        finally:
            # A module that sets another default dtype is found by the check of the setup.
            if torch.get_default_dtype() == torch.float32:
                torch.set_default_dtype(before)


class PlainImports:
    """Finds modules as the other finders do, and lets `PlainLoader` load those that are Python files."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load a module, or None if nobody finds it. Torch and what it imports load as always."""
        spec = getattr(sys.modules.get("torch"), "__spec__", None)
        if name.partition(".")[0] == "torch" or spec is None or getattr(spec, "_initializing", False):
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if type(spec.loader) is SourceFileLoader:
                    spec.loader = PlainLoader(spec.loader.name, spec.loader.path)
                return spec
        return None


def install() -> None:
    """Let all later imports of this process be plain; once is enough."""
    if not any(isinstance(finder, PlainImports) for finder in sys.meta_path):
        sys.meta_path.insert(0, PlainImports())
