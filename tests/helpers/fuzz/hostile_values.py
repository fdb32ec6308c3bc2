"""Random texts, words, Python objects and damaged documents, between nearly right and absurd."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

SIZES = (
    "64", "16:256", "16:256:2", "1:10000:50", "16,64,256", "10M", "100k", "1,000,000", "2^12", "2**12", "1e6", "0x10",
    "٣", "-1", "0", "16:", ":", ":::", ",", "9" * 40, "1:1000000000:1", "1e999", "NaN", "inf", "½", "²", " 64 ", "64;",
)  # fmt: skip
STATEMENTS = (
    "x @ x", "#", "x # y", "x;y", "pass", "x = 1", "return x", "lambda: x", "(", ")", "f'{x}'", "x if", "await x",
    "yield x", "import os", "x\ny", "def f(): pass", "'''", "\\", "x\x00y", "torch.rand(n) + k", "*x", "x := 1",
    "[x for x in y]", "a.py:f", "a.py:", ":f", "json:loads", "os:", "math:pi", "a.py:ünïcödé", "...", "None", "@", "😀",
)  # fmt: skip
WORDS = (
    *SIZES, "matmul", "vector-dot", "quick", "default", "float32", "float64", "f16", "bf16", "cpu", "cuda", "cuda:0",
    "auto", "all", "both", "1", "2", "latest", "latest~1", "-", "--", "-h", "", " ", ".", "..", "/", "/dev/null", "nan",
    "-inf", "1.5", "5%", "latency=5%", "=", "a=b", "k=1,2", "class=1", "gpus=2", "noise=0.1", "noise=nan", "gpus=-1",
    "gpus=9999", "size=crash", "true", "None", "%s", "{n}", "{}", "{device}", "$HOME", "~", "~nobody", "a\nb",
    "\x1b[31m", "漢字", "e\u0301\u202e", "x" * 300, "'", '"', "\\", "*", "[", "[1-4]", "n[1-", "run 1", "+tag",
    "-tag", "1e400",
)  # fmt: skip
PIECES = "0123456789:,.-+eExXkKMG^*%=()[]{}'\"#@;\\ \t\n\x00\x7f\xa0µ漢²٣😀abcnxyz_/~"


def text(random: Random, known: Sequence[str] = WORDS) -> str:
    """Return a known text, two of them, one with changed characters, or nothing but random characters."""
    kind = random.random()
    if kind < 0.35:
        return random.choice(known)
    if kind < 0.45:
        return random.choice(("", ",", ":", " ", "=", "\n")).join(random.choices(known, k=2))
    if kind < 0.85:
        return changed(random, random.choice(known))
    return "".join(random.choices(PIECES, k=random.randint(0, 30)))


def changed(random: Random, whole: str) -> str:
    """Return a text with one to three characters left out, put in, exchanged or repeated."""
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(whole))
        whole = whole[:place] + random.choice((random.choice(PIECES), "", whole[:place][-3:])) + whole[place + 1 :]
    return whole


def changed_bytes(random: Random, whole: bytes) -> bytes:
    """Return bytes with a piece cut off, left out, overwritten or repeated."""
    begin = random.randint(0, len(whole))
    end = min(len(whole), begin + random.choice((1, 4, 100, 10_000)))
    piece = random.choice((b"", random.randbytes(end - begin), 2 * whole[begin:end], b"\x00", b"\xff\xfe", b'"', b"{"))
    return whole[:begin] if random.random() < 0.1 else whole[:begin] + piece + whole[end:]


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**400, 0.0, -0.0, 1.5, 1e308, math.nan, math.inf, -math.inf, "",
    "x", "latency", "cpu", "cuda:0", "\x00", "\x1b[2J", "漢", "1", "NaN", "x" * 10_000, [], {}, [[]], [None], [1, "a"],
    {"": None}, {"a": {"b": []}},
)  # fmt: skip
"""Values of JSON."""


def changed_json(random: Random, document: Any) -> Any:
    """Return a document with one to three values, at any depth, left out, exchanged, or put under another key."""
    document = deepcopy(document)
    for _ in range(random.randint(1, 3)):
        places = list(_places(document))
        if not places:
            return deepcopy(random.choice(VALUES))
        holder, key = random.choice(places)
        kind = random.random()
        if kind < 0.2:
            del holder[key]
        elif kind < 0.3 and isinstance(holder, dict):
            holder[random.choice(("", "event", "x", key + "x"))] = holder.pop(key)
        elif kind < 0.45:
            other, where = random.choice(places)
            holder[key] = deepcopy(other[where]) if where in _keys(other) else None
        else:
            holder[key] = deepcopy(random.choice(VALUES))
    return document


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def _places(document: Any) -> Any:
    for key in list(_keys(document)) if isinstance(document, (dict, list)) else ():
        yield document, key
        yield from _places(document[key])


class Odd:
    """An object whose conversions raise."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __int__(self) -> int:
        raise OverflowError

    def __float__(self) -> float:
        raise ZeroDivisionError

    def __index__(self) -> int:
        raise KeyError("index")

    def __bool__(self) -> bool:
        raise ValueError("no truth")

    def __iter__(self) -> Any:
        raise TypeError("no items")

    def __len__(self) -> int:
        return -1

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = None  # type: ignore[assignment]


OBJECTS: tuple[Callable[[Random], Any], ...] = (
    lambda r: r.choice(VALUES),
    lambda r: text(r),
    lambda r: text(r, STATEMENTS),
    lambda r: text(r, SIZES),
    lambda r: text(r).encode(errors="replace"),
    lambda r: r.choice((int, len, print, Random, Odd, math, Path)),
    lambda r: r.choice(
        (Odd(), object(), Path("a"), Decimal("NaN"), Decimal(3), Fraction(1, 3), 1j, range(3), range(0))
    ),
    lambda r: [r.choice(VALUES) for _ in range(r.randint(0, 3))],
    lambda r: tuple(text(r, SIZES) for _ in range(r.randint(0, 3))),
    lambda r: {text(r): r.choice(VALUES) for _ in range(r.randint(0, 3))},
    lambda r: {r.choice(VALUES[:10]): Odd()},
    lambda r: {r.randint(0, 9)},
    lambda r: (each for each in (1, 2)),
    lambda r: lambda *values: values,
    lambda r: bytearray(b"16"),
    lambda r: memoryview(b"16"),
    lambda r: r.randint(-10, 10**6),
    lambda r: r.random() * 10,
)


def python_object(random: Random) -> Any:
    """Return an object of any type."""
    return random.choice(OBJECTS)(random)
