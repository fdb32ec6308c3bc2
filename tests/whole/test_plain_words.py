"""Phrases that must not come back: private words and inverted sentences that were replaced by plain ones.

The list holds what stood before in the tables of the style guide and of the reviews. It is searched in the strings,
docstrings and comments of the program, in README and in docs, across line breaks.
"""

import ast
import io
import re
import tokenize

from tests.helpers.command_line import ROOT

SOURCES = sorted((ROOT / "tui").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

BEFORE = (
    # Help, doctor and claims.
    "the cable", "asking costs", "the check said no", "Other keys stand in", "Where things lie",
    "What is old has to be", "one is made up", "made-up", "must not be fallen behind", "give or take",
    "} to know about", "finds it hopeless", "at a time measure each other", "depend, {", "it says what it scaled",
    "inside this very process", "Two of our runs at a time",
    # Answers, tables and charts.
    "faster from about", "at no size up to", "no clear winner above", "launching and waiting cost nothing",
    "kept the CPU busy", "from which size on", "is the GPU faster here?", "clock off", "that clock is off by",
    "comes with the first row", "verdict takes at least", "By the publication's clock", "tell nothing of this machine",
    "where the lead changes", "and more to tell", "what a caller waits", "this device has no machine card",
    # Keys and status lines.
    "Sort the rows by the next", "at last as they ran", "Turn the order of the rows", "esc as they were",
    "enter use these", "r starts, esc drops", "of just now", "one row again", "this is the baseline",
    "from 3 runs each on", "verdicts from",
    # Docstrings and comments.
    "Carry it", "Carry the run", "It is said", "Be told that", "How long it stays said", "whether the run is to end",
    "load libraries for seconds", "what disturbs times", "Forget what was asked", "which the next one would obey",
    "what a clock could tell", "differ in size alone", "by what they share", "a third is imported",
    "Told True before", "come of a key", "came of a key",
)  # fmt: skip
"""As short as is distinctive. Case and line breaks do not count."""

PATTERNS = (
    r"(?<!there )\bis no (age|count|database|format|host|number|pace|percentage|range|recording|size|tag|trace)\b",
    r"(?<!there )\bis no input\b",
    r"\bfrom \d[\d,.]* on\b(?! \w)",
    r"\bit says, and\b",
)
"""The same for sentences of one form."""

OPENINGS = ("There is no ", "There are no ")
"""No string begins like this: an error begins with the value."""


def words_of(path):
    """Return the strings, docstrings and comments of a file, or a whole page, with single spaces."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        text = " ".join([*comments(text), *(each for each in strings(text))])
    return re.sub(r"\s+", " ", text).lower()


def comments(source):
    """Yield the comments of a file. One that goes on in the next line is found as a whole."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def strings(source):
    """Yield the strings and docstrings of a file. `{}` stands for the values in an f-string."""
    within = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            within |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within:
            yield node.value


def test_no_replaced_phrase_comes_back():
    texts = {path.relative_to(ROOT): words_of(path) for path in (*SOURCES, *PAGES)}
    wanted = [*(re.escape(phrase.lower()) for phrase in BEFORE), *PATTERNS]
    found = [
        f"{path}: {match[0]}" for path, text in texts.items() for each in wanted for match in re.finditer(each, text)
    ]
    assert not found, "\n".join(found)


def test_no_string_begins_with_what_is_missing():
    found = [
        f"{path.relative_to(ROOT)}: {text[:80]}"
        for path in SOURCES
        for text in strings(path.read_text("utf-8"))
        if text.startswith(OPENINGS)
    ]
    assert not found, "\n".join(found)


def test_phrases_are_found_across_lines_in_every_kind_of_text(tmp_path):
    file = tmp_path / "some.py"
    file.write_text('"""Some\n    text."""\nx = f"one {1} two"  # a comment\n# goes on\ny = ("an" \n " end")\n')
    text = words_of(file)
    assert all(each in text for each in ("some text", "one {} two", "a comment goes on", "an end"))
    assert "y =" not in text
