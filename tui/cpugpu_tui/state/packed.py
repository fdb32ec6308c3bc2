"""Mappings of numbers in little memory, for settled cases, of which an app may show thousands.

A dictionary of tuples takes 230 bytes and 32 per number. These mappings take 8 bytes per number, and share their keys
with all mappings of the same shape. Values are created on access, equal to the original ones.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from sys import intern
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from cpugpu_tui import model

if TYPE_CHECKING:
    from cpugpu_tui.decide.comparison import Comparison

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
Shape = tuple[tuple[str, int], ...]
"""Keys and the number of values of each, in order."""


@lru_cache(maxsize=4096)
def _places(shape: Shape) -> Mapping[str, tuple[int, int]]:
    """Return key → begin and end of its values; cached by shape."""
    ends: dict[str, tuple[int, int]] = {}
    end = 0
    for key, length in shape:
        ends[key] = (end, end + length)
        end += length
    return ends


@lru_cache(maxsize=4096)
def _order(keys: tuple[H, ...]) -> Mapping[H, int]:
    """Return key → position; cached by keys."""
    return {key: place for place, key in enumerate(keys)}


@lru_cache(maxsize=4096)
def same(whole: H) -> H:
    """Return one object for all equal tuples or sets, because thousands of rows share a few values."""
    return whole


class Packed(Mapping[H, T]):
    """Has the keys of `_keys`, in their order; `__getitem__` creates the values."""

    __slots__ = ("_keys",)
    _keys: Mapping[H, Any]

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[H]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class Made(Packed[str, T]):
    """A copy of a mapping that converts each value with `make` when it is first read.

    The original value is dropped then. `make` must return an equal value for one that it made, because two threads
    may ask at once.
    """

    __slots__ = ("_is_made", "_make", "_values")

    def __init__(self, values: Mapping[str, T], make: Callable[[T], T]) -> None:
        self._keys = self._values = dict(values)
        self._make = make
        self._is_made = set[str]()

    def __getitem__(self, key: str) -> T:
        if key not in self._is_made:
            self._values[key] = self._make(self._values[key])
            self._is_made.add(key)
        return self._values[key]

    def __reduce__(self) -> tuple[type[dict[str, T]], tuple[dict[str, T]]]:
        return dict, (dict(self),)  # `make` cannot be pickled


class Series(Packed[str, tuple[float, ...]]):
    """Key → tuple of numbers."""

    __slots__ = ("_values",)

    def __init__(self, series: Mapping[str, Sequence[float]]) -> None:
        self._keys = _places(tuple((key, len(values)) for key, values in series.items()))
        self._values = array(
            "d", list(chain.from_iterable(series.values()))
        )  # from a list: from an iterator an array takes 12 % more memory

    def __getitem__(self, key: str) -> tuple[float, ...]:
        begin, end = self._keys[key]
        return tuple(self._values[begin:end])


class Numbers(Packed[int, float]):
    """Key → number."""

    __slots__ = ("_values",)

    def __init__(self, numbers: Mapping[int, float]) -> None:
        self._keys = _order(tuple(numbers))
        self._values = array("d", list(numbers.values()))

    def __getitem__(self, key: int) -> float:
        place: int = self._keys[key]
        return self._values[place]


class Rounds(Packed[str, Mapping[int, float]]):
    """Name → key → number."""

    __slots__ = ("_orders",)

    def __init__(self, rounds: Mapping[str, Mapping[int, float]]) -> None:
        self._keys = Series({name: tuple(numbers.values()) for name, numbers in rounds.items()})
        self._orders = same(tuple(tuple(numbers) for numbers in rounds.values()))

    def __getitem__(self, name: str) -> Mapping[int, float]:
        values = self._keys[name]
        return dict(zip(self._orders[list(self._keys).index(name)], values, strict=True))


class Comparisons(Packed[str, "Comparison"]):
    """Name → comparison."""

    __slots__ = ("_numbers", "_rest", "_within")

    def __init__(self, comparisons: Mapping[str, Comparison]) -> None:
        found = comparisons.values()
        self._keys = _order(tuple(comparisons))
        self._numbers = array("d", [_number(value) for c in found for value in (c.speedup, c.low, c.high)])
        self._rest = same(tuple((c.rounds, c.verdict, c.starts, c.degrees) for c in found))
        within = [(c.within_low, c.within_high) for c in found]
        self._within = within if any(each != (None, None) for each in within) else None

    def __getitem__(self, name: str) -> Comparison:
        from cpugpu_tui.decide.comparison import Comparison

        place = self._keys[name]
        speedup, low, high = self._numbers[3 * place : 3 * place + 3]
        within = self._within[place] if self._within is not None else ()
        return Comparison(speedup, _known(low), _known(high), *self._rest[place], *within)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


class Readings(Packed[str, "model.Reading"]):
    """Key → reading."""

    __slots__ = ("_rest", "_values")

    def __init__(self, readings: Mapping[str, model.Reading]) -> None:
        self._keys = _order(tuple(readings))
        values = [_number(r.value) for r in readings.values()]
        self._values = array("d", [*values, *(r.age_s for r in readings.values())])
        self._rest = same(tuple((r.reason, r.is_stamped) for r in readings.values()))

    def __getitem__(self, key: str) -> model.Reading:
        place = self._keys[key]
        value, age_s = self._values[place], self._values[len(self._keys) + place]
        reason, is_stamped = self._rest[place]
        return model.Reading(_known(value), reason, age_s, is_stamped)


# ------------------------------------------------------------------ cached properties


class slot_cached_property(Generic[T]):
    """A property that is computed when it is first read, and cached in the object.

    `functools.cached_property` creates the object's dictionary: 400 bytes each, and an app holds 30,000 of them.
    CPython reserves space for the attributes that the first objects of a class had; `prime` makes use of that.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = ""
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = intern(f"_kept_{name}")  # a name that is not interned makes CPython create the dictionary

    @overload
    def __get__(self, instance: None, owner: type) -> slot_cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | slot_cached_property[T]:
        if instance is None:
            return self
        try:
            found: T = getattr(instance, self._name)
        except AttributeError:
            found = self._make(instance)
            object.__setattr__(instance, self._name, found)  # the dataclass is frozen
        return found


def prime(first: object) -> None:
    """Compute all cached properties of the first object of a class, so that later ones have space for them."""
    for name, value in vars(type(first)).items():
        if isinstance(value, slot_cached_property):
            getattr(first, name)
