"""Share of small changes of the code that its room's tests notice: BENCH_TRIALS changes a room, drawn by BENCH_SEED.

PART names rooms: PART=decide,store. A change keeps its place in the draw while its statement stays as it is.
"""

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ROOMS = "decide,report,analysis,session,transport,store"
TEST_LIMIT_S, LIMIT_S = 180, 1800

OPPOSITE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
            ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}  # fmt: skip


class Mutant(NamedTuple):
    path: Path
    place: str
    text: str
    """Of the whole file."""


def mutate(node: ast.AST) -> bool:
    """Change a node in place; return whether it can be changed."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in OPPOSITE:
            node.ops[0] = OPPOSITE[type(op)]()
        case ast.BinOp() | ast.BoolOp() if type(node.op) in OPPOSITE:
            node.op = OPPOSITE[type(node.op)]()
        case ast.Constant(value=bool() | int() | float()):
            node.value = not node.value if isinstance(node.value, bool) else node.value + 1
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.Expr(value=ast.Call()):
            node.value = ast.Constant(None)
        case _:
            return False
    return True


def places(statements: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """Yield the statements of functions, each with the nodes of its own; not annotations, defaults and decorators."""
    for statement in statements:
        inner = [
            *getattr(statement, "body", []),
            *getattr(statement, "orelse", []),
            *getattr(statement, "finalbody", []),
        ]
        inner += [each for handler in getattr(statement, "handlers", []) for each in handler.body]
        inner += [each for case in getattr(statement, "cases", []) for each in case.body]
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own = [statement, *(getattr(statement, name, None) for name in ("test", "value", "iter", "subject", "exc"))]
            seen = {id(each) for part in inner for each in ast.walk(part)}
            for part in own[1:]:
                own += ast.walk(part) if isinstance(part, ast.AST) else []
            yield from (
                (statement, node) for node in {id(each): each for each in own if each}.values() if id(node) not in seen
            )
        yield from places(inner)


def mutants(room: str, seed: str) -> Iterator[Mutant]:
    """Yield all of a room, in an order that the seed draws and that other statements do not change."""
    found = []
    for path in sorted((ROOT / "tui/cpugpu_tui" / room).rglob("*.py")):
        source = path.read_text()
        for index, (statement, node) in enumerate(places(ast.parse(source).body)):
            before = ast.unparse(statement).partition("\n")[0]
            if mutate(node):
                found.append((random.Random(f"{seed} {path.name} {before} {ast.unparse(node)}").random(), path, index))
    for _, path, index in sorted(found):
        tree = ast.parse(path.read_text())
        statement, node = [*places(tree.body)][index]
        before = ast.unparse(statement).partition("\n")[0]
        mutate(node)
        after = ast.unparse(statement).partition("\n")[0]
        yield Mutant(path, f"{path.name}:{statement.lineno}  {before.strip()}  →  {after.strip()}", ast.unparse(tree))


def failing(copy: Path, room: str, first: str, but: list[str]) -> list[str]:
    """Return the failed tests of a room, at most one if some are left out; tests that name `first` run first."""
    tests = sorted((copy / "tests/rooms" / room).rglob("test_*.py"), key=lambda test: first not in test.read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", f"--timeout={TEST_LIMIT_S}",
               *(["-x"] if first else []), *(f"--deselect={each}" for each in but), *map(str, tests)]  # fmt: skip
    try:
        run = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=LIMIT_S,
                             env=os.environ | {"PYTHONPATH": f"{copy}/tui:{copy}"})  # fmt: skip
    except subprocess.TimeoutExpired:
        return ["(time limit)"]
    failed = [line.split(" ")[1] for line in run.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed or (["(no tests ran)"] if run.returncode else [])


def main() -> None:
    """Print which mutants survive, and the score of each room."""
    seed, wanted = os.environ.get("BENCH_SEED", "1"), int(os.environ.get("BENCH_TRIALS", "12"))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(
            ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache")
        )
        for room in os.environ.get("PART", ROOMS).split(","):
            broken = failing(copy, room, "", [])
            print(f"{room}: fail unchanged: {', '.join(broken) or 'none'}", flush=True)
            drawn = list(islice(mutants(room, seed), wanted))
            survived = 0
            for mutant in drawn:
                file = copy / mutant.path.relative_to(ROOT)
                kept = file.read_text()
                file.write_text(mutant.text)
                found = failing(copy, room, mutant.path.stem, broken)
                file.write_text(kept)
                survived += not found
                print(
                    f"  {found[0].partition('::')[2] or found[0] if found else 'SURVIVED'}  {mutant.place}", flush=True
                )
            print(f"{room}: {len(drawn) - survived} of {len(drawn)} noticed", flush=True)


if __name__ == "__main__":
    main()
