"""JSON on stdout, one object a line."""

from __future__ import annotations

import json
from typing import Any


def print_json(data: dict[str, Any]) -> None:
    """Print one JSON object on a line."""
    print(json.dumps(data, allow_nan=False))
