"""`cpugpu-tui doctor` on the command line."""

import pytest
from tests.helpers.machine.fake_interpreters import with_torch

from cpugpu_tui.cli.doctor import INDENT, show
from cpugpu_tui.doctor import collect
from cpugpu_tui.doctor.collect import CHECKS
from cpugpu_tui.doctor.facts import Finding
from cpugpu_tui.errors import EXIT_CHECK_FAILED, EXIT_OK, EXIT_USAGE
from cpugpu_tui.transport import interpreter_search

SIMULATED = ("doctor", "--simulate", "default")
KEYS = ["check", "verdict", "found", "cause", "remedy"]


def test_every_check_has_its_line_and_the_last_line_counts_them(cpugpu):
    done = cpugpu.here(*SIMULATED, code=EXIT_OK)
    lines = done.out.splitlines()
    found = [line.split()[:2] for line in lines if line.startswith(("ok ", "warn ", "fail ", "? "))]
    assert [name for _, name in found] == [check.name for check in CHECKS]
    not_judged = sum(mark == "?" for mark, _ in found)
    assert not_judged > 0
    assert lines[-1].startswith(f"{sum(mark == 'ok' for mark, _ in found)} ok, ")
    assert lines[-1].endswith(f" 0 failed, {not_judged} not judged.")
    assert max(len(check.name) for check in CHECKS) < INDENT - 6
    assert not cpugpu.database.exists()


def test_json_has_one_object_a_check_with_stable_keys(cpugpu):
    done = cpugpu.here(*SIMULATED, "--json")
    assert [found["check"] for found in done.objects] == [check.name for check in CHECKS]
    assert all(list(found) == KEYS for found in done.objects)
    assert {found["verdict"] for found in done.objects} <= {"ok", "warn", "unknown"}


def test_a_made_up_gpu_does_not_stand_beside_the_driver_of_this_machine(cpugpu, library, words):
    out = cpugpu.here(*SIMULATED).out
    assert out.startswith("SIMULATED ")
    assert "H200" not in out
    assert library.calls == []
    found = {each["check"]: each for each in cpugpu.here(*SIMULATED, "--json").objects}
    assert found["driver"]["verdict"] == found["gpu.ecc"]["verdict"] == "unknown"
    words([found[check]["found"] for check in ("driver", "torch", "cuda.devices")])


def test_a_failed_check_is_exit_code_one(cpugpu, tmp_path):
    (tmp_path / "letter.txt").write_text("Dear database,\n" * 20)
    done = cpugpu.here(*SIMULATED, "--json", "--db", tmp_path / "letter.txt", code=EXIT_CHECK_FAILED)
    (failed,) = (found for found in done.objects if found["verdict"] == "fail")
    assert failed["check"] == "history.file"
    assert failed["cause"]
    assert failed["remedy"]


def test_an_interpreter_without_torch_fails_and_one_that_is_not_there_is_a_usage_error(cpugpu, bare_python):
    done = cpugpu.here("doctor", "--json", "--python", bare_python, code=EXIT_CHECK_FAILED)
    (failed,) = (found for found in done.objects if found["verdict"] == "fail")
    assert failed["check"] == "torch"
    assert "ModuleNotFoundError" in failed["cause"]
    verdicts = {found["check"]: found["verdict"] for found in done.objects}
    assert (verdicts["torch.build"], verdicts["cuda.devices"]) == ("unknown", "unknown")
    done = cpugpu.here("doctor", "--python", "/nowhere/python")
    assert (done.code, done.out) == (EXIT_USAGE, "")
    assert "/nowhere/python" in done.err


def test_an_interpreter_that_can_use_the_gpu_is_the_remedy_where_torch_cannot(
    cpugpu, bare_python, tmp_path, fake_nvml, monkeypatch, words
):
    """Beside a driver with two GPUs: for the CPU build of this environment, and for an interpreter without torch."""
    better = with_torch(tmp_path / "an env" / "python", "2.8.0+cu126")
    monkeypatch.setattr(interpreter_search, "interpreters", lambda *_: (better,))
    monkeypatch.setattr(interpreter_search, "LIMIT_S", 60.0)
    fake_nvml.use()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # also on a machine with a real GPU
    remedy = f"--python '{better}'"
    without_gpu = {each["check"]: each["remedy"] for each in cpugpu.here("doctor", "--json").objects}
    assert any(remedy in without_gpu[check] for check in ("torch.build", "cuda.devices"))
    without_torch = {
        each["check"]: each["remedy"] for each in cpugpu.here("doctor", "--json", "--python", bare_python).objects
    }
    assert remedy in without_torch["torch"]
    words(without_torch["torch"].replace(str(better), "PATH"))


def test_what_the_program_takes_is_measured_when_asked_for(cpugpu):
    done = cpugpu.here("doctor", "--simulate", "noise=0.002", "--telemetry-cost", "--json", code=EXIT_OK)
    measured = done.objects[len(CHECKS) :]
    assert [each["check"] for each in measured] == [
        "app.usage", "agent.usage", "terminal.bytes", "app.cost", "telemetry.usage", "telemetry.cost",
    ]  # fmt: skip
    verdicts = {each["check"]: each["verdict"] for each in measured}
    assert verdicts.pop("app.cost") == "unknown", "simulated times do not depend on the app"
    assert set(verdicts.values()) == {"ok"}
    assert all(list(each) == [*KEYS, "values"] for each in measured if each["verdict"] == "ok")
    assert "simulated GPU" in measured[-1]["found"]
    assert measured[-1]["values"]["rounds"] >= 8


def test_no_time_to_measure_is_said_with_the_option_that_gives_more(cpugpu):
    done = cpugpu.here(*SIMULATED, "--telemetry-cost", "--max-seconds", "1", "--json", code=EXIT_CHECK_FAILED)
    found = {each["check"]: each for each in done.objects}
    assert found["app.usage"]["verdict"] == "fail"
    assert "--max-seconds" in found["app.usage"]["remedy"]
    assert "--max-seconds" in found["telemetry.cost"]["remedy"]


def test_what_strangers_wrote_is_printed_without_its_escapes(capsys):
    finding = Finding("warn", "GPU 0: eve: \x1b]0;owned\x07\x1b[31mrm -rf [red]x\u202e (pid 1)", "A.", "B.", "gpu")
    for as_json in (False, True):
        show(finding, as_json=as_json)
        out = capsys.readouterr().out
        assert "eve: rm -rf [red]x (pid 1)" in out
        assert "\x1b" not in out
        assert "\u202e" not in out


@pytest.mark.slow
def test_one_gpu_that_hangs_is_named_and_the_others_are_judged(cpugpu, fake_nvml, monkeypatch, words):
    fake_nvml.use()
    fake_nvml.set("hang:nvmlDeviceGetPersistenceMode", 1, gpu=1)
    monkeypatch.setattr(collect, "DEADLINE_S", 1.0)
    found = {each["check"]: each for each in cpugpu.here("doctor", "--json").objects}
    assert found["driver"]["verdict"] == "ok"
    words([found["driver.gpus"]["found"], found["driver.gpus"]["cause"], found["gpu.ecc"]["found"]])
    assert found["gpu.ecc"]["verdict"] == found["cuda.devices"]["verdict"] == "unknown"


def test_a_place_where_no_file_can_be_made_is_found_though_root_may_write_there(cpugpu, words):
    found = {each["check"]: each for each in cpugpu.here(*SIMULATED, "--json", "--db", "/proc/x.db").objects}
    assert found["history.file"]["verdict"] == "fail"
    words([found["history.file"]["found"], found["history.file"]["cause"], found["history.file"]["remedy"]])
    assert found["history.space"]["verdict"] == "unknown", "it has no size, which is not 0.0 MB free"


def test_looking_at_the_history_leaves_its_folder_as_it_is(cpugpu, tmp_path):
    before = sorted(tmp_path.iterdir())
    cpugpu.here(*SIMULATED, "--db", tmp_path / "x.db")
    assert sorted(tmp_path.iterdir()) == before
