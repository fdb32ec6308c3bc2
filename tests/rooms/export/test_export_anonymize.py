"""An anonymised export holds no host or user name, path or UUID, but all numbers."""

from dataclasses import replace

import pytest
from tests.helpers.runs import export_runs

from cpugpu_tui.export.anonymize import anonymized
from cpugpu_tui.export.formats import rendered
from cpugpu_tui.export.json_document import read_runs
from cpugpu_tui.export.stream import exported
from cpugpu_tui.model import CaseFailed, Ceilings, OwnCode, OwnFile
from cpugpu_tui.session.repeat import repeat_commands, why_no_command

SECRETS = (
    "gpu17", "example.org", "zoe", "yuki", "secret-project", "train.py", "8f3a1c52", "3B:00", "boss", "node9", "/opt",
    "hidden.db", "venv", "my-data", "own.py", "C:\\",
)  # fmt: skip


@pytest.fixture
def spoken():
    """A run with private texts in all fields."""
    first, *rest = export_runs.stream()
    environment = {
        **first.environment,
        "argv": ["run", "matmul", "--db", "my-data/hidden.db"],
        "cuda_visible_devices": "GPU-8f3a1c52",
        "inherited": {"OMP_NUM_THREADS": "1", "KMP_AFFINITY": "verbose,file=/opt/x"},
        "torch_error": "OSError: /opt/torch/lib.so on gpu17 (C:\\Users\\boss\\x): see ~/venv or ../own.py",
        "serial": "1322621032333",
        "nested": [{"user": "boss", "hostname": "node9"}],
        "limits": [7.65, None],
    }
    ceilings = Ceilings("cuda:0", "H200", export_runs.UUID, "gpu17.example.org", "2.13.0", 5, 1, {}, {}, 1e12, 1, 5e3)
    plan = replace(first.plan, mnist="my-data", ceilings=(ceilings,))
    failure = CaseFailed(
        case=plan.cases[0].key,
        kind="crashed",
        message=f"boss@node9 asked zoe: {export_runs.UUID} at 00000000:3B:00.0 fell off.",
    )
    return exported(
        [replace(first, environment=environment, plan=plan), *rest[:-1], replace(failure, seq=999), rest[-1]]
    )


@pytest.mark.parametrize("name", ["json", "ndjson", "csv", "markdown", "html"])
def test_no_secret_is_in_any_format(spoken, name):
    if name == "html":
        pytest.importorskip("matplotlib")
    (covered,) = anonymized([spoken])
    text = b"".join(rendered(name, [covered])).decode()
    found = [secret for secret in SECRETS if secret.lower() in text.lower()]
    assert not found
    assert "1322621032333" not in text
    open_text = b"".join(rendered("json", [spoken])).decode()
    assert all(secret.lower() in open_text.lower() for secret in ("gpu17", "zoe", "yuki", "8f3a1c52", "hidden.db"))


def test_the_numbers_stay(spoken):
    (covered,) = anonymized([spoken])
    assert export_runs.half_rounds(covered) == export_runs.half_rounds(spoken)
    assert covered.started.environment["torch"] == "2.13.0"
    assert covered.started.environment["limits"] == [7.65, None]
    assert covered.started.environment["inherited"]["OMP_NUM_THREADS"] == "1"
    assert list(covered.state.rows) == list(spoken.state.rows)
    assert [device.label for device in covered.state.devices] == ["EPYC", "H200"]


def left_of(message, **names):
    """Return what is left of the message of a failed case."""
    events = export_runs.stream()
    stream = [replace(event, message=message) if isinstance(event, CaseFailed) else event for event in events]
    (covered,) = anonymized([exported(stream)], messages=True, **names)
    return covered.state.rows["matmul/default/1024/float32/tall"].failure.message  # type: ignore[union-attr]


def test_names_that_only_this_machine_knows_go_too():
    assert left_of("mallory on castle", hosts=["castle"], people=["mallory"]) == "person on host"


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("File '/home/zoe/my secret/own.py', line 3", "File '<path>', line 3"),
        ('File "/srv/it\'s secret/own.py", line 3', 'File "<path>", line 3'),
        ("cannot open /mnt/my\\ secret/x.csv: gone", "cannot open <path>: gone"),
        ("no such file: 'data/secret.csv'", "no such file: '<path>'"),
        ("see data/secret.csv, line 3", "see <path>, line 3"),
        ("see ~zoe/secret", "see <path>"),
        ("file:///srv/secret/x", "file:<path>"),
        ("FOO=/srv/a:/srv/secret", "FOO=<path>:<path>"),
        # These are no paths.
        ("3.2 GB/s and/or 1/2, matmul/default/16/float32/tall", "3.2 GB/s and/or 1/2, matmul/default/16/float32/tall"),
        ("it's 4 'times' as long", "it's 4 'times' as long"),
    ],
)
def test_a_path_goes_however_it_is_written(told, left):
    assert left_of(told) == left


@pytest.mark.parametrize("private", [
    {"codes": (OwnCode("x", "zoe(n)"),), "words": ("time", "zoe(n)", "--against", "boss(n)"), "is_of_two_codes": True},
    {"codes": (OwnCode("matmul", "", argv=("./zoe",)),), "words": ("time", "--size", "64")},
    {"mnist": "my-data"}, {"own_files": (OwnFile("own.py", "ab"),)},
])  # fmt: skip
def test_no_command_is_made_of_what_was_left_out(private):
    run = export_runs.run()
    words = {"words": ("run", "matmul", "--size", "64"), **private}
    started = replace(run.started, plan=replace(run.started.plan, **words))
    (covered,) = anonymized([exported([started, *run.events[1:]])])
    assert repeat_commands(started)
    assert repeat_commands(covered.started) == ()
    assert "anonymized" in why_no_command(covered.started)
    assert "boss" not in str(covered.started.plan)


def test_a_notice_of_a_run_is_left_out_and_no_status_takes_its_place():
    told = replace(export_runs.stream()[-1], message="boss stopped it.", remedy="Ask zoe.")
    found = replace(export_runs.stream()[1], devices=export_runs.stream()[1].devices[:1], no_gpu="zoe has it.")
    (covered,) = anonymized([exported([export_runs.stream()[0], found, told])])
    bullets = [line for line in b"".join(rendered("markdown", [covered])).decode().splitlines() if line[:1] == "-"]
    assert bullets == ["- CPU only: the run did not include a GPU.", "- The message was left out (--anonymize)."]


def test_a_machine_called_like_a_workload_renames_no_case():
    (covered,) = anonymized([export_runs.run()], hosts=["matmul", "cpu", "float32"])
    assert list(covered.state.rows) == list(export_runs.run().state.rows)
    assert covered.state.rows["matmul/default/64/float32/tall"].status == "ok"


def test_parameters_of_typed_code_stay_if_they_are_numbers_and_it_can_be_imported():
    name = "x-k-ab12,k=2,rate=1e-3,user=zoe"
    (covered,) = anonymized([export_runs.run(name=name, workload=name)])
    assert {row.case.workload for row in covered.state.rows.values()} == {"x-k-ab12,k=2,rate=1e-3,user=value-0"}
    assert covered.started.plan.name == "x-k-ab12,k=2,rate=1e-3,user=value-0"
    assert read_runs(b"".join(rendered("json", [covered])), "x") == [covered]
