"""Helpers for tests of states: a state's name, and a screen as one text."""

import re
from typing import Any

import pytest

FRAME = re.compile(r"[│╭╮╰╯─]+")


def state(name: str, *values: object) -> Any:
    """A parameter of that name, which `pytest -k` finds."""
    return pytest.param(*values, id=name)


def slow_state(name: str, *values: object) -> Any:
    """The same in `make thorough` alone, for a state whose way to the screen is that of another one."""
    return pytest.param(*values, id=name, marks=pytest.mark.slow)


def joined(lines: list[str]) -> str:
    """Return a screen as one text: wrapped sentences are joined, frames are removed."""
    return " ".join(FRAME.sub(" ", " ".join(lines)).split())
