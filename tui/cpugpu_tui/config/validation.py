"""Check TOML files that people write (config, hosts, themes), and JSON with `convert`.

A msgspec struct or a dataclass describes a table. Every error names the file, the line, the key and its value, and
says what to write instead.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
import tomllib
from msgspec import Meta

from cpugpu_tui.config.paths import read_at_most
from cpugpu_tui.errors import UsageError, did_you_mean
from cpugpu_tui.machine.text import printable, shortened

T = TypeVar("T")

MOST_BYTES = 1_000_000
"""Size limit: nobody writes a larger file by hand."""

# No union of two types with `Meta(pattern=…)`: msgspec 0.22 frees one of the patterns and crashes.
Text = Annotated[str, Meta(min_length=1, description="text in quotes")]
Texts = Annotated[
    str | list[Annotated[str, Meta(min_length=1)]], Meta(description="text in quotes, or a list of texts")
]

_EXPECTED: Mapping[Any, str] = {
    str: "text in quotes", bool: "true or false", int: "a whole number", float: "a number", dict: "a table",
    list: "a list",
}  # fmt: skip
"""What to write for a type without a description."""

_lock = threading.Lock()
_learnt: set[Any] = set()


def convert(data: Any, kind: type[T]) -> T:
    """Return plain data as a `kind`. Thread-safe.

    msgspec analyses a class on first use. If another thread converts to the same class meanwhile, the process ends with
    a segmentation fault (msgspec 0.22, 37 of 40 tries with eight threads). The readers of two agents do that.

    Raises:
        msgspec.ValidationError: the data does not fit the type.
        OverflowError: a number is too large for its field.
    """
    if kind not in _learnt:
        with _lock:
            msgspec.json.Decoder(kind)
            _learnt.add(kind)
    return msgspec.convert(data, type=kind)


class TomlError(UsageError):
    """An unreadable or invalid TOML file."""

    def __init__(self, path: Path, line: int | None, problem: str, remedy: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}" if line else f"{path}: {problem}", remedy)
        self.path, self.line, self.problem = path, line, problem


class TomlFile:
    """A TOML file with the line of each of its keys.

    The path of a key is a tuple: `("presets", "mine", "sizes")`, or `("hosts", 2, "env")` in an array of tables.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            TomlError: the file cannot be read, is too large, not UTF-8 or not TOML.
        """
        self.path = path
        self.text = read_text(path)
        try:
            self.data = tomllib.loads(self.text)
        except RecursionError:
            raise TomlError(path, None, "Invalid TOML: too many nested brackets.", "Remove some of them.") from None
        except tomllib.TOMLDecodeError as error:
            place = re.fullmatch(r"(.*) \(at line (\d+), (column \d+)\)", str(error), re.DOTALL)
            end = (self.text.count("\n") + 1, str(error))  # "(at end of document)"
            line, what = (int(place[2]), f"{place[1]} ({place[3]})") if place else end
            what = printable(f"{what[:1].lower()}{what[1:]}")
            raise TomlError(path, line, f"Invalid TOML: {what}.", 'Write lines like key = "text".') from None

    @cached_property
    def _lines(self) -> dict[tuple[str | int, ...], int]:
        lines: dict[tuple[str | int, ...], int] = {}
        table: tuple[str | int, ...] = ()
        counts: Counter[tuple[str | int, ...]] = Counter()
        for number, line in enumerate(self.text.split("\n"), 1):
            name, equals, _ = line.partition("=")
            if head := re.match(r"(\[\[?)([^\[\]]+)\]", line.lstrip()):
                table = _dotted(head[2])
                if head[1] == "[[":
                    counts[table] += 1
                    table = (*table, counts[table] - 1)
                lines.setdefault(table, number)
            elif equals and not set("#[") & set(name):
                lines.setdefault((*table, *_dotted(name)), number)
        return lines

    def line_of(self, *key: str | int) -> int | None:
        """Return the line of a key, else that of the innermost table around it; None if neither is found."""
        return next((self._lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in self._lines), None)

    def error(self, key: tuple[str | int, ...], problem: str, remedy: str) -> TomlError:
        """Return an error that names the line of a key."""
        return TomlError(self.path, self.line_of(*key), problem, remedy)

    def wrong_value(self, key: tuple[str | int, ...], value: object, expected: str) -> TomlError:
        """Return the error of an invalid value; `expected` is a noun phrase like `a number`."""
        return self.error(key, f"Invalid value {value_text(value)} for `{_name(key)}`.", f"Write {expected}.")

    def table(self, kind: type[T], data: object, at: tuple[str | int, ...] = ()) -> T:
        """Return the table at a path as a `kind`, a msgspec struct or a dataclass.

        Raises:
            TomlError: a key is unknown or missing, or its value has the wrong type.
        """
        values = self.values(get_type_hints(kind, include_extras=True), data, at)
        for name, parameter in signature(kind).parameters.items():
            if name not in values and parameter.default is parameter.empty:
                raise self.error(at, f"`{name}` is missing{_place(at)}.", f"Add a line `{name} = …`.")
        return kind(**values)

    def values(self, types: Mapping[str, Any], data: object, at: tuple[str | int, ...] = ()) -> dict[str, Any]:
        """Return the values of the table at a path; `types` holds the allowed keys and their types.

        Raises:
            TomlError: the data is not a table, a key is unknown, or a value has the wrong type.
        """
        if not isinstance(data, dict):
            raise self.wrong_value(at, data, "a table")
        self.refuse_unknown(data, types, at)
        return {name: self.value(types[name], value, (*at, name)) for name, value in data.items()}

    def value(self, kind: Any, value: object, key: tuple[str | int, ...]) -> Any:
        """Return the value of a key, converted to a type. Entries of a `dict[…, …]` are checked one by one.

        Raises:
            TomlError: the value does not have this type.
        """
        if getattr(kind, "__origin__", None) is dict and isinstance(value, dict):
            name_kind, each_kind = kind.__args__
            names = {name: self.value(name_kind, name, (*key, name)) for name in value}
            return {names[name]: self.value(each_kind, each, (*key, name)) for name, each in value.items()}
        try:
            return convert(value, kind)
        except (msgspec.ValidationError, OverflowError):
            raise self.wrong_value(key, value, _expected(kind)) from None

    def refuse_unknown(self, data: Mapping[str, Any], known: Collection[str], at: tuple[str | int, ...]) -> None:
        """Raise TomlError if a table has a key that is not in `known`."""
        for name in data:
            if name not in known:
                raise self.error(
                    (*at, name), f"Unknown key `{printable(name)}`{_place(at)}.", did_you_mean(name, known)
                )

    def parsed(self, key: tuple[str | int, ...], parse: Callable[[], T]) -> T:
        """Return the result of parsing the value of a key; a UsageError becomes a TomlError with its line."""
        try:
            return parse()
        except UsageError as error:
            raise self.error(key, error.message, error.remedy) from None


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        TomlError: the file cannot be read, is larger than `MOST_BYTES`, or is not text in UTF-8.
    """
    try:
        data = read_at_most(path, MOST_BYTES)
        if len(data) > MOST_BYTES:
            raise TomlError(path, None, f"The file is larger than {MOST_BYTES:,} bytes.", "Choose a smaller file.")
        if b"\0" in data:
            raise TomlError(path, None, "The file is not text.", "Choose a text file.")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise TomlError(path, None, "The file does not exist.", "Create it, or check its path.") from None
    except OSError as error:
        raise TomlError(
            path, None, f"Cannot read the file: {error.strerror}.", "Put a readable file there, or none."
        ) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TomlError(path, line, "The file is not UTF-8 text.", "Save it as UTF-8.") from error


def value_text(value: object) -> str:
    """Return a value as short, printable text for an error."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return printable(shortened(text, 60))


def _dotted(text: str) -> tuple[str | int, ...]:
    """Return the parts of a TOML name, `a."b.c"` → (a, b.c); empty if it is invalid."""
    try:
        data: Any = tomllib.loads(f"[{text}]")
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()
    parts = []
    while data:
        ((name, data),) = data.items()
        parts.append(name)
    return tuple(parts)


def _name(key: tuple[str | int, ...]) -> str:
    """Return the last name in a path."""
    return printable(next((part for part in reversed(key) if isinstance(part, str)), ""))


def _place(at: tuple[str | int, ...]) -> str:
    return f" in [{printable('.'.join(part for part in at if isinstance(part, str)))}]" if at else ""


def _expected(kind: Any) -> str:
    for note in getattr(kind, "__metadata__", ()):
        if isinstance(note, Meta) and note.description:
            return note.description
    origin = getattr(kind, "__origin__", kind)
    if origin in _EXPECTED:
        return _EXPECTED[origin]
    return " or ".join(dict.fromkeys(_expected(each) for each in kind.__args__ if each is not type(None)))
