"""Sources of functions of modules: found through imports and packages, and nothing of them runs."""

import sys
from pathlib import Path

import pytest

from cpugpu_tui.session.typed_code import function_source

FILES = {
    "hive/__init__.py": "raise SystemExit\nfrom .comb import cell as room\nfrom hive.drone import *\n",
    "hive/comb.py": "import torch\nif True:\n    @torch.no_grad()\n    def cell(x):\n        return x\n",
    "hive/drone.py": "class Wing:\n    def beat(self):\n        return 1\nhum = 3\n",
    "hive/ring.py": "from hive.ring import lost\nfrom hive.round import *\n",
    "hive/round.py": "from .ring import *\n",
    "hive/broken.py": "def f(:\n",
    "hive/binary.py": "def f(): ...\n\0",
}


@pytest.fixture(autouse=True)
def hive(tmp_path, monkeypatch):
    (tmp_path / "hive").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("module", "name", "file", "line", "text"),
    [
        ("hive.comb", "cell", "comb.py", 3, "    @torch.no_grad()\n    def cell(x):\n        return x"),
        ("hive", "room", "comb.py", 3, "    @torch.no_grad()\n    def cell(x):\n        return x"),
        ("hive", "Wing.beat", "drone.py", 2, "    def beat(self):\n        return 1"),
        ("hive.drone", "hum", "drone.py", 4, "hum = 3"),
    ],
)
def test_a_definition_is_found_where_it_is(module, name, file, line, text):
    found = function_source(module, name)
    assert (Path(found.file).name, found.line, found.text) == (file, line, text)
    assert not [name for name in sys.modules if name.startswith("hive")]


@pytest.mark.parametrize(
    ("module", "name"),
    [("hive", "nothing"), ("hive.ring", "lost"), ("hive.ring", "other"), ("hive.broken", "f"), ("hive.binary", "f"),
     ("hive.missing", "f"), ("nowhere_at_all", "f"), ("math", "cos"), ("hive.drone", "hum.more")],
)  # fmt: skip
def test_what_no_file_shows_is_none(module, name):
    assert function_source(module, name) is None
