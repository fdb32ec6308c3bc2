"""User-defined workloads: loaded, checked, run and listed like built-in ones; a bad file gives one error."""

import re
from pathlib import Path

import pytest
from tests.helpers.command_line import FAST, ROOT

from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import CaseFinished, CasesChosen, Check
from cpugpu_tui.session.own_workloads import OwnWorkloads, has_installed_workloads
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.workloads import own_files
from cpugpu_tui.workloads.contract import REGISTRY
from cpugpu_tui.workloads.own_files import load, load_file

DOCUMENT = ROOT / "docs" / "own-workloads.md"

SUMMARY = "GELU of n normals."

GELU = '''\
from cpugpu_tui import Workload, workload


@workload
class Gelu(Workload):
    """GELU of n normals."""

    name = "gelu"
    sizes = (1_000, 1_000_000)
    dtypes = ("float64", "float32")

    def inputs(self, n, dtype, generator):
        import torch

        return (torch.randn(n, generator=generator, dtype=dtype),)

    def step(self, x):
        import torch

        return torch.nn.functional.gelu(x)

    def flops(self, n):
        return 8.0 * n

    def bytes_moved(self, n, itemsize_bytes):
        return 2.0 * n * itemsize_bytes
'''

REGISTER = "from cpugpu_tui.workloads.contract import REGISTRY\nREGISTRY"


@pytest.fixture
def gelu(tmp_path):
    return written(tmp_path / "gelu.py", GELU)


def written(path, text):
    path.write_text(text)
    return path


def refusal(path, text):
    """Return the error about a file, without its folder."""
    before = dict(REGISTRY)
    with pytest.raises(UsageError) as caught:
        load_file(str(written(path, text)))
    assert before == REGISTRY, "a refused file leaves nothing behind"
    return str(caught.value).replace(f"{path.parent}/", "")


# ------------------------------------------------------------------ loading


def test_a_file_tells_its_workloads_and_what_it_was(gelu):
    (info,), file = load_file(str(gelu))
    assert (info.name, info.variants, info.sizes, info.summary) == ("gelu", ("default",), (1_000, 1_000_000), SUMMARY)
    assert info.dtypes == ("float64", "float32")
    assert info.source == file.path == str(gelu)
    assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)


BAD_FILES = {
    "syntax": "x = (\n",
    "import": "\nimport no_such_thing\n",
    "exit": "import sys\nsys.exit(3)\n",
    "interrupt": "raise KeyboardInterrupt\n",
    "no workload": "x = 1\n",
    "built-in name": GELU.replace('"gelu"', '"matmul"'),
    "name of a preset": GELU.replace('"gelu"', '"quick"'),
    "escape sequence in the name": GELU.replace('"gelu"', '"\\x1b[31mred"'),
    "slash in the name": GELU.replace('"gelu"', '"a/b"'),
    "escape sequence in the summary": GELU.replace("GELU of", "\\x1b]0;x\\x07"),
    "no sizes": GELU.replace("(1_000, 1_000_000)", "()"),
    "size 0": GELU.replace("(1_000, 1_000_000)", "(0,)"),
    "dtype": GELU.replace('("float64", "float32")', '("int8",)'),
    "inputs that stay": GELU.replace("    def flops", "    stays = -1\n\n    def flops"),
    "no step": GELU.replace("def step", "def stepp"),
    "no inputs, no step": GELU.replace("def step", "def stepp").replace("def inputs", "def input"),
    "no variants": GELU.replace("    def flops", "    def steps(self):\n        return {}\n\n    def flops"),
    "name of a variant": GELU.replace(
        "    def flops", "    def steps(self):\n        return {'a b': 1}\n\n    def flops"
    ),
    "compiled twice": GELU.replace(
        "    def flops", "    compiles = True\n\n    def steps(self):\n        return {'compiled': 1}\n\n    def flops"
    ),
    "compiled and checked otherwise": GELU.replace(
        "    def flops", "    compiles = True\n\n    def checked(self, variant, placed):\n        pass\n\n    def flops"
    ),
    "flops are NaN": GELU.replace("8.0 * n", "float('nan')"),
    "flops raise": GELU.replace("8.0 * n", "1 / 0"),
    "replaced workload": f"{REGISTER}['matmul'] = 1\n",
    "not a workload": f"{REGISTER}['own'] = 1\n",
}


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_one_sentence_and_leaves_nothing_behind(text, tmp_path, words):
    sentence = refusal(tmp_path / "own.py", text)
    words(sentence)
    assert sentence.startswith("own.py")
    assert "\n" not in sentence
    assert sentence.endswith("."), "cause, then remedy"


def test_a_duplicate_names_both_files(gelu, tmp_path):
    load_file(str(gelu))
    sentence = refusal(tmp_path / "again.py", GELU)
    assert sentence.startswith("again.py, line 4: ")
    assert "'gelu'" in sentence
    assert "gelu.py" in sentence.partition(": ")[2]


def test_one_bad_file_costs_no_other(gelu, tmp_path):
    bad, told = written(tmp_path / "bad.py", "x = ("), list[str]()
    found = load([str(bad), str(gelu), str(gelu)], told.append)
    assert [info.name for info in found.infos] == ["gelu"]
    assert [each.source for each in found.refused] == [str(bad)]
    assert told == [str(bad), str(gelu)]


def test_installed_packages_are_found_by_their_entry_points(tmp_path, monkeypatch):
    install(tmp_path, "gelu_package", GELU)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert has_installed_workloads()
    (point,) = own_files.installed_points()
    found = load((), lambda _source: None, installed=True)
    assert [(info.name, info.source) for info in found.infos] == [("gelu", "gelu-package (gelu)")]
    assert own_files.source_of(point) == "gelu-package (gelu)"
    assert not found.refused


def install(folder, module, text):
    """Write a package with its metadata as an installer does."""
    written(folder / f"{module}.py", text)
    facts = folder / f"{module}-1.0.dist-info"
    facts.mkdir()
    written(facts / "METADATA", f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    written(facts / "entry_points.txt", f"[cpugpu_tui.workloads]\ngelu = {module}:Gelu\n")


# ------------------------------------------------------------------ planning


def test_a_plan_knows_own_workloads_like_built_in_ones(gelu):
    infos, file = load_file(str(gelu))
    REGISTRY.pop("gelu")  # as in the terminal's process, which never loads it
    request = PlanRequest(("gelu",), own=OwnWorkloads(workloads=infos, files=(file,)))
    plan = build_plan(request)
    assert [(case.workload, case.size) for case in plan.cases] == [("gelu", 1_000), ("gelu", 1_000_000)]
    assert plan.own_files == (file,)
    assert build_plan(PlanRequest(("matmul",), own=request.own)).own_files == ()
    for wrong, field, named in (
        (request._replace(dtype="bfloat16"), "dtype", "bfloat16"),
        (request._replace(variant="fast"), "variant", "'fast'"),
        (PlanRequest(("gelu",)), "names", "--workloads"),
    ):
        with pytest.raises(FieldError, match=named) as caught:
            build_plan(wrong)
        assert caught.value.field == field


# ------------------------------------------------------------------ the commands


def test_list_says_what_could_not_be_loaded_beside_what_could(cpugpu, gelu, tmp_path, words):
    bad = written(tmp_path / "bad.py", "x = (")
    done = cpugpu("list", "--workloads", bad, "--workloads", gelu, code=2)
    assert SUMMARY in done.out
    words(done.err.replace(str(tmp_path), "."))


@pytest.mark.slow
def test_a_run_has_their_crossover_and_its_command_repeats_it(cpugpu, gelu):
    run = ("run", "gelu", "--workloads", gelu, "--simulate", FAST)
    found = cpugpu(*run, "--find-crossover", code=0)
    assert any(isinstance(event, CasesChosen) for event in cpugpu("show", "--json").events)
    again = next(line for line in found.out.splitlines() if line.startswith("Again: "))
    assert f"--workloads {gelu}" in again
    started = cpugpu("show", "--json").events[0]
    assert [file.path for file in started.plan.own_files] == [str(gelu)]
    assert cpugpu("show").code == 0, "what is saved is shown without the file"


def test_a_package_is_loaded_for_a_name_that_nobody_else_has(cpugpu, tmp_path):
    install(tmp_path, "gelu_package", "print('loaded')\n" + GELU)
    path = {"PYTHONPATH": f"{tmp_path}:{Path(own_files.__file__).parents[2]}"}
    done = cpugpu("run", "gelu", "--size", 1000, "--simulate", FAST, "--json", **path)
    assert (done.code, done.err) == (0, "")
    assert [event.case.split("/")[0] for event in done.events if isinstance(event, CaseFinished)] == ["gelu"]


# ------------------------------------------------------------------ new-workload, the document


@pytest.mark.slow
def test_new_workload_writes_a_file_that_passes_its_own_check(cpugpu, tmp_path):
    made = cpugpu.here("new-workload", "my-silu.py", "--out", tmp_path)  # the name of the file is taken, too
    assert made.code == 0
    path = tmp_path / "my-silu.py"
    command = made.out.splitlines()[-1].split()
    assert command == ["cpugpu-tui", "run", "my-silu", "--workloads", str(path), "--scale", "small"]
    done = cpugpu(*command[1:], "--device", "cpu", "--json", code=0)
    finished = [event for event in done.events if isinstance(event, CaseFinished)]
    assert {event.case for event in finished} == {
        f"my-silu/by-hand/{size}/float32/tall" for size in (1_000, 100_000, 1_000_000)
    }
    assert all(isinstance(event.check, Check) and event.check.error < event.check.tolerance for event in finished)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("quick",), "'quick'"),
        (("matmul",), "'matmul'"),
        (("a b",), "'a b'"),
        (("x" * 41,), "at most 40"),
        (("x", "--out", "/no/such/folder/x.py"), "/no/such/folder/x.py"),
        (("x", "--out", "x" * 300), "File name too long"),
    ],
)
def test_new_workload_refuses(arguments, said, cpugpu):
    done = cpugpu.here("new-workload", *arguments, code=2)
    assert said in done.err


@pytest.mark.slow
def test_the_documents_example_runs_as_it_says(cpugpu, tmp_path):
    (text,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    path = written(tmp_path / "layernorm.py", text)
    commands = re.findall(r"^cpugpu-tui (run .*--workloads layernorm\.py.*)$", DOCUMENT.read_text(), re.MULTILINE)
    assert len(commands) >= 2
    words = commands[0].split("   ")[0].replace("layernorm.py", str(path)).split()
    done = cpugpu(*words, "--scale", "small", "--device", "cpu", "--json", code=0)
    checks = [event.check for event in done.events if isinstance(event, CaseFinished)]
    assert checks
    assert all(check is not None for check in checks)
