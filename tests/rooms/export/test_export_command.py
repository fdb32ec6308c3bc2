"""`export`, `import`, `run --export` and `run --tensorboard` as a person uses them."""

import json

import pytest
from tests.helpers.command_line import FAST, CommandLine
from tests.helpers.runs.export_runs import stream

from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE
from cpugpu_tui.export.stream import kept

RUN = ("run", "--simulate", FAST, "matmul", "--size", "16,64,256")


@pytest.fixture
def saved(cpugpu):
    """A history with two runs."""
    with cpugpu.store() as store:
        for run_id in ("20260101-aaaa", "20260102-bbbb"):
            store.import_run(kept(stream(run_id=run_id)))
    return cpugpu


def run_ids(path):
    return [run["run_id"] for run in json.loads(path.read_text())["runs"]]


# ------------------------------------------------------------------ export


def test_the_latest_run_goes_to_stdout_as_json(saved):
    done = saved.here("export")
    assert (done.code, done.err) == (EXIT_OK, "")
    assert [run["run_id"] for run in json.loads(done.out)["runs"]] == ["20260102-bbbb"]


def test_the_name_of_the_file_says_the_format(saved, tmp_path):
    done = saved.here("export", "1", "2026010", "2", "-o", tmp_path / "x.csv", code=EXIT_USAGE)
    done = saved.here("export", "1", "2", "1", "-o", tmp_path / "x.md")
    assert (done.code, done.out, done.err) == (EXIT_OK, "", f"Wrote {tmp_path}/x.md\n")
    assert (tmp_path / "x.md").read_text().count("## matmul") == 2


def test_every_file_that_is_named_is_written(saved, tmp_path):
    """Of several --out the last one alone was written."""
    done = saved.here("export", "1", "-o", tmp_path / "x.csv", "-o", tmp_path / "x.json", "-o", "-")
    assert (done.code, done.err) == (EXIT_OK, f"Wrote {tmp_path}/x.csv\nWrote {tmp_path}/x.json\n")
    assert run_ids(tmp_path / "x.json") == ["20260101-aaaa"]
    assert (tmp_path / "x.csv").exists()
    assert json.loads(done.out)["runs"]


def test_a_folder_gets_a_file_for_each_run(saved, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    assert saved.here("export", "1", "2", "-f", "ndjson", "-o", folder).code == EXIT_OK
    assert sorted(path.name for path in folder.iterdir()) == [
        "matmul-20260101-aaaa.ndjson", "matmul-20260102-bbbb.ndjson",
    ]  # fmt: skip


def test_the_schema_is_printed_without_any_run(cpugpu):
    assert json.loads(cpugpu.here("export", "--schema").out)["$defs"]["Run"]
    assert cpugpu.here("export", "--schema", "-o", "s.json").code == EXIT_USAGE


def test_a_history_that_is_not_there_is_not_made_by_looking(cpugpu):
    done = cpugpu.here("export")
    assert (done.code, done.out) == (EXIT_USAGE, "")
    assert "cpugpu-tui run quick" in done.err
    assert not cpugpu.database.exists()


def test_messages_are_kept_in_an_anonymous_export_alone(saved):
    done = saved.here("export", "--with-messages")
    assert (done.code, done.out) == (EXIT_USAGE, "")
    assert saved.here("export", "--anonymize", "--with-messages").code == 0


# ------------------------------------------------------------------ import


def test_an_export_comes_back_in_another_history(saved, tmp_path, words):
    saved.here("export", "1", "2", "-o", tmp_path / "x.json")
    other = CommandLine(tmp_path / "other.db")
    done = other.here("import", tmp_path / "x.json")
    words(done.out)
    assert other.here("show", "1").out == saved.here("show", "1").out
    again = other.here("import", tmp_path / "x.json", "--json")
    assert [item["new"] for item in again.objects] == [False, False]
    assert other.here("export", "1", "2").out == (tmp_path / "x.json").read_text()


def test_commands_name_the_database_that_was_typed_and_no_other(saved, tmp_path):
    saved.here("export", "1", "-o", tmp_path / "x.json")
    typed = ("--db", tmp_path / "the other.db")
    option = f" --db '{tmp_path}/the other.db'"
    assert saved.here("import", tmp_path / "x.json", *typed).out == f"Imported as run 1: cpugpu-tui show 1{option}\n"
    lines = saved.here("show", "1", *typed).out.splitlines()
    assert [option in line for line in lines if line.startswith(("Saved as", "Again:"))] == [True, True]
    assert f"`cpugpu-tui history{option}`" in saved.here("export", "7", *typed).err
    assert "--db" not in saved.here("show", "1").out + saved.here("export", "7").err


def test_nothing_is_saved_when_one_file_is_none_of_ours(saved, tmp_path):
    saved.here("export", "-o", tmp_path / "x.json")
    (tmp_path / "y.json").write_text('{"benchmarks": []}')
    other = CommandLine(tmp_path / "other.db")
    done = other.here("import", tmp_path / "x.json", tmp_path / "y.json", code=EXIT_USAGE)
    assert f"{tmp_path}/y.json" in done.err
    assert f"{tmp_path}/x.json" not in done.err
    assert not other.database.exists()


def test_a_file_that_cannot_be_read_is_one_sentence(cpugpu, tmp_path):
    for path, why in (
        (tmp_path / "missing.json", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        done = cpugpu.here("import", path)
        assert (done.code, done.err.count("\n")) == (EXIT_USAGE, 1)
        assert str(path) in done.err
        assert why in done.err


# ------------------------------------------------------------------ run


def test_a_run_writes_what_export_would(cpugpu, tmp_path):
    files = [tmp_path / f"x{end}" for end in (".json", ".csv", ".md", ".ndjson")]
    wanted = [word for path in files for word in ("--export", path)]
    done = cpugpu(*RUN, *wanted, "--tensorboard", tmp_path / "tb", code=EXIT_OK)
    assert f"tensorboard --logdir {tmp_path}/tb\n" in done.err
    for path in files:
        assert cpugpu.here("export", "-o", tmp_path / f"again{path.suffix}").code == EXIT_OK
        assert (tmp_path / f"again{path.suffix}").read_bytes() == path.read_bytes()
    cpugpu.here("export", "-f", "tensorboard", "-o", f"{tmp_path}/tb2/")
    live, later = ({p.name: p.read_bytes() for p in (tmp_path / name).rglob("*tfe*")} for name in ("tb", "tb2"))
    assert live == later != {}


def test_all_runs_of_a_series_are_in_the_file_without_a_history_too(cpugpu, tmp_path):
    cpugpu(*RUN, "--repeat", "2", "--no-save", "--export", tmp_path / "x.json", code=EXIT_OK)
    runs = json.loads((tmp_path / "x.json").read_text())["runs"]
    assert len({run["run_id"] for run in runs}) == 2
    assert len({run["series_id"] for run in runs}) == 1
    assert not cpugpu.database.exists()


@pytest.mark.parametrize(
    ("option", "place", "code"),
    [
        ("--export", "x.txt", EXIT_USAGE),
        ("--export", "", EXIT_USAGE),
        ("--export", "missing/x.json", EXIT_USAGE),
        ("--tensorboard", "history.db", EXIT_USAGE),
    ],
)
def test_a_bad_place_ends_the_command_before_anything_is_timed(saved, tmp_path, option, place, code):
    done = saved.here(*RUN, option, tmp_path / place)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    with saved.store() as store:
        assert len(store.runs()) == 2


def test_a_file_that_became_unwritable_meanwhile_costs_the_file_alone(cpugpu, tmp_path):
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.state.state import RunState

    (tmp_path / "out").mkdir()
    outputs = Outputs([tmp_path / "out" / "x.json", tmp_path / "y.json"])
    outputs.check()
    (tmp_path / "out").rmdir()
    state = RunState()
    for event in stream():
        state = state.apply(event)
        outputs.see(state, event)
    (sentence,) = outputs.write()
    assert f"{tmp_path}/out/x.json" in sentence
    assert "No such file" in sentence
    assert outputs.exit_code == EXIT_USAGE
    assert run_ids(tmp_path / "y.json") == ["20260101-aaaa"]
