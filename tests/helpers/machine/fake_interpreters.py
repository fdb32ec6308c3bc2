"""Interpreters to find: shell scripts that answer as one with a certain torch would, or not at all."""

import sys
from pathlib import Path

FAKE_TORCH = """
class version:
    cuda = {cuda!r}

class cuda:
    @staticmethod
    def is_available():
        return {available!r}

__version__ = {version!r}
"""


def interpreter(path: Path, script: str) -> str:
    """Write a shell script and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def with_torch(
    path: Path, version: str, cuda: str | None = "12.8", *, available: bool = True, runs: str = sys.executable
) -> str:
    """Make an interpreter that has this torch when it is asked; kernels run in `runs`, with the torch of that one."""
    torch = path.parent / f"torch-of-{path.name}" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text(FAKE_TORCH.format(cuda=cuda, available=available, version=version))
    ask = f'[ "$1" = -c ] && PYTHONPATH="{torch.parent}" exec {sys.executable} "$@"'
    return interpreter(path, f'{ask}\nexec {runs} "$@"')
