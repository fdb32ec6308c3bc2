"""What is worked out of an immutable value once."""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class kept(Generic[T]):
    """A property that is worked out when it is first asked for, and kept in the object.

    `functools.cached_property` does that too, through the object's dictionary, which objects otherwise do not have:
    400 bytes each, and an app holds 30 000 of them. CPython has room for what its class's first objects kept, so a
    module asks one for all it keeps: `teach`.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        """Decorate the method that works it out."""
        self._make = make
        self._name = ""
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Take note of where it is kept."""
        self._name = intern(f"_kept_{name}")  # any other name gives the object a dictionary after all

    @overload
    def __get__(self, instance: None, owner: type) -> kept[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | kept[T]:
        """Return what was kept, or work it out."""
        if instance is None:
            return self
        try:
            found: T = getattr(instance, self._name)
        except AttributeError:
            found = self._make(instance)
            object.__setattr__(instance, self._name, found)  # past a frozen dataclass
        return found


def teach(first: object) -> None:
    """Let an object, the first one of its class, work out all that objects of its class keep."""
    for name, value in vars(type(first)).items():
        if isinstance(value, kept):
            getattr(first, name)
