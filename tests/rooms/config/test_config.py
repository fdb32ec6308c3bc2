"""The config file: precedence of flag, environment, file and default; origins of values; errors with their line."""

import os
import subprocess
import sys

import pytest
from tests.helpers.command_line import FAST

from cpugpu_tui.config import load_config
from cpugpu_tui.config.config_file import read
from cpugpu_tui.config.settings import KEYS
from cpugpu_tui.config.validation import TomlError
from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE
from cpugpu_tui.model import RunStarted

WHOLE = """\
# What I always want
theme = "slate"
database = "mine.db"
python = "python3"
worker = "process"
device = ["cpu", "cuda:0"]
mnist = "~/mnist"
workloads = ["own.py", "/abs/other.py"]
case_timeout = 30
ceilings = false
mouse = false
band = "latency=1%"

[presets.sweep]
workload = "matmul"
sizes = [16, "100:400:100"]
dtypes = ["float32", "float64"]
threads = [1, "all"]

[presets."one.size"]
workload = "vector-dot"
sizes = "1000"
variants = ["dot"]
summary = "one product"
"""


def run(cpugpu, *arguments, **environment):
    """Run something small; return what it began with."""
    done = cpugpu("run", *arguments, "--simulate", FAST, "--json", **environment, code=0)
    (started,) = [event for event in done.events if isinstance(event, RunStarted)]
    return started


# ------------------------------------------------------------------ the file


def test_every_key_is_read_and_paths_are_the_files_own(write):
    path = write(WHOLE)
    found = read(path)
    assert set(found.values) == {key.name for key in KEYS}
    assert found.values["database"] == str(path.parent / "mine.db")
    assert found.values["mnist"] == os.path.expanduser("~/mnist")
    assert found.values["workloads"] == (str(path.parent / "own.py"), "/abs/other.py")
    assert found.lines["worker"] == 5
    assert found.values["ceilings"] is False
    assert found.values["mouse"] is False
    assert found.lines["presets.one.size"] == 20
    sweep, one = found.presets
    assert (sweep.name, sweep.parts[0].sizes, sweep.dtypes, sweep.threads) == (
        "sweep", (16, 100, 200, 300), ("float32", "float64"), (1, 0),
    )  # fmt: skip
    assert (one.summary, one.parts[0].variants) == ("one product", ("dot",))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('theem = "slate"\n', 1, id="unknown key"),
        pytest.param("theme = 3\n", 1, id="number for text"),
        pytest.param('theme = ""\n', 1, id="empty text"),
        pytest.param('theme = "slate\n', 1, id="no TOML"),
        pytest.param('\n\nworker = "fork"\n', 3, id="unknown word"),
        pytest.param('device = ["cpu", "gpu"]\n', 1, id="unknown device"),
        pytest.param("case_timeout = -1\n", 1, id="negative number"),
        pytest.param("case_timeout = true\n", 1, id="flag for number"),
        pytest.param("ceilings = 1\n", 1, id="number for flag"),
        pytest.param('band = "wide"\n', 1, id="text for band"),
        pytest.param("workloads = [1]\n", 1, id="list of numbers"),
        pytest.param('workloads = ["\\u0000"]\n', 1, id="NUL in a path"),
        pytest.param("presets = 3\n", 1, id="number for table"),
        pytest.param('[presets.a]\nworkload = "matmul"\n', 1, id="preset without sizes"),
        pytest.param('[presets.a]\nworkload = "matmul"\nsizes = "x"\n', 3, id="text for sizes"),
        pytest.param('[presets.a]\nworkload = "matmul"\nsizes = [0]\n', 3, id="size 0"),
        pytest.param('[presets.a]\nworkload = "matmul"\nsizes = 1\ndtyps = "x"\n', 4, id="unknown key of a preset"),
        pytest.param('[presets.a]\nworkload = "matmul"\nsizes = 1\ndtypes = "int8"\n', 4, id="unknown dtype"),
        pytest.param('[presets.a]\nworkload = "matmul"\nsizes = 1\nthreads = "few"\n', 4, id="text for threads"),
        pytest.param('theme = "slate"\n\n[presets.quick]\nworkload = "matmul"\nsizes = 1\n', 3, id="name of a preset"),
        pytest.param('[presets."a b"]\nworkload = "matmul"\nsizes = 1\n', 1, id="blank in a name"),
        pytest.param('"\\u001b[31m" = 1\n', None, id="escape sequence as key"),
        pytest.param("case_timeout = 1e400\n", 1, id="infinite number"),
        pytest.param("presets.a = 3\n", 1, id="number for a preset"),
    ],
)
def test_a_typo_is_one_sentence_with_the_line(text, line, write, words):
    path = write(text)
    with pytest.raises(TomlError) as caught:
        load_config()
    assert (caught.value.path, caught.value.line) == (path, line)
    words(str(caught.value).replace(str(path), "config.toml"))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"#" * 2_000_000], ids=["not UTF-8", "too large"])
def test_what_is_no_config_at_all_is_said(data, write, words):
    path = write("")
    path.write_bytes(data)
    with pytest.raises(TomlError) as caught:
        load_config()
    words(str(caught.value).replace(str(path), "config.toml"))


# ------------------------------------------------------------------ who stands above whom


def test_a_flag_stands_above_the_environment_and_that_above_the_file(write, cpugpu):
    write('worker = "thread"\ncase_timeout = 30\ndevice = "cpu"\n')
    by_file = run(cpugpu, "matmul", "--size", 64)
    assert (by_file.environment["worker"], by_file.environment["case_timeout_s"]) == ("thread", 30)
    assert by_file.plan.devices == ("cpu",)
    by_variable = run(cpugpu, "matmul", "--size", 64, CPUGPU_WORKER="process", CPUGPU_DEVICE="cpu cuda")
    assert (by_variable.environment["worker"], by_variable.plan.devices) == ("process", ("cpu", "cuda"))
    by_flag = run(cpugpu, "matmul", "--size", 64, "--case-timeout", 9, "--worker", "process", CPUGPU_WORKER="thread")
    assert (by_flag.environment["worker"], by_flag.environment["case_timeout_s"]) == ("process", 9)


@pytest.mark.parametrize(
    ("words", "variable", "value"),
    [
        (("compare", "1"), "CPUGPU_BAND", "foo"), (("run", "matmul"), "CPUGPU_DEVICE", "cpu tpu"),
        (("run", "matmul"), "CPUGPU_CASE_TIMEOUT", "-1"), (("run", "matmul"), "CPUGPU_SIMULATE", "noise=loud"),
        (("run", "matmul"), "CPUGPU_WORKER", "cloud"), ((), "CPUGPU_WORKER", "cloud"),
        ((), "CPUGPU_SIMULATE", "noise=loud"), ((), "CPUGPU_DEVICE", "tpu"),
    ],
)  # fmt: skip
def test_an_error_in_a_variable_names_it(cpugpu, monkeypatch, words, variable, value):
    """It named the value alone, which may have been set long ago in another file."""
    environment = cpugpu.environment(**{variable: value})
    monkeypatch.setattr(cpugpu, "environment", lambda: environment)
    done = cpugpu.here(*words, code=EXIT_USAGE)
    assert done.err.startswith(f"cpugpu-tui: {variable}: ")


def test_a_wrong_variable_does_not_stop_a_command_that_does_not_use_it(cpugpu, monkeypatch):
    environment = cpugpu.environment(CPUGPU_BAND="foo", CPUGPU_WORKER="cloud")
    monkeypatch.setattr(cpugpu, "environment", lambda: environment)
    assert cpugpu.here("list").code == EXIT_OK
    assert "CPUGPU_BAND" not in cpugpu.here("compare", "1", "--band", "3%").err, "a flag stands above it"


@pytest.mark.slow
def test_every_command_looks_into_the_database_of_the_file(write, cpugpu, tmp_path):
    write(f'database = "{tmp_path}/by-file.db"\n')
    run(cpugpu, "matmul", "--size", 64, CPUGPU_DB="")
    assert (tmp_path / "by-file.db").exists()
    assert not cpugpu.database.exists()
    for command in (("history", "--json"), ("show", "--json")):
        assert "matmul" in cpugpu(*command, CPUGPU_DB="").out
    assert cpugpu("history", "--json").out == "", "the environment stands above it"
    assert "matmul" in cpugpu("history", "--json", "--db", tmp_path / "by-file.db").out


def test_presets_of_the_file_run_and_are_listed(write, cpugpu):
    write(
        '[presets.sweep]\nworkload = "matmul"\nsizes = [64, 128]\ndtypes = ["float32", "float64"]\nthreads = [1, 2]\n'
    )
    plan = run(cpugpu, "sweep").plan
    assert plan.name == "sweep"
    assert {(case.size, case.dtype, case.threads) for case in plan.cases} == {
        (size, dtype, threads) for size in (64, 128) for dtype in ("float32", "float64") for threads in (1, 2)
    }
    asked = run(cpugpu, "sweep", "--dtype", "float64", "--threads", "all", "--size", 64).plan
    assert [(case.size, case.dtype, case.threads) for case in asked.cases] == [(64, "float64", 0)]
    assert "64 float64" in cpugpu.here("show", "1").out, "rows that differ in dtype say theirs"
    assert "sweep" in [item["name"] for item in cpugpu.here("list", "--json").objects if item["kind"] == "preset"]


# ------------------------------------------------------------------ config show, config path


def test_show_names_the_origin_of_each_value(write, cpugpu):
    path = write('theme = "slate"\ndatabase = "by-file.db"\n\n[presets.a]\nworkload = "matmul"\nsizes = 64\n')
    found = cpugpu.here("config", "show", "--json").objects
    origins = {item["key"]: (item["value"], item["origin"]) for item in found if "key" in item}
    assert origins["theme"] == ("slate", "config.toml line 1")
    assert origins["database"] == (str(cpugpu.database), "environment CPUGPU_DB")
    assert origins["worker"] == (None, "default")
    assert set(origins) == {key.name for key in KEYS}
    assert [(item["preset"], item["origin"]) for item in found if "preset" in item] == [("a", "config.toml line 4")]
    table = cpugpu.here("config").out
    assert "config.toml line 1" in table
    assert str(path) in "".join(table.split("\n"))


def test_show_names_each_value_that_a_command_would_refuse(write, cpugpu, words):
    write('theme = "forrest"\n')
    wrong = {"WORKER": "x", "DEVICE": "cpu tpu", "BAND": "zz", "CASE_TIMEOUT": "soon"}
    done = cpugpu("config", **{f"CPUGPU_{name}": value for name, value in wrong.items()})
    assert (done.code, "forrest" in done.out) == (0, True)
    words(done.err)


def test_a_folder_into_which_nobody_may_look_is_said(tmp_path, words):
    """In a process of its own, because it gives up the rights of root."""
    (tmp_path / "closed").mkdir(mode=0o700 if os.geteuid() == 0 else 0)
    attempt = (
        "import os; from pathlib import Path\n"
        "from cpugpu_tui.errors import UsageError\n"
        "from cpugpu_tui import config\nfrom cpugpu_tui.config import config_file\n"
        "config.config_path = lambda: Path('closed/config.toml')\n"
        "os.geteuid() or os.setresuid(65534, 65534, 65534)\n"
        "try: config.load_config()\n"
        "except UsageError as error: print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", attempt], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    words(done.stdout)


def test_path_and_help_answer_beside_a_broken_file(write, cpugpu, words):
    path = write("theme = \n")
    assert (cpugpu.here("config", "path").out, cpugpu.here("--help").code) == (f"{path}\n", 0)
    assert cpugpu.here("run", "--help").code == 0
    for command in (("config", "show"), ("history",), ("run", "matmul"), ()):
        done = cpugpu.here(*command, code=2)
        assert done.err.startswith(f"cpugpu-tui: {path}, line 1: ")
        assert done.err.count("\n") == 1
    words(done.err.replace(str(path), "config.toml"))


# ------------------------------------------------------------------ config themes
