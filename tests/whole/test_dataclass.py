"""Our dataclass behaves as the standard one, and compiles a method when it is first used."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import pytest

from cpugpu_tui.dataclass import dataclass

OPTIONS = [
    {},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "kw_only": True, "slots": True},
    {"frozen": True, "eq": False},
    {"slots": True},
]


def made(decorator: Callable[..., Any], **options: Any) -> Any:
    @decorator(**options)
    class Base:
        """A base class."""

        size: int

    @decorator(**options)
    class Point(Base):
        """A point."""

        name: str = "x"
        values: list[int] = field(default_factory=list)

        def __post_init__(self) -> None:
            assert self.size >= 0

    return Point


def outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except (TypeError, AssertionError, AttributeError) as error:  # FrozenInstanceError is an AttributeError
        return type(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_behaves_as_the_standard_one(options: dict[str, Any]) -> None:
    ours, standard = made(dataclass, **options), made(dataclasses.dataclass, **options)
    acts: list[Callable[[Any], object]] = [
        lambda kind: repr(kind(size=1)),
        lambda kind: kind(size=1) == kind(size=1),
        lambda kind: kind(size=1) == kind(size=2),
        lambda kind: kind(size=1) != 1,
        lambda kind: hash(kind(size=1, values=())) == hash(kind(size=1, values=())),
        lambda kind: kind(1, "y", [2]).values,
        lambda kind: kind(),
        lambda kind: kind(size=-1),
        lambda kind: setattr(kind(size=1), "size", 2),
        lambda kind: delattr(kind(size=1), "size"),
        lambda kind: replace(kind(size=1), size=3).size,
        lambda kind: dataclasses.asdict(kind(size=1)),
        lambda kind: hasattr(kind(size=1), "__dict__"),
        lambda kind: kind.__match_args__,
        lambda kind: [each.name for each in dataclasses.fields(kind)],
    ]
    for act in acts:
        assert outcome(lambda act=act: act(ours)) == outcome(lambda act=act: act(standard))  # type: ignore[misc]


def test_a_class_compiles_nothing_until_it_is_used() -> None:
    """Compiling all was 60 ms of the app's 280 to its first frame."""
    code = (
        "import builtins, dataclasses\nfrom cpugpu_tui.dataclass import compile_all, dataclass\n"
        "made = []\nwhole = dataclasses.make_dataclass\n"
        "dataclasses.make_dataclass = lambda *a, **k: made.append(a[0]) or whole(*a, **k)\n"
        "@dataclass(frozen=True)\nclass Point:\n    'A point.'\n    size: int\n"
        "print(made)\nPoint(1)\nprint(made)\nPoint(2)\nprint(made)\ncompile_all()\nprint(made)\n"
        "assert Point(1) == Point(1) and hash(Point(1))\nprint(made)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    counts = [line.count("Point") for line in done.stdout.splitlines()]
    assert counts == [0, 1, 1, 4, 4]
