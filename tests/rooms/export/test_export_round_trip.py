"""A run exported as JSON and imported elsewhere is the same run: `show` says the same, another export is the same."""

import io
import json
import os
import tempfile
from contextlib import closing, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import Phase, given, settings
from tests.helpers.runs import export_runs
from tests.helpers.runs.export_schema import made_schema
from tests.rooms.store.test_store import save, streams

from cpugpu_tui import export
from cpugpu_tui.agent import main
from cpugpu_tui.cli.history import show
from cpugpu_tui.cli.options import Given
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.formats import rendered
from cpugpu_tui.export.json_document import FILE, json_document, read_runs, schema_text
from cpugpu_tui.export.stream import exported, kept
from cpugpu_tui.model import CaseStarted, DeviceSampled, RunFinished, RunStarted
from cpugpu_tui.store import Store
from cpugpu_tui.transport.agent_output import decode, encode
from cpugpu_tui.transport.event_checks import FACTS, wrong_fact

NO_CONTEXT: Any = None


def as_told(stream):
    """Return the events after sending them, which makes their texts printable."""
    return [event for line in map(encode, stream) if (event := decode(line)) is not None]


def shown(database, *, as_json=False):
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out):
        show(Given(NO_CONTEXT, {"json": as_json, "database": database}))
    out.seek(0)
    return out.read()


def document_of(store, name="json"):
    return b"".join(rendered(name, [exported(store.load(store.find("latest")))]))


@settings(max_examples=20, phases=[Phase.generate])
@given(stream=streams())
def test_an_import_shows_what_the_original_shows(stream):
    with tempfile.TemporaryDirectory() as folder:
        here, there = Path(folder) / "here.db", Path(folder) / "there.db"
        with closing(Store.open(here)) as store:
            save(store, as_told(stream))
            document, lines = document_of(store), document_of(store, "ndjson")
        with closing(Store.open(there)) as store:
            for run in read_runs(document, "x.json"):
                assert [store.import_run(run.events), store.import_run(run.events)] == [1, 1]
            assert document_of(store) == document
            assert document_of(store, "ndjson") == lines
        assert shown(there) == shown(here)
        assert shown(there, as_json=True) == shown(here, as_json=True)


def test_lines_of_events_are_read_like_the_document():
    run = export_runs.run()
    lines = b"".join(rendered("ndjson", [run]))
    assert read_runs(lines, "x.ndjson") == read_runs(b"".join(json_document([run])), "x.json") == [run]


def test_every_number_is_kept_to_the_last_bit():
    third = 1e6 / 3
    stream = [
        replace(event, samples={"latency": (third, 0.1 + 0.2)}) if isinstance(event, DeviceSampled) else event
        for event in export_runs.stream()
    ]
    (back,) = read_runs(b"".join(json_document([exported(stream)])), "x")
    assert {half.samples["latency"] for half in export_runs.half_rounds(back)} == {(third, 0.1 + 0.2)}


def test_a_live_stream_gives_the_bytes_that_its_saved_run_gives(tmp_path):
    stream = as_told(export_runs.stream())
    lost = [replace(event, seq=0) for event in stream if isinstance(event, (CaseStarted, DeviceSampled))][:3]
    with closing(Store.open(tmp_path / "x.db")) as store:
        save(store, stream)
        assert document_of(store) == b"".join(json_document([exported([*stream[:3], *lost, *stream[3:]])]))


def test_a_case_that_was_not_over_is_no_part_of_a_broken_off_run():
    stream = export_runs.stream()
    broken = [*stream[:8], replace(stream[8], seq=9)]
    assert not any(isinstance(event, (CaseStarted, RunFinished)) for event in kept(broken))
    document = json.loads(b"".join(json_document([exported(broken)])))
    assert document["runs"][0]["status"] == "unfinished"


# ------------------------------------------------------------------ the schema


def test_the_shipped_schema_is_that_of_this_version():
    """`make golden` writes it anew."""
    if os.environ.get("RENEW_GOLDEN"):
        Path(export.__file__).with_name(FILE).write_text(made_schema(), "utf-8")
    assert schema_text() == made_schema()


def test_the_schema_is_sound_and_describes_every_field_of_a_result():
    schema = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    parts = schema["$defs"]
    for name in ("Run", "CaseResult", "DeviceResult", "Metric", "Lead"):
        assert all(field.get("description") for field in parts[name]["properties"].values()), name


@settings(max_examples=10, phases=[Phase.generate])
@given(stream=streams())
def test_documents_keep_the_schema(stream):
    schema = jsonschema.Draft202012Validator(json.loads(schema_text()))
    schema.validate(json.loads(b"".join(json_document([exported(as_told(stream))]))))


# ------------------------------------------------------------------ what is no export


def changed(**fields):
    return json.dumps({**json.loads(b"".join(json_document([export_runs.run()]))), **fields}).encode()


def with_start(**fields):
    first = export_runs.stream()[0]
    assert isinstance(first, RunStarted)
    return encode(replace(first, **fields))  # type: ignore[arg-type]


def with_half_round(times_ns):
    events = [
        replace(event, samples={"latency": times_ns}) if isinstance(event, DeviceSampled) else event
        for event in export_runs.stream()
    ]
    return b"".join(map(encode, events))


NO_EXPORTS = {
    "an empty file": b"",
    "text": b"hello",
    "a picture": b"\x89PNG\r\n\x1a\n\xff\xfe",
    "nested brackets": b"[" * 100_000,
    "JSON of another program": b'{"benchmarks": [], "machine_info": {}}',
    "a list": b"[1, 2]",
    "a newer schema": changed(schema_version=2),
    "a version as text": changed(schema_version="1"),
    "version 0": changed(schema_version=0),
    "half a file": changed()[:2_000],
    "a number for a fact": with_start(environment={"inherited": 7}),
    "a list for a fact": with_start(environment={"threads": [1]}),
    "text for a fact": with_start(environment={"case_timeout_s": "x"}),
    "a negative time": with_half_round((5.0, -1.0)),
    "no list of runs": changed(runs=None),
    "a run without events": changed(runs=[{"events": []}]),
    "events without a start": encode(export_runs.stream()[1]),
    "an id with an escape": with_start(run_id="latest;\x1b[31m"),
    "a number for an id": with_start(run_id="1"),
    "a time stamp out of range": with_start(wall_ns=2**70),
    "a run twice": with_start() + with_start(),
    "a case that is not in the plan": with_start() + b'{"event":"CaseFinished","case":"a/b"}',
}


@pytest.mark.parametrize("data", NO_EXPORTS.values(), ids=list(NO_EXPORTS))
def test_what_is_no_export_is_a_sentence(data, words):
    with pytest.raises(UsageError) as caught:
        read_runs(data, "x.json")
    assert "x.json" in caught.value.message
    words(str(caught.value))
    assert caught.value.remedy


def test_every_fact_that_a_run_has_is_of_its_type():
    """Facts of a real agent and of the controller must be accepted."""
    found = {**main.facts(simulated=False), "worker": "process", "python_option": None, "case_timeout_s": 5.0}
    assert wrong_fact({**found, "argv": ["run"], "face": "app"}) is None
    assert set(found) - set(FACTS) == set()


def test_a_damaged_event_is_named_by_its_place():
    lines = b"".join(rendered("ndjson", [export_runs.run()])).splitlines()
    lines[4] = lines[4].replace(b'"seq"', b'"sec"').replace(b'"case":"', b'"case":["')
    with pytest.raises(UsageError, match="event 5 "):
        read_runs(b"\n".join(lines), "x")


def test_events_of_a_newer_version_are_passed_over():
    run = export_runs.run()
    lines = b"".join(rendered("ndjson", [run])) + b'{"event":"MoonRose","seq":9}\n'
    assert read_runs(lines, "x") == [run]


def test_texts_that_a_terminal_would_obey_do_not_come_in():
    stream = export_runs.stream(name="a\x1b]0;owned\x07b")
    (run,) = read_runs(b"".join(json_document([exported(stream)])), "x")
    assert run.name == "ab"
