"""Checks of what commands were given: two options for the same file, and environment variables with a wrong value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cpugpu_tui.errors import UsageError, home_path, kind_of


def refuse_same_file(values: Mapping[str, object]) -> None:
    """Refuse two options, by option → value, with the same file: what one of them writes, the other would replace.

    Raises:
        UsageError: they have.
    """
    named: dict[str, str] = {}
    for option, value in values.items():
        for path in value if isinstance(value, (list, tuple)) else (value,):
            kind = kind_of(home_path(path)) if isinstance(path, Path) else "no path"
            if kind in ("", "a file"):
                place = os.path.abspath(home_path(path))
                other = named.setdefault(os.path.realpath(place) if kind else place, option)
                if other != option:
                    raise UsageError(f"{other} and {option} name the same file, {path}.", "Give each its own file.")


def check_variables(variables: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Check the values of options that come from variables, by option → variable and option → value.

    Raises:
        UsageError: a value is wrong. The message begins with the name of the variable, which may be set long ago.
    """
    for option in variables:
        try:
            check(option, values[option])
        except UsageError as error:
            raise UsageError(f"{variables[option]}: {error.message}", error.remedy) from None


def check(option: str, value: Any) -> None:
    """Check a value (UsageError). Errors of other options show a path, or are made where the variable is read."""
    from cpugpu_tui.config import parsing

    checks: dict[str, Callable[[Any], object]] = {
        "band": lambda text: parsing.parse_bands(text, {}), "case_timeout": _check_seconds,
        "device": _check_devices, "simulate": parsing.parse_simulation, "worker": parsing.check_worker,
    }  # fmt: skip
    if option in checks:
        checks[option](value)


def _check_seconds(value: str | float) -> None:
    from cpugpu_tui.config.parsing import check_seconds

    try:
        check_seconds(float(value))
    except ValueError:
        raise UsageError(f"{value!r} is not a number.", "Give seconds, for example 60.") from None


def _check_devices(devices: Sequence[str]) -> None:
    from cpugpu_tui.config.parsing import check_device

    for device in devices:
        check_device(device)
