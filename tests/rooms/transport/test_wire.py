"""Events on the wire arrive unchanged, and no input breaks the reader."""

import json
import math
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpugpu_tui import model
from cpugpu_tui.agent.main import plan_from_json
from cpugpu_tui.errors import EXIT_UNFIT, ProtocolError
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.timing import channel
from cpugpu_tui.timing.channel import LineEmitter
from cpugpu_tui.transport.agent_output import MAX_LINE_BYTES, Garbage, LineReader, decode, encode

PLAN = model.Plan(
    "quick", (model.Case("matmul", 16), model.Case("vector-dot", 10**12, "float64", 3, "dot")), max_seconds=2.5,
    simulation=model.Simulation(seed=7, oom_size=16), own_files=(model.OwnFile("/a.py", "00ff"),),
    ceilings=(model.Ceilings("cuda:1", "H200", "GPU-1", "n1", "2.11", 1, 1, {}, {}, 1.0, 1, 1.0,
        clock=model.EventClock("late")),),
)  # fmt: skip
CASE = PLAN.cases[0].key
LINE = model.LineCost("my_model.py", 31, "loss.item()", "synchronisation", 3.4e5, share=0.17, synchronisations=1)

EXAMPLES: tuple[model.Event, ...] = (
    model.Hello(
        protocol=model.PROTOCOL,
        environment={"torch": None, "threads": 16, "quota_cores": 7.65, "inherited": {"OMP_NUM_THREADS": "1"}},
        catalogue=(model.WorkloadInfo("matmul", "n of n×n", ("default",), (16, 32), "Product of two matrices"),),
        refused=(model.Refused("/b.py", "/b.py, line 1: SyntaxError: '(' was never closed.", "Mend the file."),),
        own_files=(model.OwnFile("/a.py", "00ff"),),
    ),
    model.WorkloadsLoading(source="/a.py"),
    model.DevicesFound(devices=(model.Device("cpu", "Zoë's CPU"), model.Device("cuda:1", "H200", "GPU-1", 1 << 37)),
        no_gpu="None. Buy."),
    model.RunStarted(run_id="a", series_id="b", plan=PLAN, environment={"argv": ["run", "µ"]}, number=3),
    model.CaseStarted(case=CASE),
    model.Calibrated(
        case=CASE, device="cpu", estimate_ns=12.5, calls_per_block=7, blocks=5, rounds=8, threads=2, stable=False
    ),
    model.DeviceSampled(
        case=CASE, device="cuda:1", round_index=2, calls_per_block=7, samples={"latency": (1.5, 0.1), "device": ()},
        started_wall_ns=1, ended_wall_ns=2, started_mono_ns=3, ended_mono_ns=4, marks=("starved",),
    ),
    model.EpochFinished(case=CASE, device="cuda:1", epoch=3, epochs=10, loss=0.25, accuracy=0.98, elapsed_ns=2e9,
        steps=5),
    model.KernelsProfiled(case=CASE, device="cuda:1", count=14_400, elapsed_ns=7.5e7),
    model.PeerMeasured(
        source=model.Device("cuda:0", "NVIDIA H200", "GPU-1"), target=model.Device("cuda:1", "NVIDIA H200", "GPU-2"),
        has_access=True, latencies_ns=(11_000.0, 12_000.0), size_bytes=1 << 28, elapsed_ns=(700_000.0,),
    ),
    model.MachineRead(
        case=CASE, device="cuda:1", edge="end", readings={"energy_mj": model.Reading(5e9, age_s=0.05, is_stamped=True)},
        processes=(model.GpuProcess(99999, None, None, None, own=False),), elapsed_ns=2e9,
    ),
    model.EnergyMeasured(
        case=CASE, device="cuda:1", calls=800, elapsed_ns=1.6e9, begin_mj=1e9, end_mj=1.001e9, tick_ns=1e8,
        scope="board", power_mw=(6e5, 7e5),
    ),
    model.DeviceSampled(
        case=CASE, device="cuda:1", round_index=3, calls_per_block=7, samples={"latency": (1.5,)},
        sm_clock_mhz=1980.0, sm_clock_end_mhz=1575.0, throttled_ns={"power-capped": 3e6}, watched_ns=4e6, power_mw=7e5,
    ),
    model.CasesChosen(cases=(model.Case("matmul", 170), model.Case("matmul", 162, "tf32", 4))),
    model.CodeTraced(case=CASE, device="cuda:1", operators=3, on_cpu=("sort",), copies_to_host=1, bytes_to_host=8),
    model.CodeCompiled(case=CASE, device="cuda:1", elapsed_ns=2.5e9, variant="channels-last", has_kernels=False),
    model.LinesProfiled(case=CASE, device="cuda:1", profiled_ns=2e6, unprofiled_ns=1e6, lines=(LINE,)),
    model.EarlierTimed(case=CASE, device="cuda:1", starts=({"latency": 1e6, "device": 2e5}, {})),
    model.CodeTraced(case=CASE, device="cuda:1", operators=0, used=model.CommandUse(2, startup_ns=1e9,
        utilisation_pct=40.0)),
    model.TensorsPlaced(case=CASE, device="cuda:1", inputs=("[8, 8] float32 on cuda:1",) * 2, results=()),
    model.CeilingsMeasured(
        ceilings=model.Ceilings(
            "cuda:1", "H200", "GPU-1", "node1", "2.11", 2**60, 16, {"float32": 5e13}, {"float32": 8192}, 4.3e12, 2**30,
            1e4, 8e3, 2.1e4, {"h2d_pinned": model.Line(7e3, 5.5e10)}, clock=model.EventClock("late", pair_ns=1.2e5),
        )
    ),
    model.ClockChecked(device="cuda:1", clock=model.EventClock(pair_ns=1250.0, step_ns=32.0, block_ns=1e8,
        uuid="GPU-1")),
    model.Gap(duration_ms=50.0),
    model.Progressed(case=CASE, device="cpu", phase="warm-up", estimate_s=0.5, seconds_left=None),
    model.CaseFinished(case=CASE, check=model.Check("float64 on the CPU", 1e-9, 1e-3)),
    model.CaseFailed(case=CASE, kind="oom", message="Needs 18 GB.", remedy="Choose smaller sizes.", device="cuda:1"),
    model.TelemetryRead(
        gpus=(model.GpuTelemetry(
            0, "GPU-1", "H200", None, {"power_mw": model.Reading(7e5, age_s=0.1), "fan": model.Reading(None,
                "not-supported")},
            ("idle",), (model.GpuProcess(1, None, "ada", None, own=False,
                readings={"cpu_cores": model.Reading(0.5)}),), "Lost.",
        ),),
        host={"cpu_pct": model.Reading(3.5)},
    ),
    model.RunFinished(status="failed", message="Cause.", remedy="Cure.", exit_code=4, seq=9, wall_ns=2**62, mono_ns=1),
)  # fmt: skip


def test_every_event_has_an_example():  # by name: a dataclass with slots is made twice
    assert {type(event) for event in EXAMPLES} == set(model.EVENTS.values())
    assert {kind.__name__ for kind in model.WIRE_TAGS} == {kind.__name__ for kind in model.Event.__subclasses__()}


def test_no_tag_ever_changes():
    """Databases, exports, recordings and agents of the same protocol use these."""
    assert " ".join(sorted(model.WIRE_TAGS.values())) == (
        "Calibrated CaseFailed CaseFinished CaseStarted CasesChosen CeilingsMeasured ClockChecked CodeCompiled "
        "CodeTraced DevicesFound EarlierTimed EnergyMeasured EpochFinished Gap HalfRoundTimed Hello KernelsProfiled "
        "LinesProfiled MachineRead PeerMeasured Progressed RunFinished RunStarted TelemetryRead TensorsPlaced "
        "WorkloadsLoading"
    )  # fmt: skip


def test_a_line_that_an_older_agent_wrote_is_read_whatever_the_class_is_called():
    line = (
        b'{"event":"HalfRoundTimed","seq":5,"wall_ns":1,"mono_ns":2,"case":"matmul/default/64/float32/tall",'
        b'"device":"cpu","round_index":1,"calls_per_block":3,"samples":{"latency":[1.5]}}'
    )
    event = decode(line)
    assert event.samples == {"latency": (1.5,)}
    assert json.loads(encode(event))["event"] == "HalfRoundTimed"


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_what_is_sent_arrives_as_it_was(event):
    line = encode(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == event


def test_a_plan_arrives_as_it_was():
    assert plan_from_json(json.dumps(to_plain(PLAN)).encode()) == PLAN
    assert plan_from_json(json.dumps(to_plain(model.Plan("x", ()))).encode()) == model.Plan("x", ())


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)), st.text(st.characters(categories=["L", "N", "P"])))
def test_numbers_and_names_arrive_to_the_last_bit(samples, name):
    event = model.DeviceSampled(
        case=name, device="cpu", round_index=1, calls_per_block=1, samples={name: tuple(samples)}
    )
    assert decode(encode(event)) == event


# ------------------------------------------------------------------ strangers


def test_an_unknown_event_is_skipped():
    assert decode(b'{"event":"CaseDreamt","case":"x"}') is None


def test_a_field_that_a_later_version_added_is_ignored():
    assert decode(b'{"event":"Gap","duration_ms":50.0,"why":"because"}') == model.Gap(duration_ms=50.0)


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"Hello","protocol":2,"environment":{},"catalogue":[]}',
        b'{"event":"Hello","protocol":0,"greeting":["nothing","of","today"]}',
        b'{"event":"Hello"}',
        b'{"event":"Hello","protocol":"one"}',
    ],
)
def test_another_version_of_the_protocol_is_named(line):
    with pytest.raises(ProtocolError, match=rf" {model.PROTOCOL}\.") as caught:
        decode(line)
    assert caught.value.exit_code == EXIT_UNFIT
    assert "same version" in caught.value.remedy


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\x00", b'{"event":"CaseStarted","case":"\x1b[2J"}',
        b'{"event":"Hello","protocol":1,"environment":{"\\n":' + b"[" * 900 + b"]" * 900 + b"}}",
        b"Traceback (most recent call last):", b"{", b"[" * 100_000, b"7", b"null", b"[]", b'"Gap"',
        b"{}", b'{"event":7}', b'{"event":null}',
        b'{"event":"Gap"}', b'{"event":"Gap","duration_ms":"long"}', b'{"event":"Gap","duration_ms":true}',
        b'{"event":"Gap","duration_ms":NaN}', b'{"event":"Gap","duration_ms":Infinity}',
        b'{"event":"Gap","duration_ms":1e999}', b'{"event":"Gap","duration_ms":1,"seq":1.5}',
        b'{"event":"Gap\xff","duration_ms":1}', b'{"event":"CaseStarted","case":"\xff\xfe"}',
        b'{"event":"CaseStarted","case":"\\ud800"}', b'{"event":"CaseStarted","case":["x"]}',
        b'{"event":"HalfRoundTimed","case":"x","device":"cpu","round_index":1,"calls_per_block":1,"samples":{"a":[null]}}',
    ],
    ids=lambda line: repr(line[:40]),
)  # fmt: skip
def test_garbage_is_named_garbage(line):
    with pytest.raises(Garbage):
        decode(line)


def survives(line):
    try:
        event = decode(line)
    except (Garbage, ProtocolError):
        return
    assert event is None or isinstance(event, model.Event)


@given(st.binary())
def test_no_bytes_break_the_reader(line):
    survives(line)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=5,
)


@st.composite
def near_events(draw):
    """A real event with some fields replaced by anything."""
    example = draw(st.sampled_from(EXAMPLES))
    data = to_plain(example)
    for name in draw(st.sets(st.sampled_from(sorted(data)), max_size=3)):
        data[name] = draw(JSON)
    return json.dumps({"event": model.WIRE_TAGS[type(example)], **data}).encode()


@settings(max_examples=200)
@given(near_events())
def test_no_field_breaks_the_reader(line):
    survives(line)


# ------------------------------------------------------------------ text


def test_a_lone_surrogate_leaves_as_a_question_mark():
    line = encode(model.CaseFailed(case="x", kind="error", message="file \udcff.bin", remedy="é\ud800"))
    event = decode(line)
    assert (event.message, event.remedy) == ("file ?.bin", "é?")


def test_a_lone_surrogate_in_a_key_leaves_too():
    assert decode(encode(model.Hello(protocol=model.PROTOCOL, environment={"\ud800": ["\ud800"]}))) == model.Hello(
        protocol=model.PROTOCOL, environment={"?": ["?"]}
    )


@pytest.mark.parametrize("text", ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\u202e", "\x08\x08", "\r"])
def test_what_a_terminal_would_obey_is_gone_before_anybody_prints_it(text):
    for ascii_only in (True, False):
        data = {"event": "CaseFailed", "case": "x", "kind": "error", "message": f"bad{text}ly"}
        event = decode(json.dumps(data, ensure_ascii=ascii_only).encode())
        assert event.message in ("badly", "bad ly")


# ------------------------------------------------------------------ numbers that JSON does not know


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_never_sent(number):
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(
            model.DeviceSampled(
                case="x", device="cpu", round_index=1, calls_per_block=1, samples={"latency": (number,)}
            )
        )


# ------------------------------------------------------------------ lines


def feed(chunks):
    reader = LineReader()
    return [line for chunk in chunks for line in reader.feed(chunk)], reader


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=8), st.data())
def test_lines_do_not_depend_on_how_they_are_cut(lines, data):
    stream = b"".join(line + b"\n" for line in lines) + b"unfinished"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert feed(chunks)[0] == lines


@pytest.mark.parametrize("chunk_bytes", [1 << 16, 3_000_007, 10_000_000])
def test_a_line_of_over_a_megabyte_is_dropped_and_its_neighbours_are_not(chunk_bytes):
    longest = b"x" * MAX_LINE_BYTES
    stream = b"before\n" + longest + b"\n" + longest + b"y\n" + b"z" * 5_000_000 + b"\nafter\n"
    chunks = [stream[start : start + chunk_bytes] for start in range(0, len(stream), chunk_bytes)]
    lines, reader = feed(chunks)
    assert lines == [b"before", longest, b"after"]
    assert reader.dropped_lines == 2


def test_a_line_without_an_end_does_not_fill_the_memory():
    tracemalloc.start()
    try:
        lines, reader = feed(bytes(65536) for _ in range(320))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lines == []
    assert reader.dropped_lines == 1
    assert peak_bytes < 4 * MAX_LINE_BYTES


# ------------------------------------------------------------------ on the way out


def test_nothing_is_written_before_a_flush_and_everything_by_it(monkeypatch):
    written = bytearray()

    def write_seven(descriptor, data):
        """A pipe that is nearly full."""
        assert descriptor == 5
        written.extend(data[:7])
        return len(data[:7])

    monkeypatch.setattr(channel.os, "write", write_seven)
    emit = LineEmitter(5)
    emit(model.CaseStarted(case="a"))
    emit(model.CaseFinished(case="a"))
    assert written == b""
    emit.flush()
    emit.flush()
    events = [decode(line) for line in written.splitlines()]
    assert [(type(event), event.seq) for event in events if event] == [(model.CaseStarted, 1), (model.CaseFinished, 2)]
    assert all(event is not None and event.wall_ns > 0 and event.mono_ns > 0 for event in events)


# ------------------------------------------------------------------ from many threads at once


FIRST_AT_ONCE = """
import sys, threading
from cpugpu_tui.model import Case, Device, DevicesFound, MachineRead, Plan, Reading, RunStarted
from cpugpu_tui.transport.agent_output import decode, encode
sys.setswitchinterval(1e-6)
lines = [encode(event) for event in (
    RunStarted(run_id="r", series_id="s", plan=Plan("m", (Case("matmul", 64),)), environment={}),
    DevicesFound(devices=(Device("cpu", "x"),)),
    MachineRead(case="c", device="d", edge="begin", readings={"a": Reading(1.0)}),
)]
barrier = threading.Barrier(8)
def read(order):
    barrier.wait()
    for line in lines[::order]:
        assert decode(line) is not None
threads = [threading.Thread(target=read, args=(1 - 2 * (index % 2),)) for index in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_the_first_events_of_many_agents_can_come_at_the_same_time():
    """A fleet crashed with signal 11 in CI when two hosts sent their first line at the same time."""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", FIRST_AT_ONCE], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
