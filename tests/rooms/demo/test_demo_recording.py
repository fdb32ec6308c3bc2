"""The demo's recording: the shipped file, how it is made, and errors for bad files."""

import gzip
import json
import zipfile

import pytest
from tests.demo.record import MAX_BYTES, packed, recording
from tests.helpers.command_line import ROOT

from cpugpu_tui.demo.recording import SHIPPED, load, shipped, unpacked
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import DeviceSampled, TelemetryRead
from cpugpu_tui.store import Store
from cpugpu_tui.workloads import PRESETS

FILE = ROOT / "tui" / "cpugpu_tui" / "demo" / SHIPPED


@pytest.fixture(scope="module")
def whole():
    return shipped()


# ------------------------------------------------------------------ what is shipped


def test_it_is_a_whole_real_session_with_all_that_the_app_shows(whole):
    names = [run.name for run in whole.runs]
    assert names[0] == "quick"
    assert set(names[1:]) == {
        "matmul-sweep", "vector-dot", "jacobian", "elementwise", "transfer", "mnist-mlp", "mnist-width",
        "mnist-batch", "conv2d+matmul",
    }  # fmt: skip
    assert set(names[:-1]) <= set(PRESETS)
    assert whole.tag == "REPLAY", "nothing in it is simulated"
    assert {found.device for found in whole.ceilings} == {"cpu", "cuda:0"}
    for run in whole.runs:
        assert run.state.status == "done"
        assert run.state.gpu is not None
        rows = run.state.rows.values()
        assert any(row.status == "ok" for row in rows)
        # What did not fit into its time says so, as it did then.
        assert all(row.status in ("ok", "skipped") and "damaged" not in row.marks for row in rows)
        assert not any(row.is_cut for row in rows), "of two devices the slower one decides how many rounds there are"
        assert {found.device for found in run.started.plan.ceilings} == {"cpu", "cuda:0"}
        assert sum(isinstance(event, TelemetryRead) and bool(event.gpus) for event in run.events) >= 8


def test_it_names_the_machine_and_nobody(whole):
    gpu, cpu, driver, torch, date = whole.machine
    assert gpu == "NVIDIA H200"
    assert "Xeon" in cpu
    assert (driver.split()[0], torch.split()[0]) == ("driver", "torch")
    assert date == "2026-11-28 to 2026-11-29"
    assert (whole.environment["hostname"], whole.environment["argv"]) == ("host", [])
    for run in whole.runs:
        for read in (event for event in run.events if isinstance(event, TelemetryRead)):
            for gpu_read in read.gpus:
                assert gpu_read.uuid.startswith("GPU-anonymous")
                assert gpu_read.pci_bus_id is None
                assert all(process.user is None and process.command is None for process in gpu_read.processes or ())


def test_the_wheel_has_it_and_it_is_small(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel")
    (path,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        found = [info for info in archive.infolist() if "demo/" in info.filename and info.filename.endswith(".gz")]
        assert [info.filename for info in found] == [f"cpugpu_tui/demo/{SHIPPED}"]
        assert found[0].compress_size <= MAX_BYTES
        assert archive.read(found[0]) == FILE.read_bytes()


# ------------------------------------------------------------------ how it is made


def test_a_database_and_its_exports_give_the_same_file(whole, tmp_path):
    runs = [whole.runs[0], whole.runs[7]]
    database = tmp_path / "demo.db"
    store = Store.open(database)
    for run in runs:
        store.import_run(run.events)
    store.close()
    exports = []
    for number, run in enumerate(runs):
        exports.append(tmp_path / f"{number}.ndjson")
        exports[-1].write_bytes(gzip.decompress(packed([run])).partition(b"\n")[2])
    made = recording(database, ())
    assert made == recording(database, ()), "the same runs give the same file"
    assert (made, made) == (recording(exports[0], [str(exports[1])]), packed(runs))
    assert unpacked(made, "it").runs == tuple(runs)
    assert [run.name for run in unpacked(recording(database, ["2"]), "it").runs] == ["mnist-mlp"]


# ------------------------------------------------------------------ bad ones


def lines_of(data):
    return gzip.decompress(data).splitlines()


def with_header(schema):
    header, *events = lines_of(FILE.read_bytes())
    return gzip.compress(b"\n".join([json.dumps({**json.loads(header), "schema": schema}).encode(), *events]))


def without_end():
    lines = lines_of(FILE.read_bytes())
    return gzip.compress(b"\n".join(line for line in lines if b'"RunFinished"' not in line))


def flipped(place):
    data = bytearray(FILE.read_bytes())
    data[place] ^= 0xFF
    return bytes(data)


BAD = {
    "cut off": (lambda: FILE.read_bytes()[:-1000], "damaged"),
    "a byte changed": (lambda: flipped(200_000), "damaged"),
    "the checksum changed": (lambda: flipped(-6), "damaged"),
    "empty": (lambda: b"", ""),
    "text": (lambda: b"hello\n" * 100, ""),
    "another gzip": (lambda: gzip.compress(b"hello\n" * 100), ""),
    "newer": (lambda: with_header(2), ""),
    "older": (lambda: with_header(0), ""),
    "no number": (lambda: with_header("one"), ""),
    "without an end": (without_end, ""),
    "without runs": (lambda: gzip.compress(lines_of(FILE.read_bytes())[0] + b"\n"), ""),
    "a broken event": (lambda: gzip.compress(b"\n".join([*lines_of(FILE.read_bytes())[:40], b"{"])), "damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_recording_is_told_in_one_sentence_and_what_to_do(name, tmp_path, words):
    make, cause = BAD[name]
    path = tmp_path / "bad.gz"
    path.write_bytes(make())
    with pytest.raises(UsageError, match=cause) as caught:
        load(path)
    if not cause:  # others repeat the words of zlib or msgspec
        words(str(caught.value))
    assert caught.value.exit_code == 2
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_file_that_unpacks_without_end_does_not_fill_the_memory(monkeypatch, words):
    monkeypatch.setattr("cpugpu_tui.demo.recording._MAX_PLAIN_BYTES", 1_000_000)
    with words.of(UsageError):
        unpacked(gzip.compress(bytes(5_000_000)), "bomb")


def test_every_sample_is_there(whole):
    """The recording holds every half-round that the agent timed, in the announced blocks."""
    state = whole.runs[0].state
    halves = [
        event
        for event in whole.runs[0].events
        if isinstance(event, DeviceSampled) and event.round_index and not event.start
    ]
    assert len(halves) == sum(len(times.round_ns) for row in state.rows.values() for times in row.times.values())
