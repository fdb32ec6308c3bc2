"""Compare two series of runs, name baselines, and judge gates. As `cpugpu_tui.compare(new, old)` it compares two codes.

The public function has the name of this room, which replaces it in the package once the room is imported. So the
module itself is callable.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    """This module, which calls the public function."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Compare two codes, see `api.comparing.compare`."""
        return import_module("cpugpu_tui.api.comparing").compare(*arguments, **named)


sys.modules[__name__].__class__ = CallableRoom
