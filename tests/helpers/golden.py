"""Texts that people read, held to a file each in `tests/golden`; `make golden` writes these anew."""

import difflib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "golden"
WORDS = FOLDER / "words"
HEAD = "== "
NEXT = "\n--\n"


def assert_golden(name: str, text: str) -> None:
    """Assert that the text is that of `tests/golden/NAME.txt`; the difference is the message."""
    file = FOLDER / f"{name}.txt"
    said = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    if os.environ.get("RENEW_GOLDEN"):
        file.write_text(said, "utf-8")
    before = file.read_text("utf-8") if file.exists() else ""
    changes = list(difflib.unified_diff(before.splitlines(), said.splitlines(), file.name, "now", lineterm="", n=1))
    assert not changes, "\n".join(["renew with `make golden` if this is meant:", *changes[:200]])


def paragraphs(sentences: Mapping[str, str]) -> str:
    """Return named sentences, a paragraph each."""
    return "\n\n".join(f"-- {name}\n{sentence}" for name, sentence in sentences.items())


class GoldenWords:
    """What a test expects people to read, in a file (`tests/golden/words/ROOM.txt`) under the test's name.

    Each call asserts the next text of the test. A reworded sentence is one change: `make golden`, then read the diff.
    """

    def __init__(self, file: Path, test: str) -> None:
        self._file = file
        self._test = test
        self._calls = 0

    def __call__(self, text: str | Sequence[str]) -> None:
        """Assert that the text, or each of its lines, is the one that was recorded; its width and age must not vary."""
        lines = text.splitlines() if isinstance(text, str) else [line for part in text for line in part.splitlines()]
        said = "\n".join(line.rstrip() for line in lines)
        if os.environ.get("RENEW_GOLDEN"):
            self._record(said)
        texts = sections_of(self._file).get(self._test, [])
        expected = texts[self._calls] if self._calls < len(texts) else ""
        self._calls += 1
        assert said == expected, f"text {self._calls} of {self._test}: renew with `make golden` if this is meant"

    @contextmanager
    def of(self, kind: type[Exception]) -> Iterator[pytest.ExceptionInfo[Exception]]:
        """Assert that the block raises such an error, and what the error says."""
        with pytest.raises(kind) as caught:
            yield caught
        self(str(caught.value))

    def _record(self, said: str) -> None:
        self._file.parent.mkdir(exist_ok=True)
        with (self._file.parent.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # several workers write the same file
            sections = sections_of(self._file)
            sections[self._test] = [*sections.get(self._test, [])[: self._calls], said]
            blocks = [f"{HEAD}{test}\n{NEXT.join(texts)}\n" for test, texts in sorted(sections.items())]
            fresh = self._file.with_suffix(".new")
            fresh.write_text("\n".join(blocks), "utf-8")
            fresh.replace(self._file)  # whoever reads meanwhile sees the file as it was or as it is


def sections_of(file: Path) -> dict[str, list[str]]:
    """Return test → its texts, of a file of golden words; empty without the file."""
    found: dict[str, list[str]] = {}
    for block in f"\n{file.read_text('utf-8')}".split(f"\n{HEAD}")[1:] if file.exists() else []:
        test, _, texts = block.partition("\n")
        found[test] = texts.rstrip("\n").split(NEXT)
    return found
