"""`doctor` with a broken NVIDIA driver: always a failed check with cause and remedy, never a traceback."""

import subprocess
from collections.abc import Callable

import pytest
from tests.helpers.machine.nvml_library import FakeNvml

from cpugpu_tui.doctor.collect import examine
from cpugpu_tui.doctor.driver_child import Asked, ask_driver
from cpugpu_tui.doctor.facts import DriverFacts, Facts
from cpugpu_tui.errors import EXIT_CHECK_FAILED


def judged(asked):
    """Return the findings of the checks of driver and GPUs."""
    faults = {"driver": asked.fault} if asked.fault else {}
    findings = examine(Facts(driver=asked.facts or DriverFacts(), faults=faults))
    return {finding.check: finding for finding in findings if finding.check.startswith(("driver", "gpu."))}


def failed(found):
    return [finding for finding in found.values() if finding.verdict == "fail"]


CODES = [*range(1, 12), *range(13, 31), 77, 999, -3]
"""Return codes of NVML, and some that it does not have; 12 is that of a library that is not there."""


def test_each_code_of_a_driver_that_does_not_start_fails_with_a_remedy(fake_nvml, monkeypatch):
    from cpugpu_tui.doctor.driver_child import driver_facts

    fake_nvml.use()
    for code in CODES:
        fake_nvml.set("init", code)
        found = judged(Asked(driver_facts(())))
        assert [(each.check, bool(each.cause), bool(each.remedy)) for each in failed(found)] == [("driver", True, True)]


BREAKAGES: dict[str, Callable[[FakeNvml], None]] = {
    "the count fails": lambda fake: fake.fail("nvmlDeviceGetCount_v2", 999),
    "two billion GPUs": lambda fake: fake.set("count", 2_000_000_000),
    "no GPU has a handle": lambda fake: fake.fail("nvmlDeviceGetHandleByIndex_v2", 999),
    "a crash at the start": lambda fake: fake.set("crash:nvmlInitWithFlags", 1),
    "a crash of one call": lambda fake: fake.set("crash:nvmlDeviceGetClockInfo", 1, gpu=1),
    "a hang at the start": lambda fake: fake.set("hang:nvmlInitWithFlags", 1),
    "a hang of every GPU": lambda fake: fake.set("hang:nvmlDeviceGetName", 1),
    "a hang of one GPU": lambda fake: fake.set("hang:nvmlDeviceGetName", 1, gpu=1),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_driver_is_a_failed_check(fake_nvml, monkeypatch, breakage):
    fake_nvml.use()
    BREAKAGES[breakage](fake_nvml)
    asked = ask_driver((), 1.0)
    found = failed(judged(asked))
    assert [each.check for each in found] == ["driver.gpus" if asked.facts and asked.facts.gpus else "driver"]
    assert all(each.cause and each.remedy for each in found)
    assert asked.hangs == breakage.startswith("a hang")


@pytest.mark.parametrize("content", ["", "no library", "#include"])
def test_a_file_that_is_no_library_is_named(monkeypatch, tmp_path, content):
    (tmp_path / "libnvidia-ml.so.1").write_text(content)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (found,) = failed(judged(ask_driver((), 5.0)))
    assert str(tmp_path) in found.cause
    assert found.remedy


def test_a_library_without_any_function_fails(nvml_library, monkeypatch, tmp_path):
    (tmp_path / "empty.c").write_text("int nothing;\n")
    command = ["cc", "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", tmp_path / "empty.c"]
    subprocess.run(command, check=True, timeout=60)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (found,) = failed(judged(ask_driver((), 5.0)))
    assert found.cause
    assert found.remedy


def test_a_crash_of_the_drivers_library_takes_nothing_along(cpugpu, fake_nvml):
    fake_nvml.use()
    fake_nvml.set("crash:nvmlDeviceGetName", 1)
    done = cpugpu.here("doctor", "--json", code=EXIT_CHECK_FAILED)
    found = {each["check"]: each for each in done.objects}
    assert "SIGSEGV" in found["driver"]["cause"]
    assert found["torch"]["verdict"] == "ok"
    assert found["driver.gpus"]["verdict"] == "unknown", "nobody knows whether there is one"
