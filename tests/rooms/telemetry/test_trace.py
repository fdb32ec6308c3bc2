"""Traces: a recording can be replayed, a bad file is one error, and a kill or a full disk loses nothing."""

import json
import math
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.command_line import PATIENCE_S, ROOT

from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE, UnfitError, UsageError
from cpugpu_tui.machine.nvml.calls import throttle_words
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import GpuProcess, GpuTelemetry, MigInstance, Reading, TelemetryRead
from cpugpu_tui.model.throttling import THROTTLE_REASONS
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.telemetry.recording import MAX_PAUSE_S, OLD_SILENCE, Player, Recorder, header_of, load, pauses
from cpugpu_tui.telemetry.trace import SCHEMA, Header, TraceError, header_line, parse, parse_sample, sample_line

TRACES = sorted((ROOT / "tests" / "traces").glob("*.ndjson"))
HEADER = Header("live", "2026-01-02T03:04:05+00:00", 0.2, ("NVIDIA H200",), "580.159", "13.580", "2.11.0")


def sample(**readings):
    """One GPU with only these readings known."""
    every = {key: Reading(None, "not-supported") for key in KEYS} | readings
    gpu = GpuTelemetry(0, "GPU-1", "NVIDIA H200", "00000000:04:00.0", every)
    return TelemetryRead(gpus=(gpu,), host={"cpu_pct": Reading(3.5)}, wall_ns=10**18, mono_ns=10**12)


def again(read):
    return parse_sample(sample_line(read), HEADER, "a.ndjson", 2)


def write(path, *samples, header=HEADER):
    path.write_text("".join([header_line(header), *map(sample_line, samples)]))
    return path


# ------------------------------------------------------------------ there and back


def test_a_sweep_comes_back_as_it_was():
    stranger = GpuProcess(99_999, None, None, None, own=False)
    shares = {"kernel_active_pct": Reading(None, "no-sample", 2.0), "cpu_cores": Reading(1.5)}
    guests = (stranger, replace(stranger, pid=8, readings=shares))
    slice_of_it = MigInstance(1, "MIG-1", "1g.18gb", {"memory_used_bytes": Reading(5.0)}, guests)
    read = sample(
        power_mw=Reading(78_200.0, None, 0.1, True),
        fan_pct=Reading(None, "function-missing", 4.0),
        sm_clock_mhz=Reading(0.0),
    )
    own = GpuProcess(7, 1 << 40, "me", "python", own=True, readings=shares)
    gpu = replace(
        read.gpus[0], throttle=("power-capped", "thermal"), processes=(stranger, own), problem="Lost.",
        instances=(slice_of_it,), persistence=False,
    )  # fmt: skip
    read = replace(read, gpus=(gpu, replace(read.gpus[0], index=1, uuid=None, pci_bus_id=None)), problem="Silent.")
    assert again(read) == read


def test_unknown_and_nothing_stay_apart():
    """No missing reading may become 0, and an unknown list of processes may not become empty."""
    read = sample(power_mw=Reading(None, "gpu-lost"), kernel_active_pct=Reading(0.0))
    for processes in (None, ()):
        gpu = again(replace(read, gpus=(replace(read.gpus[0], processes=processes),))).gpus[0]
        assert gpu.processes == processes
    assert gpu.readings["power_mw"] == Reading(None, "gpu-lost")
    assert gpu.readings["kernel_active_pct"] == Reading(0.0)
    assert gpu.persistence is None


numbers = st.floats(-1e15, 1e15, allow_nan=False)
ages = st.floats(0, 1e6)
reading = st.one_of(
    st.builds(Reading, numbers, st.none(), ages, st.booleans()),
    st.builds(Reading, st.none(), st.sampled_from(sorted(REASONS)), ages, st.booleans()),
)


@given(st.fixed_dictionaries({key: reading for key in KEYS}))
def test_what_was_rounded_once_is_not_rounded_again(readings):
    once = again(sample(**readings))
    assert again(once) == once
    for key, before in readings.items():
        after = once.gpus[0].readings[key]
        assert (after.reason, after.is_stamped) == (before.reason, before.is_stamped)
        assert after.age_s == pytest.approx(before.age_s, abs=6e-4)
        if before.value is not None:
            assert after.value == pytest.approx(before.value, rel=1e-12, abs=6e-5)


def test_a_recorder_that_knew_fewer_readings_still_fills_every_key():
    old = replace(HEADER, gpu_keys=("power_mw", "of_the_future_mw"))
    line = sample_line(sample(power_mw=Reading(5.0), of_the_future_mw=Reading(6.0)), old.gpu_keys)
    readings = parse_sample(line, old, "a", 2).gpus[0].readings
    assert set(readings) == {*KEYS, "of_the_future_mw"}
    assert readings["power_mw"] == Reading(5.0)
    assert readings["energy_mj"] == Reading(None, "not-asked")


def test_the_hole_of_a_sweep_that_was_dropped_comes_back():
    assert [again(replace(sample(), seq=seq)).seq for seq in (1, 2, 5)] == [1, 2, 5]
    assert again(sample()).seq == 0, "an older trace does not tell"


# ------------------------------------------------------------------ files that cannot be replayed


def changed(**changes):
    return json.dumps(json.loads(header_line(HEADER)) | changes) + "\n"


BAD_FILES: dict[str, str] = {
    "empty": "",
    "text": "hello\n",
    "bytes": "\x00\xff\n",
    "other JSON": '{"event":"Hello"}\n',
    "brackets": "[" * 100_000 + "\n",
    "other schema": changed(schema=SCHEMA + 1),
    "no schema": changed(schema=None),
    "unknown source": changed(source="dream"),
    "interval of text": changed(interval_s="1"),
    "header alone": header_line(HEADER),
    "cut off": header_line(HEADER) + sample_line(sample()) + sample_line(sample())[:50],
    "not JSON later": header_line(HEADER) + sample_line(sample()) + "oops\n",
    "not an object": header_line(HEADER) + "[]\n",
    "NaN": header_line(HEADER) + sample_line(sample()).replace("3.5", "NaN"),
    "infinity": header_line(HEADER) + sample_line(sample()).replace("3.5", "1e999"),
    "true": header_line(HEADER) + sample_line(sample()).replace("3.5", "true"),
    "huge": header_line(HEADER) + sample_line(sample()).replace("3.5", "9" * 5000),
    "negative index": header_line(HEADER) + sample_line(sample()).replace('"index":0', '"index":-1'),
    "too few readings": header_line(HEADER) + sample_line(sample(), KEYS[:3]),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_is_no_whole_trace_is_one_sentence_of_cause_and_one_of_remedy(tmp_path, text, words):
    path = tmp_path / "bad.ndjson"
    path.write_text(text)
    with words.of(TraceError) as caught:
        load(path)
    assert caught.value.exit_code == EXIT_USAGE


def test_a_file_that_is_not_there_or_has_no_end_is_refused(tmp_path, monkeypatch, words):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "nowhere.ndjson", tmp_path / "folder", Path("/dev/zero"), Path()):
        with words.of(TraceError):
            load(path)
    monkeypatch.setattr("cpugpu_tui.telemetry.recording.MAX_TRACE_BYTES", 1_000_000)
    (tmp_path / "large").write_bytes(b"x" * 1_000_001)
    with words.of(TraceError):
        load(tmp_path / "large")


@given(st.data())
def test_a_damaged_line_is_a_trace_error_and_nothing_else(data):
    line = sample_line(sample(power_mw=Reading(1.0, None, 2.0, True)))
    position = data.draw(st.integers(0, len(line) - 1))
    rubbish = data.draw(st.text(max_size=5))
    damaged = line[:position] + rubbish + line[position + data.draw(st.integers(0, 20)) :]
    try:
        parse_sample(damaged, HEADER, "a", 2)
    except TraceError:
        return
    # What is still a sample must be one that can be recorded again.
    assert math.isfinite(len(sample_line(parse_sample(damaged, HEADER, "a", 2))))


# ------------------------------------------------------------------ recording


def test_a_file_that_exists_is_not_overwritten(tmp_path, words):
    path = write(tmp_path / "kept.ndjson", sample())
    before = path.read_bytes()
    with pytest.raises(UsageError) as caught:
        Recorder(path)
    words(str(caught.value).replace(str(tmp_path), "FOLDER"))
    assert path.read_bytes() == before


def test_each_sweep_is_in_the_file_before_the_next_is_read(tmp_path):
    path = tmp_path / "a.ndjson"
    recorder = Recorder(path)
    recorder.header(header_of(sample(), "live", 1.0, ("580.159", None)))
    for count in (1, 2, 3):
        recorder.sample(sample())
        assert load(path).samples == count
    recorder.close()
    assert load(path).header.gpus == ("NVIDIA H200",)
    assert (load(path).header.driver, load(path).header.nvml) == ("580.159", None)


OLD_SILENT = TelemetryRead(host={}, problem=f"{OLD_SILENCE} for 3 s. No GPU has been seen so far.", mono_ns=10**12)


@pytest.mark.parametrize(
    "silent", [OLD_SILENT, replace(OLD_SILENT, problem="Any words.", is_silent=True)], ids=["sentence", "code"]
)
def test_a_recording_that_began_in_a_hang_is_of_the_gpus_that_it_saw_later(tmp_path, silent):
    header = header_of(silent, "live", 1.0, (None, None))
    woken = load(write(tmp_path / "woken.ndjson", silent, sample(), header=header)).header
    assert woken.gpus == ("NVIDIA H200",)
    assert woken.summary.startswith("NVIDIA H200, ")
    never = load(write(tmp_path / "never.ndjson", silent, silent, header=header)).header
    assert never.gpus is None
    assert "no GPU" in never.summary
    none = replace(silent, problem="No NVIDIA driver found. CPU results only.", is_silent=False)
    assert header_of(none, "live", 1.0, (None, None)).summary.startswith("no GPU, ")


def test_a_killed_recording_is_a_whole_trace(cpugpu, tmp_path):
    path = tmp_path / "killed.ndjson"
    with cpugpu.start("telemetry", "--simulate", "default", "--interval", "0.1", "--record", path) as process:
        while b"host" not in process.stdout.readline():
            pass
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert load(path).samples >= 1


def record_for_ever(recorder):
    while True:
        recorder.sample(sample())


def test_a_full_disk_is_a_sentence_and_what_was_written_is_a_whole_trace(tmp_path):
    path = tmp_path / "full.ndjson"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    recorder = Recorder(path)
    try:
        recorder.header(HEADER)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 2000, limits[1]))
        with pytest.raises(UnfitError) as caught:
            record_for_ever(recorder)
        assert "ulimit -f" in caught.value.remedy
        assert "space" not in caught.value.remedy, "there is plenty"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
        recorder.close()
    assert caught.value.exit_code == EXIT_UNFIT
    assert str(path) in caught.value.remedy
    assert load(path).samples >= 1


# ------------------------------------------------------------------ replaying


def at(*seconds):
    return [replace(sample(), mono_ns=round(1e12 + 1e9 * s)) for s in seconds]


def test_a_replay_keeps_the_pace_and_does_not_wait_for_a_night(tmp_path):
    trace = load(write(tmp_path / "a.ndjson", *at(0, 0.2, 0.5, 0.4, 40_000)))
    assert [wait_s for wait_s, _ in pauses(trace)] == pytest.approx([0, 0.2, 0.3, 0, MAX_PAUSE_S])
    assert [wait_s for wait_s, _ in pauses(trace, 0)] == [0] * 5
    assert [wait_s for wait_s, _ in pauses(trace, 2.0)] == [0, 2, 2, 2, 2]


def played(trace, stop_after=1000):
    """Return the samples from a player and its end; it is stopped at sample `stop_after`."""
    said: list[object] = []

    def emit(read):
        said.append(read)
        if len(said) == stop_after:
            player._stopping.set()

    player = Player(trace, emit, lambda: said.append("end"), interval_s=0)
    player.start()
    player._thread.join(PATIENCE_S)
    player.stop()
    return said


def test_a_player_plays_once_and_says_that_it_is_over(tmp_path):
    trace = load(write(tmp_path / "a.ndjson", *at(0, 1, 2)))
    assert played(trace) == [*trace, "end"]
    assert played(trace, stop_after=2) == list(trace)[:2]


# ------------------------------------------------------------------ the traces in this repository


@pytest.fixture(params=TRACES, ids=lambda path: path.stem)
def trace(request):
    return load(request.param)


def test_it_is_small_and_names_nobody(trace):
    text = "".join(trace.lines)
    assert len(text) <= 40_000
    assert "/home" not in text
    assert {process.user for read in trace for gpu in read.gpus for process in gpu.processes or ()} <= {None, "user"}


def test_it_comes_back_line_by_line(trace):
    header, samples = parse(trace.lines, trace.name)
    lines = [header_line(header), *(sample_line(read, header.gpu_keys) for read in samples)]
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in trace.lines]


def test_the_panels_state_takes_it(trace):
    state = TelemetryState()
    for read in trace:
        state = state.apply(read)
    assert len(state.history["gpu0/power_mw"]) == trace.samples
    for read in trace:
        for gpu in read.gpus:
            assert set(KEYS) <= set(gpu.readings)


def test_its_throttle_words_are_those_of_its_bits(trace):
    for read in trace:
        for gpu in read.gpus:
            assert gpu.throttle == throttle_words(gpu.readings["throttle_bits"].value)
            assert set(gpu.throttle) <= set(THROTTLE_REASONS)


RANGES: dict[str, Callable[[float, dict[str, float]], bool]] = {
    "pct": lambda value, _: 0 <= value <= 100,
    "mhz": lambda value, _: 0 < value < 10_000,
    "c": lambda value, _: -20 < value < 130,
    "mw": lambda value, all_: 1_000 < value < 1.2 * all_.get("power_limit_mw", 2e6),
    "bytes": lambda value, all_: 0 <= value <= all_.get("memory_total_bytes", 2e12),
    "bytes_per_s": lambda value, _: 0 <= value < 2e12,
}


def test_its_values_are_plausible(trace):
    for read in trace:
        for gpu in read.gpus:
            values = {key: r.value for key, r in gpu.readings.items() if r.value is not None}
            for key, value in values.items():
                unit = "bytes_per_s" if key.endswith("_bytes_per_s") else key.rpartition("_")[2]
                fits = RANGES.get(unit, lambda value, _: value >= 0)
                assert fits(value, values), (key, value)
            for reading in gpu.readings.values():
                assert (reading.value is None) == (reading.reason in REASONS)
                assert reading.age_s >= 0


def test_its_clock_goes_forward_at_its_interval(trace):
    reads = list(trace)
    steps_s = [(b.mono_ns - a.mono_ns) / 1e9 for a, b in pairwise(reads)]
    assert all(step > 0 for step in steps_s)
    assert sorted(steps_s)[len(steps_s) // 2] == pytest.approx(trace.header.interval_s, rel=0.2)
