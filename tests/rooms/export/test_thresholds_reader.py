"""The reader that programs copy: what it answers, why it does not, and which files it refuses."""

import ast
import copy
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui import thresholds
from cpugpu_tui.machine import procfs
from cpugpu_tui.thresholds import Thresholds, ThresholdsError, differences, load, this_machine

HERE = {"cpu": "EPYC", "cores": 32, "gpu": "NVIDIA H200", "driver": "580.95.05", "torch": "2.9.0+cu130"}

FORM = {
    "variant": "default", "dtype": "float32", "threads": 0, "resident": True, "best": True, "axis": "n",
    "timed": [16, 2048], "equal": [],
}  # fmt: skip
ENTRIES: list[dict[str, Any]] = [
    {
        **FORM,
        "operation": "matmul",
        "faster": [["cpu", 16, 162], ["cuda", 177, 300], ["cuda", 1000, 2048]],
        "equal": [[165, 170]],
        "timed": [16, 162, 170, 177, 300, 700, 1000, 2048],
    },
    {**FORM, "operation": "matmul", "resident": False, "faster": [["cpu", 16, 2048]]},
    {**FORM, "operation": "matmul", "threads": 1, "faster": [["cuda", 16, 2048]]},
    {**FORM, "operation": "matmul", "variant": "slow", "best": False, "faster": [["cuda", 16, 2048]]},
]
DOCUMENT = {
    "format": thresholds.FORMAT, "version": thresholds.VERSION, "made": "2026-11-23T04:00:00Z", "machine": HERE,
    "thresholds": ENTRIES,
}  # fmt: skip


def changed(**changes):
    """Return the document with other values."""
    return {**copy.deepcopy(DOCUMENT), **changes}


def with_entry(**changes):
    """Return the document with one threshold, which has other values."""
    return changed(thresholds=[{**copy.deepcopy(ENTRIES[0]), **changes}])


def written(folder, document):
    """Write a file of thresholds."""
    path = folder / "thresholds.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


class Dtype:
    """A dtype that is no text, as torch's and NumPy's are; it counts how often its name is asked for."""

    def __init__(self, name="torch.float32"):
        self.asked, self._name = 0, name

    def __str__(self):
        self.asked += 1
        return self._name


def test_a_device_is_chosen_where_it_clearly_wins(words):
    found = Thresholds(DOCUMENT, HERE)
    asked: list[tuple[dict[str, Any], str | None]] = [
        ({"n": 16}, "cpu"), ({"n": 162}, "cpu"), ({"n": 163}, None), ({"n": 170}, None), ({"n": 177}, "cuda"),
        ({"n": 500}, None), ({"n": 700}, None), ({"n": 2048}, "cuda"),
        ({"n": 2049}, None), ({"n": 15}, None), ({"n": 2048, "resident": False}, "cpu"),
        ({"n": 16, "threads": 1}, "cuda"), ({"n": 16, "threads": 2}, None), ({"n": 16, "dtype": "float64"}, None),
        ({"n": 16, "variant": "slow"}, "cuda"), ({"n": 16, "variant": "default"}, "cpu"),
        ({"n": 300, "dtype": Dtype()}, "cuda"), ({"n": 300, "dtype": Dtype("float32")}, "cuda"),
        ({"n": 300, "dtype": "torch.float32"}, "cuda"), ({"n": 300, "dtype": "f32"}, None),
    ]  # fmt: skip
    for how, device in asked:
        assert found.choose("matmul", **how) == device, how
    words([found.why("matmul", **how) for how, _ in asked])
    assert found.choose("../matmul", 16) is None
    words([found.why(operation, 16) for operation in ("softmax", "../matmul", "")])


def test_a_dtype_object_is_looked_up_by_name_once():
    found, dtype = Thresholds(DOCUMENT, HERE), Dtype()
    assert [found.choose("matmul", n, dtype) for n in (300, 100)] == ["cuda", "cpu"]
    assert dtype.asked == 1


@pytest.mark.parametrize(
    ("fact", "value"), [("cpu", "Xeon"), ("cores", 4), ("gpu", "NVIDIA A100"), ("driver", "590.1"), ("driver", None),
                        ("torch", "2.10.0")],
)  # fmt: skip
def test_on_another_machine_no_device_is_chosen(fact, value, words):
    found = Thresholds(DOCUMENT, {**HERE, fact: value})
    assert found.choose("matmul", 300) is None
    words(found.why("matmul", 300))


def test_an_unknown_fact_is_not_compared():
    assert differences(HERE, {**HERE, "cpu": None, "gpu": None, "torch": None}) == ()
    assert differences({**HERE, "cpu": None}, HERE) == ()
    assert differences({**HERE, "gpu": "NVIDIA H200 MIG 1g.18gb"}, {**HERE, "gpu": "NVIDIA A2 + NVIDIA H200"}) == ()


def test_a_message_holds_no_escape_sequence():
    hostile = "\x1b]0;title\x07\n"
    with pytest.raises(ThresholdsError) as raised:
        Thresholds(changed(version=hostile), HERE)
    found = Thresholds({**with_entry(axis=hostile), "made": hostile, "machine": {"cpu": hostile}}, HERE)
    assert all(map(str.isprintable, (str(raised.value), found.why("matmul", 1), found.made, found.entries[0].axis)))


REFUSED: dict[str, object] = {
    "no json": "{", "deep": "[" * 100_000, "a list": [], "an export": changed(format="cpugpu-tui export"),
    "future": changed(version=3), "version 1": changed(version=1), "no version": changed(version=None), 
    "version 1.0": changed(version=1.0), "version true": changed(version=True),
    "key twice": json.dumps(changed()).replace('"version": 2', '"version": 2, "version": 2'),
    "no machine": changed(machine=None),
    "a path": with_entry(operation="../matmul"), "a path in the variant": with_entry(variant="a/b"),
    "no name": with_entry(operation=7), "empty": with_entry(faster=[], equal=[]),
    "fractions": with_entry(faster=[["cpu", 1.5, 2]]), "not timed": with_entry(timed=[16, 300, 1000]),
    "timed backwards": with_entry(timed=[2048, 16]), "equal inside": with_entry(equal=[[16, 20]]),
    "truth": with_entry(faster=[["cpu", True, 2]]), "backwards": with_entry(faster=[["cpu", 9, 2]]),
    "overlap": with_entry(faster=[["cpu", 1, 9], ["cuda", 8, 10]]), "a device": with_entry(faster=[["tpu", 1, 2]]),
    "no flag": with_entry(resident=1), "threads": with_entry(threads="all"), "fewer threads": with_entry(threads=-1),
    "shared end": with_entry(faster=[["cpu", 1, 9], ["cuda", 9, 10]]),
    "beyond long long": with_entry(faster=[["cpu", 1, 2**63]]), "nothing": changed(thresholds=[]),
    "twice": changed(thresholds=ENTRIES[:1] * 2),
    "two best": changed(thresholds=[ENTRIES[0], {**ENTRIES[0], "variant": "other"}]), "large": " " * 1_000_001,
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_file_is_refused_with_a_sentence(name, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, REFUSED[name])
    with words.of(ThresholdsError):
        load("thresholds.json")


GOOD = [0.5, 0.4, 0.6, 8, "CPU", 1, 0]


@pytest.mark.parametrize(
    "row",
    [[], [*GOOD, 1], [0, *GOOD[1:]], [0.5, 0.6, 0.4, *GOOD[3:]], [0.5, None, 0.6, *GOOD[3:]], ["0.5", *GOOD[1:]],
     [*GOOD[:3], -1, *GOOD[4:]], [*GOOD[:3], True, *GOOD[4:]], [*GOOD[:4], 1, 1, 0], [1e999, *GOOD[1:]]],
    ids=repr,
)  # fmt: skip
def test_wrong_comparisons_are_refused(row):
    first, *rest = DOCUMENT["thresholds"]
    rows = [GOOD for _ in first["timed"]]
    assert Thresholds({**DOCUMENT, "thresholds": [{**first, "compared": rows}, *rest]}, HERE).entries[0].compared
    for wrong in ([row, *rows[1:]], rows[1:]):
        with pytest.raises(ThresholdsError):
            Thresholds({**DOCUMENT, "thresholds": [{**first, "compared": wrong}, *rest]}, HERE)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file_is_not_waited_for(kind, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    path = Path("/dev/zero" if kind == "device" else kind)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with words.of(ThresholdsError):
        load(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6,
)  # fmt: skip


@given(st.sampled_from([*DOCUMENT, *ENTRIES[0]]), VALUES)
def test_whatever_a_file_holds_it_is_read_or_refused(name, value):
    document = changed(**{name: value}) if name in DOCUMENT else with_entry(**{name: value})
    try:
        found = Thresholds(document, HERE)
    except ThresholdsError:
        return
    assert found.choose("matmul", 300) in ("cpu", "cuda", None)
    assert found.why("matmul", 300)


def test_it_works_alone_in_another_project(tmp_path):
    source = Path(thresholds.__file__).read_text()
    ast.parse(source, feature_version=(3, 10))
    (tmp_path / "thresholds.py").write_text(source)
    written(tmp_path, changed(machine={}))
    script = (
        "import sys; sys.path.insert(0, '.'); import thresholds\n"
        "found = thresholds.load('thresholds.json')\n"
        "print(found.choose('matmul', n=300, dtype='float32', resident=True), found.choose('matmul', 100))\n"
        "print({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'thresholds'})"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["cuda cpu", "{'__main__'}"]


def test_it_knows_this_machine_as_the_agent_does():
    here = this_machine()
    assert (here["cpu"], here["cores"]) == (procfs.cpu_model(), len(procfs.affinity_cores()))
    assert (here["driver"], here["torch"]) == (procfs.driver_version(), version("torch"))


def test_a_hidden_gpu_is_not_chosen(monkeypatch):
    monkeypatch.setattr(thresholds, "_found", lambda *_: "580.95.05")
    for value, driver in {"0": "580.95.05", "": None, "-1": None}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert this_machine()["driver"] == driver
