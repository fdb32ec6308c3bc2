"""Optional packages, and the command that installs them where this program is: checkout, wheel, pipx or uv."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from cpugpu_tui.errors import UnfitError

PACKAGE = "cpugpu-tui"


@contextmanager
def packages_of(extra: str, what: str) -> Iterator[None]:
    """Import the packages of an extra, for `what`, such as `Charts need`.

    Raises:
        UnfitError: one of them is not installed.
    """
    try:
        yield
    except ImportError as error:
        # A package can also be there and broken: `numpy.core.multiarray failed to import` names none.
        is_missing = isinstance(error, ModuleNotFoundError)
        found = f"the package {error.name}, which is not installed" if is_missing else f"a package that fails: {error}"
        raise UnfitError(f"{what} {found}.", f"Install it with: {install_command(extra)}") from error


def install_command(extra: str, prefix: str = sys.prefix, python: str = sys.executable) -> str:
    """Return the shell command that installs the packages of an extra into the environment of this program.

    It names the packages and never this program: that is on no index, and from its folder or wheel pip would also
    install torch, which an environment beside another torch lacks on purpose.
    """
    packages = _requirements(extra)
    folder, environment = os.path.split(prefix)
    # An environment of `pipx run` lies in a cache, where `pipx inject` does not look.
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")) and os.path.basename(folder) == "venvs":
        return shlex.join(["pipx", "inject", environment, *packages])
    if find_spec("pip") is None:  # made by uv
        return shlex.join(["uv", "pip", "install", "--python", python, *packages])
    return shlex.join([python, "-m", "pip", "install", *packages])


def _requirements(extra: str) -> list[str]:
    """Return the packages of an extra, with their versions."""
    try:
        required = requires(PACKAGE) or []
    except PackageNotFoundError:  # the source on PYTHONPATH
        required = []
    marked = (each.replace('"', "'").partition(";") for each in required)
    found = [name.strip() for name, _, marker in marked if marker.strip() == f"extra == '{extra}'"]
    return found or _BY_EXTRA[extra]


_BY_EXTRA = {"report": ["jinja2", "matplotlib"], "plot": ["matplotlib"], "tensorboard": ["tensorboard"]}
"""For an installation whose metadata lack them."""
