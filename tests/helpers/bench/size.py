"""Lines of code without blanks, comments and docstrings, and files: `make size`."""

import ast
import io
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]

PLACES = {"tui": ("tui/",), "tests": ("tests/",), "benches": ("tests/bench/", "tests/helpers/bench/", "tests/readme/")}
"""What is counted → its folders. A file belongs to the last one that holds it."""

SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
          tokenize.ENDMARKER}  # fmt: skip


def code_lines(source: str) -> int:
    """Return the number of lines that hold code: not blank, not a comment, and not a string that stands alone."""
    tree = ast.parse(source)
    alone = {(each.lineno, each.col_offset) for each in ast.walk(tree)
             if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
             and isinstance(each.value.value, str)}  # fmt: skip
    # ast counts bytes, tokenize characters: before a string that stands alone only blanks can be, so they agree.
    return len({line for token in tokenize.generate_tokens(io.StringIO(source).readline)
                if token.type not in SILENT and not (token.type == tokenize.STRING and token.start in alone)
                for line in range(token.start[0], token.end[0] + 1)})  # fmt: skip


def counted() -> Iterator[tuple[str, int, int]]:
    """Yield place, files and lines of code, of the Python files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines: dict[str, list[int]] = {place: [] for place in PLACES}
    for name in listed.stdout.split():
        places = [place for place, folders in PLACES.items() if name.startswith(folders)]
        if places and (ROOT / name).exists():
            lines[places[-1]].append(code_lines((ROOT / name).read_text()))
    yield from ((place, len(each), sum(each)) for place, each in lines.items())


def main() -> None:
    """Print a line for each place."""
    print(f"{'':8} {'files':>6} {'lines of code':>14}")
    for place, files, lines in counted():
        print(f"{place:8} {files:6,} {lines:14,}")


if __name__ == "__main__":
    main()
