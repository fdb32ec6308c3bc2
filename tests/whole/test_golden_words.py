"""Golden words belong to a test: a text that no test asserts would be read, reworded and believed in vain."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.golden import WORDS, GoldenWords, sections_of

TESTS = Path(__file__).resolve().parents[1]


def test_each_golden_text_belongs_to_a_test() -> None:
    """Remove the section of a test that was renamed or deleted by hand."""
    orphans = []
    for file in WORDS.glob("*.txt"):
        folder = TESTS / "rooms" / file.stem if (TESTS / "rooms" / file.stem).is_dir() else TESTS / file.stem
        sources = {source.name: source.read_text("utf-8") for source in folder.rglob("test_*.py")}
        for section in sections_of(file):
            module, _, test = section.partition("::")
            if f"def {test.partition('[')[0]}(" not in sources.get(module, ""):
                orphans.append(f"{file.name}: {section}")
    assert not orphans


def test_another_wording_fails_until_it_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "room.txt"
    monkeypatch.setenv("RENEW_GOLDEN", "1")
    first = GoldenWords(file, "test_a.py::test_b")
    first("One size.")
    first(["Two", "lines"])
    monkeypatch.delenv("RENEW_GOLDEN")
    again = GoldenWords(file, "test_a.py::test_b")
    again("One size.")
    again("Two\nlines")
    with pytest.raises(AssertionError, match="make golden"):
        GoldenWords(file, "test_a.py::test_b")("Another size.")
    with pytest.raises(AssertionError, match="make golden"):
        again("A third text.")
