"""A secret planted in any text of any event is in no anonymous export, whatever its format."""

import json
from dataclasses import replace

import pytest
from tests.helpers.runs import export_runs

from cpugpu_tui import model
from cpugpu_tui.config.validation import convert
from cpugpu_tui.export.anonymize import anonymized
from cpugpu_tui.export.formats import rendered
from cpugpu_tui.export.stream import KEPT, exported
from cpugpu_tui.export.tensorboard import write_tensorboard
from cpugpu_tui.model.event import to_plain

SECRETS = {
    "a path with blanks": "cannot open /srv/aurora/my thesis/plan b.csv for you",
    "an e-mail": "ask zoe@castle-lab.example please",
    "another host": "db7.castle-lab.example",
    "an IPv4 address": "10.211.55.17",
    "an IPv6 address": "fe80::5054:ff:fe12:3456",
    "a MAC address": "52:54:00:12:34:56",
    "a token": "ghp_a1B2c3D4e5F6g7H8i9J0",
    "a password": "password=correct-horse",
    "a command line": "mysql --password correct-horse --host 10.211.55.17 < /srv/aurora/x.sql",
    "an escape": "\x1b]0;/srv/aurora\x07 zoe@castle-lab.example",
}
PIECES = ("aurora", "thesis", "plan b", "zoe", "castle-lab", "10.211.55.17", "fe80", "52:54:00", "ghp_a1B2", "horse")

NAMES = ("case", "workload", "variant", "dtype", "name", "device", "devices", "metrics", "run_id", "kind", "status",
         "edge", "scope")  # fmt: skip
"""Fields that structure a report, and so cannot all hold the same text."""


def full_stream():
    """A run with an event of every kind that is kept, and a text in every field that takes one."""
    started, found, *_rest, last_case, finished = export_runs.stream()
    assert isinstance(found, object)
    assert isinstance(last_case, model.CaseFailed)
    assert isinstance(finished, model.RunFinished)
    key = started.plan.cases[0].key
    readings = {"power_mw": model.Reading(None, "text")}
    process = model.GpuProcess(7, 1, "who", "what", own=False, readings=readings)
    slices = (model.MigInstance(0, "MIG-text", "text", readings, (process,)),)
    gpu = model.GpuTelemetry(0, export_runs.UUID, "text", "text", readings, ("text",), (process,), "text", slices)
    ceilings = model.Ceilings("cuda:0", "text", export_runs.UUID, "text", "text", 5, 1, {}, {}, 1e12, 1, 5e3)
    plan = replace(started.plan, mnist="text", ceilings=(ceilings,), own_files=(model.OwnFile("text", "text"),))
    facts = ("cpu", "kernel", "python", "version", "worker", "face", "driver", "torch", "torch_error", "torch_git",
             "torch_cuda", "matmul_precision", "python_option", "cuda_visible_devices", "fleet", "fleet_host",
             "launcher", "interpreter", "hostname", "unheard_of")  # fmt: skip
    environment = {**dict.fromkeys(facts, "text"), "argv": ["text"], "inherited": {"KMP_AFFINITY": "text"},
                   "new": [{"deep": "text"}]}  # fmt: skip
    timed = [event for event in _rest if getattr(event, "case", "") == key]
    inside: list[model.Event] = [
        *timed[:-1],
        model.EarlierTimed(case=key, device="cpu", starts=({"latency": 1.0},)),
        model.TensorsPlaced(case=key, device="cpu", inputs=("text",), results=("text",)),
        model.CodeTraced(case=key, device="cpu", operators=1, on_cpu=("text",), not_compared="text"),
        model.CodeCompiled(case=key, device="cpu", elapsed_ns=1.0, variant="text"),
        model.EpochFinished(case=key, device="cpu", epoch=1, epochs=1, loss=1.0, accuracy=None, elapsed_ns=1.0,
            steps=1),
        model.MachineRead(case=key, device="cuda:0", edge="begin", readings=readings, processes=(process,)),
        model.EnergyMeasured(case=key, device="cpu", reason="text"),
        model.CaseFinished(case=key, check=model.Check("text", 0.0, 1.0)),
        model.LinesProfiled(case=key, device="cpu", lines=(model.LineCost("text", 1, "text", "operators", 1.0),),
                      profiled_ns=1.0, unprofiled_ns=1.0),
        model.KernelsProfiled(case=key, device="cuda:0", count=1, elapsed_ns=1.0),
        model.CeilingsMeasured(ceilings=ceilings),
        model.ClockChecked(device="cuda:0", clock=model.EventClock("text", None, uuid="text", driver="text",
            torch="text",
                                                       boot_id="text")),
        model.CasesChosen(cases=(replace(started.plan.cases[0], size=17),)),
        model.PeerMeasured(source=model.Device("cuda:0", "text", "text"), target=model.Device("cuda:1", "text", "text"),
                     has_access=None, problem="text"),
        model.TelemetryRead(gpus=(gpu,), host={"cpu_pct": model.Reading(None, "text")}, problem="text"),
    ]  # fmt: skip
    stream: list[model.Event] = [
        replace(started, plan=plan, environment=environment), replace(found, no_gpu="text"), *inside,  # type: ignore[call-arg]
        replace(last_case, message="text", remedy="text"), replace(finished, message="text", remedy="text"),
    ]  # fmt: skip
    return [replace(event, seq=seq, wall_ns=10**18 + seq, mono_ns=seq) for seq, event in enumerate(stream, 1)]


def planted(value, secret, is_wanted, key=""):
    """Return plain data with the secret in place of each text of a wanted field."""
    if isinstance(value, dict):
        return {name: planted(item, secret, is_wanted, name) for name, item in value.items()}
    if isinstance(value, list):
        return [planted(item, secret, is_wanted, key) for item in value]
    return secret if isinstance(value, str) and is_wanted(key) else value


def run_with(secret, is_wanted):
    events = [convert(planted(to_plain(event), secret, is_wanted), type(event)) for event in full_stream()]
    return exported(events)


def leaks(text):
    return [piece for piece in PIECES if piece.lower() in text.lower()]


def files_of(run, folder):
    """Yield the run in every format, names of files included."""
    pytest.importorskip("matplotlib")
    for name in ("json", "ndjson", "csv", "markdown", "html"):
        yield b"".join(rendered(name, [run])).decode()
    write_tensorboard([run], folder)
    for path in folder.rglob("*"):
        yield str(path.relative_to(folder))
        if path.is_file():
            yield path.read_bytes().decode("latin-1")


def test_every_kept_event_is_planted():
    assert {type(event) for event in full_stream()} == set(KEPT)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=list(SECRETS))
def test_a_secret_in_every_text_is_in_no_format(tmp_path, secret):
    open_run = run_with(secret, lambda key: key not in NAMES)
    assert leaks(b"".join(rendered("json", [open_run])).decode())
    (covered,) = anonymized([open_run])
    found = [leaks(text) for text in files_of(covered, tmp_path)]
    assert not any(found)
    assert export_runs.half_rounds(covered) == export_runs.half_rounds(open_run), "the numbers stay"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("secret", [text for kind, text in SECRETS.items() if kind != "another host"])
def test_a_secret_in_the_place_of_a_name_is_left_out(secret, name):
    (covered,) = anonymized([run_with(secret, lambda key: key == name)])
    assert not leaks(json.dumps([to_plain(event) for event in covered.events]))


def test_messages_give_way_to_the_kind_of_failure_unless_they_are_asked_for():
    told = "TypeError: /srv/aurora on 10.211.55.17"
    run = run_with(told, lambda key: key in ("message", "remedy", "problem", "no_gpu", "torch_error"))
    (covered,) = anonymized([run])
    (failed,) = (event for event in covered.events if isinstance(event, model.CaseFailed))
    assert (failed.message, failed.remedy) == (failed.kind, "")
    assert covered.started.environment["torch_error"] == "TypeError"
    (kept,) = anonymized([run], messages=True)
    (failed,) = (event for event in kept.events if isinstance(event, model.CaseFailed))
    assert failed.message == "TypeError: <path> on <left out>"
