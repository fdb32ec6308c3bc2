"""TOML that a person wrote, in the one way it can be wrong."""

from __future__ import annotations

from typing import Any

import tomllib


def loads(text: str) -> dict[str, Any]:
    """Return what the text says.

    Raises:
        TOMLDecodeError: it is not TOML, or is nested too deeply for Python to read.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("Nested too deeply") from None
