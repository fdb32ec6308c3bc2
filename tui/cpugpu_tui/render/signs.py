"""The micro sign in sentences, which are made of ASCII: `20.0 us` is `20.0 µs` wherever there is UTF-8."""

from __future__ import annotations

import re
from typing import Any

_PLAIN_MICRO = re.compile(r"(?<=\d) u([sJ])\b")


def micro(text: str) -> str:
    """Return a sentence with the micro sign in its times and energies."""
    return _PLAIN_MICRO.sub(r" µ\1", text)


def with_micro(data: Any) -> Any:
    """Return JSON values with the micro sign in every sentence: JSON is UTF-8 whatever the terminal is."""
    if isinstance(data, str):
        return micro(data)
    if isinstance(data, (list, tuple)):
        return [with_micro(item) for item in data]
    return {key: with_micro(value) for key, value in data.items()} if isinstance(data, dict) else data
