"""Findings of `doctor` for machines given as facts: driver, torch, GPUs, host, history, terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.golden import GoldenWords
from tests.helpers.runs.checked_machine import HELLO, gpu, machine, no_driver, said

from cpugpu_tui.doctor.check_registry import CHECKS, Check, examine
from cpugpu_tui.doctor.facts import (
    AgentFacts,
    ClockSetting,
    DriverFacts,
    Facts,
    Finding,
    HistoryFacts,
    HostSetup,
    OwnRun,
    ok,
)
from cpugpu_tui.model import Device, GpuProcess, GpuTelemetry, MigInstance
from cpugpu_tui.render.capabilities import capabilities


def report(finding: Finding) -> str:
    return f"{finding.verdict} {finding.check}: {finding.found}\n  {finding.cause}\n  {finding.remedy}".rstrip()


def test_a_healthy_machine_has_nothing_to_know_about(words: GoldenWords) -> None:
    findings = examine(machine())
    assert {finding.verdict for finding in findings} == {"ok"}
    assert [finding.check for finding in findings] == [check.name for check in CHECKS]
    assert all(finding.found and not finding.cause and not finding.remedy for finding in findings)
    words([f"{finding.check}: {finding.found}" for finding in findings])


def test_whatever_is_wrong_has_a_cause_and_a_remedy(words: GoldenWords) -> None:
    wrong = machine(
        replace(gpu(ecc_uncorrected_count=2), persistence=False, throttle=("app-clocks",), processes=None),
        host=HostSetup("riscv64", quota_cores=0.5, physical_cores=4, threads=1, governor="powersave"),
        own_runs=(OwnRun(7, "ada", "cpugpu-tui run"),),
        environ={"CUDA_VISIBLE_DEVICES": "9", "CUDA_DEVICE_ORDER": "SLOWEST", "SSH_TTY": "/dev/pts/1"},
        history=HistoryFacts(free_bytes=0, network=True),
        terminal=capabilities({"TERM": "xterm"}, "ascii", True, (40, 10)),
    )
    findings = [finding for finding in examine(wrong) if finding.verdict not in ("ok", "unknown")]
    assert len(findings) == 15
    assert all(finding.cause.endswith(".") and finding.remedy for finding in findings)
    words([report(finding) for finding in findings])


# ------------------------------------------------------------------ a check or a section that breaks


def test_a_check_that_crashes_is_a_line_and_the_others_stand() -> None:
    def crash(facts: Facts) -> Finding:
        raise ZeroDivisionError("a pity")

    broken, whole = examine(
        machine(), (Check("mine", ("host",), crash), Check("yours", ("host",), lambda facts: ok("fine")))
    )
    assert (broken.verdict, broken.check) == ("fail", "mine")
    assert "ZeroDivisionError: a pity" in broken.cause
    assert whole.verdict == "ok"


def test_a_driver_that_hangs_is_said_once_and_nothing_is_called_fine_that_was_not_asked(words: GoldenWords) -> None:
    findings = examine(machine(driver=DriverFacts(), faults={"driver": "It hangs."}))
    about = [f for f in findings if f.check.startswith(("driver", "gpu.", "cuda.")) or f.check == "torch.build"]
    assert [finding.cause for finding in about if finding.verdict == "fail"] == ["It hangs."]
    assert {finding.verdict for finding in about[1:]} == {"unknown"}
    (found,) = {finding.found for finding in about[1:]}
    words([report(about[0]), found])


def test_a_gpu_of_which_the_driver_tells_nothing_is_not_called_absent() -> None:
    findings = {f.check: f for f in examine(no_driver(9, "It is not loaded. Load it.", has_hardware=True))}
    open_ones = ("driver.gpus", "torch.build", "cuda.devices", "gpu.persistence", "gpu.ecc", "gpu.processes")
    assert {findings[name].verdict for name in open_ones} == {"unknown"}
    absent = {f.check: f for f in examine(no_driver(12, "No driver. Ignore it.", has_hardware=False))}
    assert {absent[name].verdict for name in open_ones} == {"ok"}


def test_without_an_agent_nothing_of_torch_is_called_fine() -> None:
    findings = {f.check: f.verdict for f in examine(machine(agent=AgentFacts(problem="It died.", remedy="Look.")))}
    names = ("torch", "torch.build", "cuda.devices", "cpu.variables")
    assert [findings[name] for name in names] == ["fail", "unknown", "unknown", "unknown"]


# ------------------------------------------------------------------ driver and torch


@pytest.mark.parametrize(
    ("code", "has_hardware", "verdict"),
    [(12, False, "warn"), (12, True, "fail"), (9, True, "fail"), (18, True, "fail"), (4, True, "fail")],
)
def test_a_driver_that_is_not_there_is_no_failure_on_a_machine_without_a_gpu(
    code: int, has_hardware: bool, verdict: str
) -> None:
    finding = said(no_driver(code, "The cause is this. Do that, or that.", has_hardware), "driver")
    assert (finding.verdict, finding.cause) == (verdict, "The cause is this.")
    assert finding.remedy


def test_a_lost_gpu_fails_beside_a_healthy_one(words: GoldenWords) -> None:
    lost = replace(gpu(1, "GPU-1"), problem="Lost: it is. Reboot.")
    finding = said(machine(gpu(), lost), "driver.gpus")
    assert finding.verdict == "fail"
    words(finding.found)
    assert finding.remedy == "Reboot."
    ecc = said(machine(gpu(), lost), "gpu.ecc")
    assert ecc.verdict == "unknown"
    words(ecc.found)
    assert said(machine(gpu(ecc_corrected_count=3), lost), "gpu.ecc").verdict == "warn"


def test_each_gpu_that_does_not_answer_has_its_own_cause_and_its_number_once(words: GoldenWords) -> None:
    def unread(index: int, problem: str) -> GpuTelemetry:
        return replace(gpu(index, f"GPU-{index}"), name=f"GPU {index}", problem=problem)

    lost, denied = unread(0, "Lost. Reboot."), unread(1, "Denied. Ask.")
    finding = said(machine(lost, denied), "driver.gpus")
    words(report(finding))
    both = said(machine(lost, unread(1, "Lost. Reboot.")), "driver.gpus")
    assert (both.cause, both.remedy) == ("Lost.", "Reboot.")
    assert said(machine(gpu(), denied), "cuda.order").verdict == "ok", "a name that is not known is no other kind"


@pytest.mark.parametrize(
    ("built", "seen", "verdict"),
    [
        ("13.0", True, "ok"), ("12.8", True, "ok"), ("13.1", True, "warn"), ("13.1", False, "warn"),
        ("14.0", False, "fail"), ("14.0", True, "warn"), (None, False, "fail"),
    ],
)  # fmt: skip
def test_the_cuda_of_torch_must_fit_the_driver_unless_it_works_nevertheless(
    built: str | None, seen: bool, verdict: str
) -> None:
    devices = machine().agent.devices if seen else ()
    facts = machine(agent=AgentFacts({**HELLO, "torch_cuda": built}, devices=devices))
    assert said(facts, "torch.build").verdict == verdict


def test_a_torch_without_cuda_is_right_on_a_machine_without_a_gpu() -> None:
    facts = no_driver(12, "No driver. Ignore it.", has_hardware=False)
    facts = replace(facts, agent=replace(facts.agent, environment={**HELLO, "torch_cuda": None}))
    assert said(facts, "torch.build").verdict == "ok"
    assert said(facts, "cuda.devices").verdict == "ok"


def test_a_torch_that_cannot_be_imported_fails_once() -> None:
    facts = machine(agent=AgentFacts({**HELLO, "torch": None, "torch_error": "OSError: libcudart.so.13"}))
    failures = [finding for finding in examine(facts) if finding.verdict == "fail"]
    assert [finding.check for finding in failures] == ["torch"]
    assert "libcudart.so.13" in failures[0].cause


def test_devices_are_matched_by_uuid_not_by_number() -> None:
    turned = machine(gpu(0, "GPU-a"), gpu(1, "GPU-b"))
    devices = (Device("cuda:0", "NVIDIA H200", "GPU-b"), Device("cuda:1", "NVIDIA H200", "MIG-x"))
    turned = replace(turned, agent=AgentFacts(HELLO, devices=devices))
    finding = said(turned, "cuda.devices")
    assert "= NVML 1" in finding.found
    assert finding.verdict == "warn"
    assert "cuda:1" in finding.cause
    assert "cuda:0" not in finding.cause
    slices = (MigInstance(3, "MIG-x", "1g.18gb", {}),)
    cut = replace(turned.driver, gpus=(replace(gpu(0, "GPU-a"), instances=slices), gpu(1, "GPU-b")))
    assert "NVML 0, slice 3" in said(replace(turned, driver=cut), "cuda.devices").found


def test_gpus_that_torch_cannot_use_fail_with_its_own_sentence() -> None:
    agent = AgentFacts(HELLO, devices=(Device("cpu", "a CPU"),), no_gpu="No GPU. Ask nvidia-smi.")
    finding = said(machine(agent=agent), "cuda.devices")
    assert (finding.verdict, finding.cause) == ("fail", "No GPU.")


# ------------------------------------------------------------------ GPUs


def test_a_slow_pcie_link_is_judged_under_load_only_and_a_narrow_one_always(words: GoldenWords) -> None:
    idle = said(machine(gpu(pcie_generation=1)), "gpu.pcie")
    assert idle.verdict == "ok"
    words(idle.found)
    assert said(machine(gpu(pcie_generation=1, kernel_active_pct=100)), "gpu.pcie").verdict == "warn"
    for active_pct in (0, 100, "mig"):
        narrow = said(machine(gpu(pcie_width=1, kernel_active_pct=active_pct)), "gpu.pcie")
        assert narrow.verdict == "warn"
        assert "gen 5 x1," in narrow.found


def test_what_is_not_told_is_said_and_never_called_none_nor_ok(words: GoldenWords) -> None:
    finding = said(machine(gpu(ecc_uncorrected_count="not-supported", pcie_width="no-permission")), "gpu.ecc")
    words(finding.found)
    denied = machine(replace(gpu(pcie_width="no-permission"), persistence=None, processes=None))
    checks = ("gpu.pcie", "gpu.persistence", "gpu.processes")
    assert [said(denied, check).verdict for check in checks] == ["unknown"] * 3
    words([said(denied, check).found for check in checks])


def test_other_people_on_a_gpu_are_named_also_those_outside_of_the_namespace(words: GoldenWords) -> None:
    strangers = (
        GpuProcess(12, 3 << 30, "ada", "train.py", own=False),
        GpuProcess(99999, None, None, None, own=False),
        GpuProcess(5, None, "me", "python", own=True),
    )
    finding = said(machine(replace(gpu(), processes=strangers)), "gpu.processes")
    assert finding.verdict == "warn"
    words(finding.found)


def test_a_clock_that_somebody_lowered_is_found_and_a_free_one_is_not() -> None:
    def with_clock(set_mhz: int | None) -> Facts:
        setup = replace(machine().driver.setup, clocks=(ClockSetting(0, set_mhz, 1980, 1980),))
        return machine(driver=replace(machine().driver, setup=setup))

    assert "1200 MHz" in said(with_clock(1200), "gpu.clocks").found
    assert [said(with_clock(mhz), "gpu.clocks").verdict for mhz in (1200, 1980, None)] == ["warn", "ok", "ok"]
    assert said(machine(replace(gpu(), throttle=("app-clocks",))), "gpu.clocks").verdict == "warn"


def test_mig_and_memory_errors(words: GoldenWords) -> None:
    facts = (
        (gpu(kernel_active_pct="mig"), "gpu.mig"),
        (gpu(ecc_corrected_count=3), "gpu.ecc"),
        (gpu(ecc_uncorrected_count=1), "gpu.ecc"),
    )
    findings = [said(machine(row), check) for row, check in facts]
    assert [finding.verdict for finding in findings] == ["warn", "warn", "fail"]
    words([report(finding) for finding in findings])


# ------------------------------------------------------------------ host, history, terminal


@pytest.mark.parametrize(("quota", "verdict"), [(None, "ok"), (16.0, "ok"), (2.5, "warn")])
def test_a_quota_below_the_cores_is_said(quota: float | None, verdict: str) -> None:
    assert said(machine(host=replace(machine().host, quota_cores=quota)), "cpu.threads").verdict == verdict


def test_inherited_variables_come_with_the_command_that_leaves_them_out() -> None:
    finding = said(machine(agent=AgentFacts({**HELLO, "inherited": {"OMP_NUM_THREADS": "1"}})), "cpu.variables")
    assert (finding.verdict, finding.found) == ("warn", "OMP_NUM_THREADS=1")
    assert "env -u OMP_NUM_THREADS cpugpu-tui" in finding.remedy


@pytest.mark.parametrize(("driver", "verdict"), [("acpi-cpufreq", "warn"), ("intel_pstate", "ok")])
def test_powersave_is_slow_under_old_drivers_only(driver: str, verdict: str) -> None:
    host = replace(machine().host, governor="powersave", frequency_driver=driver)
    assert said(machine(host=host), "cpu.governor").verdict == verdict


def header(version: int, application_id: int = 7) -> bytes:
    return b"SQLite format 3\0".ljust(60, b"\0") + version.to_bytes(4, "big") + bytes(4) + application_id.to_bytes(4)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"header": header(2)}, "ok"),
        ({"header": header(3)}, "fail"),
        ({"header": header(2, 8)}, "fail"),
        ({"header": b"%PDF-1.7".ljust(100)}, "fail"),
        ({"header": header(2), "writable": False}, "fail"),
        ({"header": header(2), "writable": False, "why_not": "Read-only file system"}, "fail"),
        ({"exists": False}, "ok"),
        ({"exists": False, "writable": False}, "fail"),
        ({"refusal": ("The folder is not there.", "Make it.")}, "fail"),
    ],
    ids=("known", "newer", "foreign", "pdf", "unwritable", "read-only", "new", "new-unwritable", "refused"),
)
def test_the_database_is_judged_by_its_header(changes: dict[str, Any], verdict: str, words: GoldenWords) -> None:
    usual = HistoryFacts(Path("/x.db"), exists=True, size_bytes=4096, writable=True, known_version=2, application_id=7)
    finding = said(machine(history=replace(usual, **changes)), "history.file")
    assert finding.verdict == verdict
    words(report(finding))


@pytest.mark.parametrize(
    ("free_bytes", "verdict"), [(10**11, "ok"), (50 << 20, "warn"), (1 << 20, "fail"), (None, "unknown")]
)
def test_disk_space(free_bytes: int | None, verdict: str) -> None:
    assert said(machine(history=HistoryFacts(free_bytes=free_bytes)), "history.space").verdict == verdict


@pytest.mark.parametrize(
    ("environ", "verdict"),
    [
        ({}, "ok"),
        ({"SSH_CONNECTION": "1 2"}, "warn"),
        ({"SSH_CONNECTION": "1 2", "TMUX": "/x"}, "ok"),
        ({"STY": "1"}, "ok"),
    ],
    ids=("local", "ssh", "ssh-tmux", "local-screen"),
)
def test_a_session_over_ssh_should_outlive_its_line(environ: dict[str, str], verdict: str, words: GoldenWords) -> None:
    finding = said(machine(environ=environ), "terminal.session")
    assert finding.verdict == verdict
    words(report(finding))


def test_without_a_terminal_there_is_nothing_to_warn_of() -> None:
    nowhere = machine(terminal=capabilities({}, "ascii", False, (80, 24)))
    assert {f.verdict for f in examine(nowhere) if f.check.startswith("terminal")} == {"ok"}
