"""Lines and types of TOML that a person wrote; values from many threads at once, which `msgspec` does not bear."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from cpugpu_tui.config.validation import MOST_BYTES, TomlError, TomlFile

FIRST_AT_ONCE = """
import sys, threading
from cpugpu_tui.model import Case, Device, DevicesFound, MachineRead, Plan, Reading, RunStarted
from cpugpu_tui.transport.wire import decode, encode
sys.setswitchinterval(1e-6)
lines = [encode(event) for event in (
    RunStarted(run_id="r", series_id="s", plan=Plan("m", (Case("matmul", 64),)), environment={}),
    DevicesFound(devices=(Device("cpu", "x"),)),
    MachineRead(case="c", device="d", edge="begin", readings={"a": Reading(1.0)}),
)]
barrier = threading.Barrier(8)
def read(order):
    barrier.wait()
    for line in lines[::order]:
        assert decode(line) is not None
threads = [threading.Thread(target=read, args=(1 - 2 * (index % 2),)) for index in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_the_first_events_of_many_agents_can_come_at_the_same_time() -> None:
    """A fleet ended with signal 11, in CI and without a word, when two hosts said their first line together."""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", FIRST_AT_ONCE], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------ TOML

NESTED = """\
top = 1  # a = 2
text = '''
[no.table]
'''

[a."b.c"]
"key with = sign" = 1

[[rows]]
x = 1
[[rows]]
x = 2
[rows.inner]
y = 3
"""


def toml(folder: Path, text: str) -> TomlFile:
    path = folder / "a.toml"
    path.write_text(text)
    return TomlFile(path)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("top",), 1),
        (("text",), 2),
        (("a", "b.c"), 6),
        (("a", "b.c", "nothing"), 6),
        (("rows", 0, "x"), 10),
        (("rows", 1), 11),
        (("rows", 1, "x"), 12),
        (("rows", "inner", "y"), 14),
        (("nothing",), None),
    ],
)
def test_a_key_or_the_table_around_it_has_a_line(key: tuple[str | int, ...], line: int | None, tmp_path: Path) -> None:
    assert toml(tmp_path, NESTED).line_of(*key) == line


class AStruct(Struct):
    name: str
    counts: dict[str, int] = {}


@dataclass
class ADataclass:
    name: str
    counts: dict[str, int] = field(default_factory=dict)


@pytest.mark.parametrize("kind", [AStruct, ADataclass])
@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "`name` is missing. Add a line `name = …`."),
        ("name = 1\n", 1, "`name` is 1. Write text in quotes."),
        ("nam = 1\n", 1, "There is no key `nam`. Did you mean `name`?"),
        ("name = 'a'\ncounts = 2\n", 2, "`counts` is 2. Write a table."),
        ("name = 'a'\n[counts]\nfew = true\n", 3, "`few` is true. Write a whole number."),
        ("name = 'a'\ncounts = { few = 'x' }\n", 2, "`few` is 'x'. Write a whole number."),
    ],
)
def test_what_does_not_fit_names_line_key_value_and_remedy(
    kind: type[Any], text: str, line: int | None, said: str, tmp_path: Path
) -> None:
    file = toml(tmp_path, text)
    with pytest.raises(TomlError) as caught:
        file.table(kind, file.data)
    assert (caught.value.path, caught.value.line) == (file.path, line)
    assert f"{caught.value.problem} {caught.value.remedy}" == said


@pytest.mark.parametrize("kind", [AStruct, ADataclass])
def test_what_fits_is_of_its_kind(kind: type[Any], tmp_path: Path) -> None:
    file = toml(tmp_path, "name = 'a'\ncounts = { few = 1 }\n")
    assert file.table(kind, file.data) == kind("a", {"few": 1})


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a = \n", 1),
        (b"a = ", 1),
        (b"a = 1\nb = [\n", 3),
        (b"a = 1\n\xff", 2),
        (b"#" * (MOST_BYTES + 1), None),
        (b"a = " + b"[" * 9999, None),
    ],
)
def test_what_is_no_toml_has_a_line_where_there_is_one(data: bytes, line: int | None, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(data)
    with pytest.raises(TomlError) as caught:
        TomlFile(path)
    assert caught.value.line == line
