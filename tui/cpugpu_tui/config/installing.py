"""The command that installs an optional package where this program is installed: checkout, wheel, pipx or uv."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from urllib.parse import unquote, urlparse

PACKAGE = "cpugpu-tui"


def install_remedy(extra: str) -> str:
    """Return the sentence that says how to install the packages of an extra, such as `report`."""
    return f"Install it with: {install_command(extra)}"


def install_command(extra: str, prefix: str = sys.prefix, python: str = sys.executable) -> str:
    """Return the shell command that installs the packages of an extra into the environment of this program.

    The package is on no index. So an extra is named where its files are: in the folder or wheel that pip noted as its
    source. Where that is gone, or belongs to pipx or uv, the packages themselves are named.
    """
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError:  # the source on PYTHONPATH
        return shlex.join([*_pip(python), *_requirements(None, extra)])
    packages = _requirements(installed, extra)
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return shlex.join(["pipx", "inject", PACKAGE, *packages])
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return shlex.join(["uv", "pip", "install", "--python", python, *packages])
    source, is_editable = _source(installed)
    if not source:
        return shlex.join([*_pip(python), *packages])
    return shlex.join([*_pip(python), *(["-e"] if is_editable else []), f"{source}[{extra}]"])


def _pip(python: str) -> list[str]:
    """Return the words that install into the environment of an interpreter; one that uv made lacks pip."""
    if find_spec("pip") is None:
        return ["uv", "pip", "install", "--python", python]
    return [python, "-m", "pip", "install"]


def _requirements(installed: Distribution | None, extra: str) -> list[str]:
    """Return the packages of an extra, with their versions."""
    if installed is None:
        return _BY_EXTRA[extra]
    marked = (each.replace('"', "'").partition(";") for each in installed.requires or ())
    found = [name.strip() for name, _, marker in marked if marker.strip() == f"extra == '{extra}'"]
    return found or _BY_EXTRA[extra]


_BY_EXTRA = {"report": ["jinja2", "matplotlib"], "plot": ["matplotlib"], "tensorboard": ["tensorboard"]}
"""For an installation whose metadata lack them."""


def _source(installed: Distribution) -> tuple[str, bool]:
    """Return the folder or wheel that this was installed from, and whether it is used in place; empty if it is gone."""
    text = installed.read_text("direct_url.json")
    try:
        facts = json.loads(text or "{}")
        address, is_editable = urlparse(facts.get("url") or ""), bool(facts.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return "", False
    path = unquote(address.path)
    return (path, is_editable) if address.scheme == "file" and os.path.exists(path) else ("", False)
