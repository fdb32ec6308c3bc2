"""Plain values as our dataclasses, from any thread.

`msgspec` learns a class when it first meets it, and another thread that converts to it meanwhile ends the process with
a segmentation fault (msgspec 0.22, 37 of 40 tries with eight threads): the readers of two agents do that.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_learnt: set[Any] = set()


def convert(data: Any, kind: type[T]) -> T:
    """Return `data` as a `kind`.

    Raises:
        msgspec.ValidationError: it is none.
        OverflowError: a number fits no field.
    """
    if kind not in _learnt:
        with _lock:
            msgspec.json.Decoder(kind)
            _learnt.add(kind)
    return msgspec.convert(data, type=kind)
