"""Remove names of machines and people from runs, so that they can be published.

Times, sizes, models, versions and limits stay, because they are the content of an export. The random ids of run and
series stay too, because an import recognises known runs by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from cpugpu_tui.config.validation import convert
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.session.repeat import CODE, HOST, LEFT_OUT, PLACE
from cpugpu_tui.transport.event_checks import FACTS

PERSON, BUS = "person", "<pci>"
"""Replacements of user names and PCI addresses."""

_EMPTIED: dict[str, Any] = {"argv": [], "user": None, "command": None, "pci_bus_id": None, "serial": None,
                            "boot_id": "", "statement": CODE, "setup": [], "lets": [],
                            "source_line": CODE, "file": CODE, "startup": []}  # fmt: skip
"""Fields that are private as a whole, with their replacements."""

_HOSTS = frozenset({"hostname", "fleet_host", "host"})
"""Fields that hold host names."""

_PATHS = frozenset({"interpreter", "python_option", "mnist", "path", "hosts_file"})
"""Fields that hold paths, absolute or relative."""

_WORDS = frozenset(
    {
        "workload", "variant", "dtype", "device", "devices", "metrics", "kind", "status", "phase", "reason", "edge",
        "scope", "cache", "scale", "marks", "throttle",
    }
)  # fmt: skip
"""Fields with fixed words and names of workloads. A host named `matmul` must not change them."""
_WORD = re.compile(r"[A-Za-z0-9][\w.:+-]{0,79}(?: [\w.:+-]{1,79}){0,3}", re.ASCII)
"""Form of such a word; other texts are left out."""
_SHAPES = {
    "case": re.compile(r"[\w.+-]+(?:,\w+=[\w.-]+)*/[\w.+-]+/\d+/\w+/t\w+"),
    **dict.fromkeys(("run_id", "series_id", "sha256", "torch_git"), re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)),
}
"""Fields with generated texts, and the form of these; other texts are left out."""

_LET = re.compile(r",(\w+)=([\w.-]+)")
"""A parameter of typed code in the name of its workload, such as `,k=2`."""
_NUMBER = re.compile(r"-?[\d.]+(?:e-?\d+)?")

_MESSAGES = frozenset({"message", "remedy", "problem", "no_gpu", "note", "torch_error"})
"""Free text about failures: it may quote paths, command lines and output of programs."""
_OF_RUN = "The message was left out (--anonymize)."
"""In place of the message of a run. Its status is no message: `done` would follow a warning."""
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,60}(?:Error|Exception|Warning|Interrupt|Exit)(?=:|$)", re.ASCII)

_BEGINS = r"(?:(?<![\w/.<])(?:~[\w.-]*)?/|(?<![\w/.])\.{1,2}/|(?<!\w)[A-Za-z]:\\)"
_PATH = re.compile(
    rf"(?<=')(?:{_BEGINS})[^'\n]+(?=')|(?<=\")(?:{_BEGINS})[^\"\n]+(?=\")"  # quoted: to the end, with its spaces
    rf"|{_BEGINS}(?:\\ |[^\s\"'`:;,<>|()\[\]{{}}])+"
    r"|(?<![\w/.-])[\w.-]+(?:/[\w.-]+)*/[\w-]+\.[A-Za-z]\w{0,7}(?![\w/.-])"  # data/x.csv, not GB/s
)
_UUID = re.compile(
    r"(?:GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]{3,}(?:/\d+/\d+)?"  # CUDA_VISIBLE_DEVICES accepts prefixes
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
)
_BUS = re.compile(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")
_EMAIL = re.compile(r"[^\s@<>\"']+@[\w-]+(?:\.[\w-]+)+")
_ADDRESS = re.compile(
    r"\b(?:\d{1,3}\.){3}\d{1,3}(?![\w-])|\b(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}\b"  # not a version 5.15.133.1-wsl
    r"|(?<![\w:])(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6})(?![\w:])"
)
_TOKEN = re.compile(
    r"\b(?:gh[pousr]_|github_pat_|glpat-|sk-|hf_|xox[abprs]-|AKIA|eyJ)[\w.-]{6,}"
    r"|(?i:\b(?:bearer|password|passwd|secret|token|api[_-]?key|credentials?)\b\s*[=:]?\s*\S+)"
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{32,}\b"
)
_NAMED_HOST = re.compile(r"\b(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{2,}\b(?!\()")
_ODD = (_EMAIL, _ADDRESS, _TOKEN)
_HOME = re.compile(r"/(?:home|Users)/([^/\s\"':]+)")


def anonymized(
    runs: Sequence[ExportedRun], hosts: Iterable[str] = (), people: Iterable[str] = (), *, messages: bool = False
) -> list[ExportedRun]:
    """Return the runs without host names, users, command lines, paths, UUIDs, PCI addresses and serial numbers.

    The same UUID gets the same alias in all runs. `hosts` and `people` are further names to remove, such as those of
    this host and user. Messages of failures are replaced by the kind of failure. With `messages` they are kept, without
    the names, paths and addresses that can be recognised; the rest is what a program printed.
    """
    plain = [[(type(event), to_plain(event)) for event in run.events] for run in runs]
    veil = _Veil(messages=messages)
    for stream in plain:
        for _, data in stream:
            veil.learn(data)
    veil.hosts.update(hosts)
    veil.people.update(people)
    veil.settle()
    return [
        replace(run, events=tuple(convert(veil.covered("", data), kind) for kind, data in stream))
        for run, stream in zip(runs, plain, strict=True)
    ]


class _Veil:
    """Private texts of some runs, and their replacements."""

    def __init__(self, *, messages: bool) -> None:
        self._keeps_messages = messages
        self.hosts: set[str] = set()
        self.people: set[str] = set()
        self._uuids: dict[str, str] = {}
        self._values: dict[str, str] = {}
        """Value of a parameter → its alias."""
        self._names: re.Pattern[str] | None = None

    def learn(self, value: Any, key: str = "") -> None:
        """Collect the names in a value."""
        if isinstance(value, dict):
            for name, item in value.items():
                self.learn(item, name)
        elif isinstance(value, list):
            for item in value:
                self.learn(item, key)
        elif isinstance(value, str):
            if key in _HOSTS:
                self.hosts.add(value)
            elif key == "user":
                self.people.add(value)
            elif key == "uuid":
                self._alias(value)
            if "/" in value:
                self.people.update(_HOME.findall(value))

    def settle(self) -> None:
        """Prepare `covered`, once all names are known."""
        short = {host.split(".")[0] for host in self.hosts if not host.replace(".", "").isdigit()}
        self.hosts = {host for host in self.hosts | short if len(host) > 1}
        names = sorted({name for name in self.hosts | self.people if len(name) > 1}, key=len, reverse=True)
        if names:
            self._names = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, names))})(?![A-Za-z0-9_])")

    def covered(self, key: str, value: Any, kind: str = "failed", *, is_known: bool = True) -> Any:
        """Return plain data with all private texts replaced.

        `kind` is the kind of failure, which replaces its message. No text of unknown facts (of a newer version or
        another agent) is kept.
        """
        if key in _EMPTIED and value is not None:
            return _EMPTIED[key]
        if isinstance(value, list):
            return [self.covered(key, item, kind, is_known=is_known) for item in value]
        if isinstance(value, dict):
            kind = str(value.get("kind") or (_OF_RUN if "status" in value else "failed"))
            if value.get("codes"):
                value = {**value, "words": []}  # `--against` has code in them
            return {
                name: self.covered(name, item, kind, is_known=is_known and (key != "environment" or name in FACTS))
                for name, item in value.items()
                if self._label(name) == name
            }
        return self._field(key, value, kind, is_known=is_known) if isinstance(value, str) and value else value

    def _field(self, key: str, text: str, kind: str, *, is_known: bool) -> str:
        if key in _MESSAGES:
            return self._message(key, text, kind)
        if key in _HOSTS:
            return HOST
        if key == "uuid":
            return self._alias(text)
        if key in _PATHS:
            return PLACE
        if not is_known:
            return LEFT_OUT
        if key in ("case", "workload", "name"):
            text = _LET.sub(self._let, text)
        if key in _SHAPES:
            return text if _SHAPES[key].fullmatch(text) else LEFT_OUT
        if key in _WORDS:
            word = _LET.sub("", text) if key == "workload" else text
            return text if _is_word(word, may_have_dots=key in ("workload", "variant")) else LEFT_OUT
        return self._label(text)

    def _message(self, key: str, text: str, kind: str) -> str:
        if self._keeps_messages:
            text = self._text(text)
            for pattern in _ODD:
                text = pattern.sub(LEFT_OUT, text)
            return text
        if key in ("remedy", "no_gpu"):
            return ""
        if key == "torch_error":
            found = _EXCEPTION.match(text)
            return found[0] if found else kind
        return kind if kind == _OF_RUN or _is_word(kind) else "failed"

    def _label(self, text: str) -> str:
        """Return a short text, like a model name; leave all of it out if a part is a path or an address."""
        covered = self._text(text)
        kept = covered in (PLACE, LEFT_OUT) or (PLACE not in covered and BUS not in covered)
        return covered if kept and not any(odd.search(covered) for odd in (*_ODD, _NAMED_HOST)) else LEFT_OUT

    def _text(self, text: str) -> str:
        # UUIDs first; one inside a path is removed with the path.
        text = _UUID.sub(lambda found: self._alias(found[0]), text)
        text = _BUS.sub(BUS, _PATH.sub(PLACE, text))
        if self._names is not None:
            text = self._names.sub(lambda found: HOST if found[0] in self.hosts else PERSON, text)
        return text

    def _let(self, found: re.Match[str]) -> str:
        """Return a parameter as it stands in a name: numbers stay, other values get an alias in all runs."""
        name, value = found.groups()
        if not _NUMBER.fullmatch(value):
            value = self._values.setdefault(value, f"value-{len(self._values)}")
        return f",{name}={value}"

    def _alias(self, uuid: str) -> str:
        """Return the alias of a UUID; aliases are numbered in order of appearance."""
        if uuid not in self._uuids:
            kind = "MIG" if uuid.startswith("MIG") else "GPU"
            self._uuids[uuid] = f"{kind}-anonymous-{len(self._uuids)}"
        return self._uuids[uuid]


def _is_word(text: str, *, may_have_dots: bool = False) -> bool:
    odd = _ODD if may_have_dots else (*_ODD, _NAMED_HOST)
    return bool(_WORD.fullmatch(text)) and not any(pattern.search(text) for pattern in odd)
