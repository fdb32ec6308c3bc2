"""`cpugpu-tui telemetry`: a table like vmstat's, JSON lines, recorded and replayed, and how each of them fails."""

import json
import re
from dataclasses import replace

import pytest
from tests.helpers.command_line import ROOT
from tests.helpers.golden import assert_golden, paragraphs

from cpugpu_tui.cli.output.telemetry_table import Table
from cpugpu_tui.cli.telemetry import WAITING, sampled
from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.model import GpuProcess, MigInstance, Reading, TelemetryRead
from cpugpu_tui.telemetry.nvml_thread import Versions
from cpugpu_tui.telemetry.recording import load
from cpugpu_tui.telemetry.sampler import simulated_sample

FAKE_TRACE = ROOT / "tests" / "traces" / "fake-two-gpus.ndjson"
SIMULATED = ("telemetry", "--simulate", "default", "--interval", "0.1")


def gpu(index=0, **readings):
    known = simulated_sample(5.0, load=1.0).gpus[0]
    return replace(known, index=index, readings={**known.readings, **readings}, throttle=())


def sample(*gpus, problem=None):
    return TelemetryRead(gpus=gpus, host=simulated_sample(5.0, load=1.0).host, problem=problem, wall_ns=10**18)


# ------------------------------------------------------------------ the table


def test_the_header_comes_once_and_each_sweep_has_a_line_per_gpu_and_one_for_the_host(cpugpu):
    done = cpugpu.here("telemetry", "--simulate", "gpus=2", "--interval", "0.1", "--count", "3")
    assert (done.code, done.err) == (EXIT_OK, "")
    assert done.out.count("power") == done.out.count("GiB   MHz") == 1
    rows = re.findall(r"\d\d:\d\d:\d\d\.\d (GPU \d|host)", done.out)
    assert rows == ["GPU 0", "GPU 1", "host"] * 3
    assert all(line.startswith("SIMULATED ") for line in done.out.splitlines() if re.match(r"\S", line))


NOT_ALLOWED = Reading(None, "no-permission")
UNKNOWN = sample(gpu(power_mw=NOT_ALLOWED, temperature_c=NOT_ALLOWED))
DEAD = replace(gpu(), readings={key: Reading(None, "gpu-lost") for key in KEYS}, problem="Lost.")
UNREAD = replace(gpu(), name="GPU 0", uuid=None, pci_bus_id=None, persistence=None, readings={}, problem="Lost.")
WAKING = replace(gpu(power_limit_mw=Reading(None, "not-yet")), persistence=None)
STRANGER, OURS = (GpuProcess(pid, None, None, None, own=pid == 1) for pid in (99_999, 1))
CAPPED = gpu(throttled_power_cap_pct=Reading(63.4))
SLICE = MigInstance(2, "MIG-1", "1g.18gb", {"memory_used_bytes": Reading(float(3 << 30))}, (STRANGER,))

SEEN: dict[str, tuple[TelemetryRead, ...]] = {
    "unknown is said once, and again when it comes back": (UNKNOWN, UNKNOWN, sample(gpu()), UNKNOWN),
    "an old number": (sample(gpu(power_mw=Reading(78_000.0, None, 3.0))),),
    "a silent driver is not news every second":
        tuple(sample(gpu(), problem=f"The driver has not answered for {s} s.") for s in (2, 3, 4)),
    "a lost GPU keeps its name": (sample(gpu(), gpu(1)), sample(DEAD, gpu(1))),
    "a GPU that never answered": (sample(UNREAD),),
    "a GPU that comes back": (sample(gpu()), sample(problem="Gone."), sample(WAKING), sample(gpu())),
    "another GPU in its place": (sample(gpu()), sample(replace(WAKING, uuid="GPU-other"))),
    "throttled": (sample(replace(CAPPED, throttle=("power-capped", "thermal"))),),
    "throttled between two readings, beside others": (sample(replace(CAPPED, processes=(STRANGER, OURS))),),
    "throttling that is not told": (sample(gpu(throttle_bits=Reading(None, "not-supported"))),),
    # The driver may list the process of a slice under its GPU too.
    "a slice": (sample(replace(gpu(), processes=(STRANGER,), instances=(SLICE,))),),
}  # fmt: skip


def test_what_a_person_sees():
    told = {name: "\n".join(line for read in reads for line in table.lines(read))
            for name, reads in SEEN.items() for table in [Table(1.0)]}  # fmt: skip
    told["with --gpm"] = "\n".join(Table(1.0, gpm=True).lines(sample(gpu(tensor_active_pct=Reading(41.0)))))
    paged = Table(1.0, page_lines=6)
    told["the header comes again when it has left the terminal"] = "\n".join(
        line for _ in range(7) for line in paged.lines(sample(gpu()))
    )
    assert_golden("frames/telemetry-table", re.sub(r"(?m)^\d\d:\d\d:\d\d", "hh:mm:ss", paragraphs(told)))


# ------------------------------------------------------------------ JSON


def test_json_has_a_line_a_sweep_with_units_in_its_keys(cpugpu, library):
    done = cpugpu.here("telemetry", "--json", "--count", "2", "--interval", "0.1")
    assert (done.code, done.err) == (EXIT_OK, "")
    assert len(done.objects) == 2
    for line in done.objects:
        assert (line["event"], line["source"], line["tag"], line["schema"]) == ("TelemetryRead", "live", "", 1)
        first, second = line["gpus"]
        assert (first["index"], first["uuid"], first["pci_bus_id"]) == (
            0, library.gpus[0].uuid.decode(), library.gpus[0].bus_id.decode(),
        )  # fmt: skip
        assert second["index"] == 1
        assert set(first["readings"]) == set(KEYS)
        power = first["readings"]["power_mw"]
        assert (power["value"], power["reason"]) == (78_200, None)
        assert power["age_s"] < 5
        fan = first["readings"]["fan_pct"]
        assert (fan["value"], bool(fan["reason"])) == (None, True)
    assert [event.gpus[0].index for event in done.events if isinstance(event, TelemetryRead)] == [0, 0]


def test_a_sweep_that_a_slow_reader_missed_is_a_hole_in_seq(monkeypatch):
    class EagerSampler:
        """Samples 20 times before anybody reads."""

        def __init__(self, interval_s, emit, *, gpm):
            self.emit = emit

        def start(self):
            self.emit(TelemetryRead())  # the driver is still waking up
            for _ in range(WAITING + 4):
                self.emit(sample(gpu()))

        def stop(self):
            pass

    samplers: list[EagerSampler] = []

    def new(*arguments, **options):
        samplers.append(EagerSampler(*arguments, **options))
        return samplers[-1]

    monkeypatch.setattr("cpugpu_tui.telemetry.sampler.Sampler", new)
    samples = sampled(None, 1.0, gpm=False)
    assert [next(samples).seq for _ in range(WAITING)] == list(range(1, WAITING + 1))
    samplers[0].emit(sample(gpu()))
    assert next(samples).seq == WAITING + 5


def test_a_hang_from_the_first_moment_on_is_not_a_machine_without_a_gpu(
    cpugpu, fake_nvml, tmp_path, monkeypatch, words
):
    fake_nvml.use()
    fake_nvml.set("hang:nvmlInitWithFlags", 1)
    monkeypatch.setattr("cpugpu_tui.telemetry.nvml_thread.PATIENCE_S", 0.05)
    monkeypatch.setattr("cpugpu_tui.telemetry.sampler.HANG_S", 0.1)
    path = tmp_path / "hang.ndjson"
    (line,) = cpugpu.here("telemetry", "--json", "--count", "1", "--interval", "0.1", "--record", path).objects
    assert "(nvmlInit)" in line["problem"]
    assert (line["driver"], line["gpus"]) == (None, [])
    assert json.loads(path.read_text().splitlines()[0])["gpus"] is None
    replayed = cpugpu.here("telemetry", "--replay", path, "--interval", "0").out
    words(re.sub(r"\d{4}-\S+ [\d:]+|[\d.]+ s\b", "N", replayed.splitlines()[0]))


def test_a_driver_that_wakes_late_tells_its_version_late(fake_nvml):
    fake_nvml.use()
    fake_nvml.set("hang:nvmlInitWithFlags", 1)
    versions = Versions()
    assert versions.known(0.05) == (None, None)
    fake_nvml.unset("hang:nvmlInitWithFlags")
    driver, nvml = versions.known(20)
    assert driver is not None
    assert nvml is not None
    assert versions.known() == (driver, nvml), "and it is asked no more"


def test_without_a_gpu_the_host_is_read_the_cause_is_said_and_it_is_no_error(cpugpu, library, words):
    library.init_code = 9
    done = cpugpu.here("telemetry", "--count", "1")
    assert (done.code, done.err) == (EXIT_OK, "")
    assert "host" in done.out
    (line,) = cpugpu.here("telemetry", "--count", "1", "--json").objects
    assert line["gpus"] == []
    words(line["problem"])
    assert line["problem"] in done.out
    assert line["host"]["memory_total_bytes"]["value"] > 0


BAD_OPTIONS = {
    "no number": ("--interval", "nan"),
    "for ever": ("--interval", "inf"),
    "replay and record": ("--replay", FAKE_TRACE, "--record", "x"),
    "replay and simulate": ("--replay", FAKE_TRACE, "--simulate", "default"),
    "record to nothing": ("--record", ""),
    "replay of nothing": ("--replay", ""),
}


@pytest.mark.parametrize("options", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_wrong_options_are_one_line_and_with_json_an_object(cpugpu, options, words):
    done = cpugpu.here("telemetry", *options)
    assert (done.code, done.out) == (EXIT_USAGE, "")
    words(done.err)
    line_of = cpugpu.here("telemetry", "--json", *options)
    (line,) = line_of.objects
    assert (line_of.code, line["event"], line["exit_code"]) == (EXIT_USAGE, "Error", EXIT_USAGE)
    assert f"{line['message']} {line['remedy']}" in done.err
    assert line["remedy"]


def test_a_variable_in_the_way_is_named_and_no_device_is_to_be_removed(cpugpu):
    done = cpugpu("telemetry", "--replay", FAKE_TRACE, CPUGPU_SIMULATE="default")
    assert "unset CPUGPU_SIMULATE" in done.err
    assert "delete" not in cpugpu.here("telemetry", "--record", "/dev/full").err


# ------------------------------------------------------------------ record and replay


def test_what_was_recorded_is_replayed_under_a_tag(cpugpu, library, tmp_path):
    path = tmp_path / "a.ndjson"
    live = cpugpu.here("telemetry", "--record", path, "--count", "3", "--interval", "0.1", "--json").objects
    assert load(path).header.source == "live"
    replayed = cpugpu.here("telemetry", "--replay", path, "--interval", "0", "--json").objects
    assert [line["tag"] for line in replayed] == ["REPLAY"] * 3
    assert [line["trace"] for line in replayed] == ["a.ndjson"] * 3
    for before, after in zip(live, replayed, strict=True):
        assert after["wall_ns"] == before["wall_ns"]
        assert after["gpus"][0]["readings"]["power_mw"]["value"] == before["gpus"][0]["readings"]["power_mw"]["value"]
    table = cpugpu.here("telemetry", "--replay", path, "--interval", "0", "--count", "2").out
    assert len(re.findall(r"\d host", table)) == 2
    assert all(line.startswith("REPLAY ") for line in table.splitlines() if re.match(r"\S", line))


def test_a_fake_or_made_up_machine_is_called_that_in_its_replay_too(cpugpu, tmp_path):
    assert "REPLAY FAKE" in cpugpu.here("telemetry", "--replay", FAKE_TRACE, "--interval", "0").out
    path = tmp_path / "s.ndjson"
    assert cpugpu.here(*SIMULATED, "--count", "1", "--record", path).code == EXIT_OK
    (line,) = cpugpu.here("telemetry", "--replay", path, "--json").objects
    assert (line["tag"], line["source"]) == ("REPLAY SIMULATED", "simulated")
