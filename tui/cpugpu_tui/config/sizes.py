"""Reads and writes sizes: the one parser for options, forms, the config file, filters and the Python API.

One size is a whole number as people write it or as this program prints it: `2048`, `1e6`, `10M`, `256Ki`, `2^12`,
`1,000,000`. Between several sizes stands a comma, or a comma and a space. So a comma can be read in two ways:

- A group that begins with 0 cannot be a size: `4,096` and `1,000,000` are one number.
- Sizes that ascend are a list, as documented: `64,128` and `100,300` are two sizes.
- What could be either and does not ascend, as `262,144`, is refused. With a space, `512, 256`, it is a list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.machine.text import shortened
from cpugpu_tui.model import MAX_SIZE

MAX_CASES = 10_000
"""A plan with more cases is taken for a typing error, such as `1:1e9:1`."""

SIZES = "Use whole numbers, for example 16,32,64 or 1:10000:50."
"""Remedy of an invalid size."""
ONE_SIZE = "Use one whole number, for example 2048, 10M or 2^12."

RANGES = "Use start:stop, for example 16:4096, or start:stop:step, for example 1:10000:50."
"""Remedy of an empty range."""

FEWEST_IN_RANGE = 5
"""From so many sizes with equal steps on, they are written as a range."""

_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_NUMBER = re.compile(r"([+-]?(?:\d{1,400}(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,6})?) ?([kmgt]|[kmg]i)?", re.IGNORECASE)
_POWER = re.compile(r"(\d{1,4})(?:\^|\*\*)(\d{1,2})")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_DIGITS_AND_COMMAS = re.compile(r"(?<![\d.^*])\d+(?:,\d+)+(?![\w.^*])")


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes in text like `1:10000:50` or `16,32,10M`, in the given order, each once.

    Raises:
        FieldError: a part is not a whole number from 1 to `MAX_SIZE`, a range is empty or too long, or a comma has two
            meanings.
    """
    sizes: dict[int, None] = {}
    for part in _parts(text):
        if not all(piece.strip() for piece in part.split(":")):
            raise FieldError("sizes", f"Invalid size {part or text!r}: a number is missing.",
                             RANGES if ":" in part else SIZES)  # fmt: skip
        pieces = part.split(":")
        bounds = [
            parse_size(piece.strip(), what="step" if place == 2 else "size") for place, piece in enumerate(pieces)
        ]
        if len(bounds) == 1:
            sizes[bounds[0]] = None
            continue
        if len(bounds) > 3:
            raise FieldError("sizes", f"Invalid size {part!r}: too many parts.", "Use start:stop or start:stop:step.")
        start, stop, step = (*bounds, 1)[:3]
        if stop <= start:
            raise FieldError("sizes", f"Invalid size {part!r}: stop is not above start.", RANGES)
        if (stop - start) // step > MAX_CASES:
            raise FieldError(
                "sizes", f"{part!r} names more than {MAX_CASES:,} sizes.", "Use a larger step: start:stop:step."
            )
        sizes.update(dict.fromkeys(range(start, stop, step)))
    return tuple(sizes)


def search_ends(text: str) -> tuple[int, int] | None:
    """Return the ends of `start:stop`, which is a search; None for sizes that are fixed.

    Raises:
        FieldError: see `parse_sizes`.
    """
    parts = _parts(text)
    bounds = parts[0].split(":")
    if len(parts) > 1 or len(bounds) != 2 or not all(bounds):
        return None
    start, stop = map(parse_size, map(str.strip, bounds))
    if stop <= start:
        raise FieldError("sizes", f"Invalid size {text!r}: stop is not above start.", RANGES)
    return start, stop


def _parts(text: str) -> list[str]:
    """Return the sizes and ranges of a list, as text without commas.

    Raises:
        FieldError: a comma could separate sizes or thousands.
    """
    found: list[str] = []
    for piece in re.split(r",\s+", text.strip().removesuffix(",")):
        read = _DIGITS_AND_COMMAS.sub(lambda run: _list_or_number(run[0]), piece)
        found += (part.strip() for part in read.split(","))
    return found


_RANGE = re.compile(r"\d+:\d+")


def _list_or_number(text: str) -> str:
    """Return digits and commas as a list, or without the commas if they separate the thousands of one number."""
    groups, is_grouped = text.split(","), bool(_GROUPED.fullmatch(text))
    has_zeros = any(len(group) == 3 and group[0] == "0" for group in groups[1:])
    whole, apart = text.replace(",", ""), ", ".join(groups)
    if is_grouped and has_zeros:
        return whole
    ascends = all(int(before) < int(after) for before, after in pairwise(groups))
    if has_zeros or (is_grouped and not ascends):
        both = f"Write {whole} for one size, or {apart!r} for {len(groups)} sizes."
        raise FieldError("sizes", f"Ambiguous size {shortened(text)!r}: the comma may separate sizes or thousands.",
                         both if is_grouped else "Write numbers without commas, for example 1000,32000.")  # fmt: skip
    return text


def parse_size(text: str, field: str = "sizes", remedy: str = SIZES, what: str = "size") -> int:
    """Return a whole number from 1 to `MAX_SIZE`, written as `2048`, `1e6`, `10M`, `256Ki`, `2^12` or `1,000,000`.

    `what` names the number in an error.

    Raises:
        FieldError: the text is no such number.
    """
    shown = shortened(text)
    plain = re.sub(r"(?<=\d)_(?=\d)", "", text.replace(",", "") if _GROUPED.fullmatch(text) else text)
    power, found = _POWER.fullmatch(plain), _NUMBER.fullmatch(plain)
    if power is not None:
        number: int | float = int(power[1]) ** int(power[2])
    elif found is not None:
        value: int | float = int(found[1]) if re.fullmatch(r"[+-]?\d+", found[1]) else float(found[1])
        number = value * _FACTORS[(found[2] or "").lower()]
        number = round(number, 3) if isinstance(number, float) else number  # 1.1M is 1,100,000.0000000001
        if abs(number) > MAX_SIZE:  # it may have more digits than a float can hold
            number = math.copysign(MAX_SIZE + 1, number) if isinstance(number, float) else number
    else:
        meant = re.sub(r"\s*(?:\.\.+|-|–|to)\s*", ":", text.strip(), count=1)
        meant = meant if _RANGE.fullmatch(meant) else ",".join(text.replace(";", " ").split())
        is_clear = bool(_RANGE.fullmatch(meant) or re.fullmatch(r"\d+(?:,\d+)+", meant)) and len(meant) <= 40
        raise FieldError(field, f"Invalid {what} {shown!r}.", f"Did you mean {meant}?" if is_clear else remedy)
    if number != int(number):
        raise FieldError(field, f"The {what} {shown!r} is not a whole number.", remedy)
    if number < 1:
        raise FieldError(field, f"The {what} {shown!r} is below 1.", f"Use a {what} of 1 or more.")
    if number > MAX_SIZE:
        raise FieldError(field, f"The {what} {shown!r} is too large.", f"Use {what}s up to {MAX_SIZE:,}.")
    return int(number)


def sizes_text(sizes: Sequence[int]) -> str:
    """Return sizes as they can be typed: `16,32`, `1e6,1e7`, or `1:10000:50` for equal steps."""
    steps = {after - before for before, after in pairwise(sizes)}
    if len(sizes) < FEWEST_IN_RANGE or len(steps) > 1 or min(steps) < 1:
        comma = "," if all(step > 0 for step in steps) else ", "
        return comma.join(f"1e{len(text) - 1}" if len(text) > 5 and not int(text[1:]) and text[0] == "1" else text
                          for text in map(str, sizes))  # fmt: skip
    step, last = min(steps), sizes[-1]
    # The stop is excluded. Every number up to the next step would do, so take the roundest.
    stops = [(last // 10**power + 1) * 10**power for power in range(len(str(last)) + 1)]
    return f"{sizes[0]}:{max(stop for stop in stops if stop <= last + step)}:{step}"
