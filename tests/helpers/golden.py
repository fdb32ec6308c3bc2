"""Texts that people read, held to a file each in `tests/golden`; `make golden` writes these anew."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "golden"


def assert_golden(name: str, text: str) -> None:
    """Assert that the text is that of `tests/golden/NAME.txt`; what differs is the message."""
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
