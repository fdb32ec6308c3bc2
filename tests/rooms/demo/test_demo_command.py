"""`cpugpu-tui demo` without a terminal: its output, and the modules that it must not load."""

import json
import subprocess
import sys

import pytest
from tests.demo.record import packed
from tests.helpers.command_line import events_of

from cpugpu_tui.demo.recording import shipped
from cpugpu_tui.export.stream import exported


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A recording of two of the runs."""
    path = tmp_path_factory.mktemp("demo") / "short.gz"
    path.write_bytes(packed([shipped().runs[0], shipped().runs[7]]))
    return path


def test_it_prints_tables_answers_and_claims_and_says_whose_they_are(cpugpu, words):
    done = cpugpu("demo")
    assert (done.code, done.err) == (0, "")
    first = done.out.splitlines()[0]
    assert first.startswith("REPLAY: ")
    assert all(part in first for part in shipped().machine)
    for number, name in enumerate([run.name for run in shipped().runs], 1):
        assert f"REPLAY {number} of 11: {name}" in done.out
    lines = done.out.splitlines()
    words([first, next(line for line in lines if "(159–235)" in line)])
    words([line for line in lines if line.startswith("REPLAY: ") and line != first])
    assert "Saved as" not in done.out
    assert not cpugpu.database.exists()


def test_json_is_the_events_after_a_line_that_says_whose_they_are(cpugpu, short, tmp_path):
    done = cpugpu("demo", str(short), "--json")
    first, *rest = map(json.loads, done.out.splitlines())
    assert (first["event"], first["tag"], first["machine"][0]) == ("Replay", "REPLAY", "NVIDIA H200")
    assert sum(line["event"] == "Answer" for line in rest) == 2
    first_run = shipped().runs[0]
    assert exported(events_of(done.out)[: len(first_run.events)]) == first_run
    saved = tmp_path / "demo.ndjson"
    saved.write_text(done.out)
    assert cpugpu("import", saved).code == 0, "it is an export like any other"
    assert "mnist-mlp" in cpugpu("history").out


@pytest.mark.parametrize(
    "arguments", [("no-such-file.gz",), (__file__,), ("--pace", "soon")], ids=["missing", "python", "pace"]
)
def test_what_cannot_be_played_is_a_sentence_and_exit_code_2(cpugpu, arguments, words):
    done = cpugpu("demo", *arguments)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    words(done.err)


def test_neither_torch_nor_nvml_is_loaded(short):
    script = (
        "import sys; sys.argv = ['cpugpu-tui', 'demo', sys.argv[1]]\n"
        "from cpugpu_tui.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'torch', 'pynvml', 'textual'} & {name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(short)], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == "[]\n"
