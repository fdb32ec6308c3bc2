"""Runs without the names of machines and people: for an issue that strangers read.

Times, sizes, models, versions and limits stay: they are what the export is for. So do the random ids of run and series,
by which an import knows a run that it has already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cpugpu_tui.plain import to_plain
from cpugpu_tui.runs.converting import convert
from cpugpu_tui.runs.export.stream import ExportedRun

HOST, PERSON, PLACE, BUS = "host", "person", "<path>", "<pci>"
"""What stands for a machine's name, a person's, a path and a PCI address."""

_EMPTIED: dict[str, Any] = {"argv": [], "user": None, "command": None, "pci_bus_id": None, "serial": None}
"""Fields that hold nothing but what must go, with what they hold then."""

_HOSTS = frozenset({"hostname", "fleet_host"})
"""Fields that are names of machines."""

_PATHS = frozenset({"interpreter", "python_option", "mnist", "path"})
"""Fields that are paths, relative ones too."""

_WORDS = frozenset({"case", "workload", "variant", "dtype", "device", "kind", "status", "phase", "reason", "edge"})
"""Fields of our own words and of the names of workloads: a machine called `matmul` must not rename them."""

_BEGINS = r"(?:(?<![\w/.<])(?:~[\w.-]*)?/|(?<![\w/.])\.{1,2}/|(?<!\w)[A-Za-z]:\\)"
_PATH = re.compile(
    rf"(?<=')(?:{_BEGINS})[^'\n]+(?=')|(?<=\")(?:{_BEGINS})[^\"\n]+(?=\")"  # quoted: to the end, with its spaces
    rf"|{_BEGINS}(?:\\ |[^\s\"'`:;,<>|()\[\]{{}}])+"
    r"|(?<![\w/.-])[\w.-]+(?:/[\w.-]+)*/[\w-]+\.[A-Za-z]\w{0,7}(?![\w/.-])"  # data/x.csv, not GB/s
)
_UUID = re.compile(
    r"(?:GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]{3,}(?:/\d+/\d+)?"  # a beginning is enough for CUDA_VISIBLE_DEVICES
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
)
_BUS = re.compile(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")
_HOME = re.compile(r"/(?:home|Users)/([^/\s\"':]+)")


def anonymized(runs: Sequence[ExportedRun], hosts: Iterable[str] = (), people: Iterable[str] = ()) -> list[ExportedRun]:
    """Return the runs without host names, users, command lines, paths, UUIDs, PCI addresses and serial numbers.

    The same UUID becomes the same word in all of them. `hosts` and `people` are names to remove beside those that the
    runs tell of themselves: this machine's and this person's.
    """
    plain = [[(type(event), to_plain(event)) for event in run.events] for run in runs]
    veil = _Veil()
    for stream in plain:
        for _, data in stream:
            veil.learn(data)
    veil.hosts.update(hosts)
    veil.people.update(people)
    veil.settle()
    return [ExportedRun(tuple(convert(veil.covered("", data), kind) for kind, data in stream)) for stream in plain]


class _Veil:
    """What must go, and what stands for it."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.people: set[str] = set()
        self._uuids: dict[str, str] = {}
        self._names: re.Pattern[str] | None = None

    def learn(self, value: Any, key: str = "") -> None:
        """Take note of the names in a value."""
        for name, item in _items(value, key):
            if isinstance(item, (dict, list)):
                self.learn(item, name)
            elif isinstance(item, str):
                self._note(name, item)

    def _note(self, key: str, text: str) -> None:
        if key in _HOSTS:
            self.hosts.add(text)
        elif key == "user":
            self.people.add(text)
        elif key == "uuid":
            self._alias(text)
        if "/" in text:
            self.people.update(_HOME.findall(text))

    def settle(self) -> None:
        """Make what `covered` looks for, once all names are known."""
        short = {host.split(".")[0] for host in self.hosts if not host.replace(".", "").isdigit()}
        self.hosts = {host for host in self.hosts | short if len(host) > 1}
        names = sorted({name for name in self.hosts | self.people if len(name) > 1}, key=len, reverse=True)
        if names:
            self._names = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, names))})(?![A-Za-z0-9_])")

    def covered(self, key: str, value: Any) -> Any:
        """Return plain data with all of it replaced."""
        if isinstance(value, list):
            return [self.covered(key, item) for item in value] if key not in _EMPTIED else _EMPTIED[key]
        if isinstance(value, dict):
            return {name: self.covered(name, item) for name, item in value.items()}
        if key in _EMPTIED and value is not None:
            return _EMPTIED[key]
        if not isinstance(value, str) or key in _WORDS:
            return value
        return self._field(key, value)

    def _field(self, key: str, text: str) -> str:
        if key in _HOSTS:
            return HOST
        if key == "uuid":
            return self._alias(text)
        return PLACE if key in _PATHS and text else self._text(text)

    def _text(self, text: str) -> str:
        # UUIDs first: a path may hold one, and then it goes with the path all the same.
        text = _UUID.sub(lambda found: self._alias(found[0]), text)
        text = _BUS.sub(BUS, _PATH.sub(PLACE, text))
        if self._names is not None:
            text = self._names.sub(lambda found: HOST if found[0] in self.hosts else PERSON, text)
        return text

    def _alias(self, uuid: str) -> str:
        """Return the word for a UUID, numbered in the order in which they came."""
        if uuid not in self._uuids:
            kind = "MIG" if uuid.startswith("MIG") else "GPU"
            self._uuids[uuid] = f"{kind}-anonymous-{len(self._uuids)}"
        return self._uuids[uuid]


def _items(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        yield from ((key, item) for item in value)
