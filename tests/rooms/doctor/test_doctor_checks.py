"""Findings of `doctor` for machines given as facts: driver, torch, GPUs, host, history, terminal."""

from dataclasses import replace
from pathlib import Path

from tests.helpers.golden import assert_golden, paragraphs
from tests.helpers.runs.checked_machine import HELLO, gpu, machine, no_driver

from cpugpu_tui.doctor.collect import CHECKS, Check, examine
from cpugpu_tui.doctor.facts import AgentFacts, ClockSetting, DriverFacts, Facts, HistoryFacts, HostSetup, OwnRun, ok
from cpugpu_tui.model import Device, GpuProcess, MigInstance
from cpugpu_tui.render.capabilities import capabilities

HEALTHY = machine()


def with_agent(**environment):
    """A machine whose agent reports this, and the devices of the healthy one."""
    return machine(agent=replace(HEALTHY.agent, environment={**HELLO, **environment}))


def without_devices(torch_cuda):
    no_gpu = "CUDA finds no usable GPU. See nvidia-smi."
    return machine(agent=AgentFacts({**HELLO, "torch_cuda": torch_cuda}, devices=(), no_gpu=no_gpu))


def unread(index, problem):
    """A GPU that does not answer, so that only its number is known."""
    return replace(gpu(index, f"GPU-{index}"), name=f"GPU {index}", problem=problem)


def with_clock(set_mhz):
    setup = replace(HEALTHY.driver.setup, clocks=(ClockSetting(0, set_mhz, 1980, 1980),))
    return machine(driver=replace(HEALTHY.driver, setup=setup))


def with_host(**changes):
    return machine(host=replace(HEALTHY.host, **changes))


def header(version, application_id=7):
    return b"SQLite format 3\0".ljust(60, b"\0") + version.to_bytes(4, "big") + bytes(4) + application_id.to_bytes(4)


def with_file(**changes):
    """A machine with a database of the newest version."""
    usual = HistoryFacts(Path("/x.db"), header=header(2), exists=True, size_bytes=4096, writable=True, known_version=2,
                         application_id=7, free_bytes=10**11)  # fmt: skip
    return machine(history=replace(usual, **changes))


LOST = replace(gpu(1, "GPU-1"), problem="Lost: it is. Reboot.")
TURNED = replace(machine(gpu(0, "GPU-a"), gpu(1, "GPU-b")), agent=AgentFacts(
    HELLO, devices=(Device("cuda:0", "NVIDIA H200", "GPU-b"), Device("cuda:1", "NVIDIA H200", "MIG-x"))))  # fmt: skip
SLICED = replace(gpu(0, "GPU-a"), instances=(MigInstance(3, "MIG-x", "1g.18gb", {}),))
NO_GPU = no_driver(12, "No driver. Ignore it.", has_hardware=False)
STRANGERS = (GpuProcess(12, 3 << 30, "ada", "train.py", own=False), GpuProcess(99999, None, None, None, own=False),
             GpuProcess(5, None, "me", "python", own=True))  # fmt: skip
MIXED = machine(gpu(0), replace(gpu(1, "GPU-1"), name="NVIDIA T4"))
READ_ONLY = "Read-only file system"
WRONG = machine(
    replace(gpu(ecc_uncorrected_count=2), persistence=False, throttle=("app-clocks",), processes=None),
    host=HostSetup("riscv64", quota_cores=0.5, physical_cores=4, threads=1, governor="powersave"),
    own_runs=(OwnRun(7, "ada", "cpugpu-tui run"),),
    environ={"CUDA_VISIBLE_DEVICES": "9", "CUDA_DEVICE_ORDER": "SLOWEST", "SSH_TTY": "/dev/pts/1"},
    history=HistoryFacts(free_bytes=0, network=True),
    terminal=capabilities({"TERM": "xterm"}, "ascii", True, (40, 10)),
)  # fmt: skip

MACHINES: dict[str, Facts] = {
    "everything is wrong": WRONG,
    # sections that are missing
    "a driver that hangs": machine(driver=DriverFacts(), faults={"driver": "It hangs."}),
    "no agent": machine(agent=AgentFacts(problem="It died.", remedy="Look.")),
    # driver and torch
    "no GPU, no driver": NO_GPU,
    "no GPU, no driver, torch without CUDA":
        replace(NO_GPU, agent=replace(NO_GPU.agent, environment={**HELLO, "torch_cuda": None})),
    "a GPU without a driver": no_driver(12, "The cause is this. Do that, or that."),
    "a driver that is not loaded": no_driver(9, "The cause is this. Do that, or that."),
    "a lost GPU": machine(gpu(), LOST),
    "a lost GPU beside one with errors": machine(gpu(ecc_corrected_count=3), LOST),
    "two GPUs, each with its own cause": machine(unread(0, "Lost. Reboot."), unread(1, "Denied. Ask.")),
    "two GPUs of the same cause": machine(unread(0, "Lost. Reboot."), unread(1, "Lost. Reboot.")),
    "an unknown name is no other kind": machine(gpu(), unread(1, "Denied. Ask.")),
    **{f"torch for CUDA {built}{'' if seen else ', no devices'}":
       with_agent(torch_cuda=built) if seen else without_devices(built)
       for built, seen in (("12.8", True), ("13.1", True), ("13.1", False), ("14.0", False), ("14.0", True),
                           (None, False))},
    "torch that cannot be imported": machine(agent=AgentFacts({**HELLO, "torch": None, "torch_error": "OSError: 13"})),
    "devices in another order, one unknown": TURNED,
    "the unknown device is a slice":
        replace(TURNED, driver=replace(TURNED.driver, gpus=(SLICED, gpu(1, "GPU-b")))),
    "GPUs that torch cannot use": machine(
        agent=AgentFacts(HELLO, devices=(Device("cpu", "a CPU"),), no_gpu="No GPU. Ask nvidia-smi.")),
    # GPUs
    "a slow link of an idle GPU": machine(gpu(pcie_generation=1)),
    "a slow link under load": machine(gpu(pcie_generation=1, kernel_active_pct=100)),
    **{f"a narrow link, {active} active": machine(gpu(pcie_width=1, kernel_active_pct=active))
       for active in (0, 100, "mig")},
    "memory errors that are not counted": machine(gpu(ecc_uncorrected_count="not-supported")),
    "nothing may be read": machine(replace(gpu(pcie_width="no-permission"), persistence=None, processes=None)),
    "other people": machine(replace(gpu(), processes=STRANGERS)),
    "a lowered clock": with_clock(1200),
    "a clock at its default": with_clock(1980),
    "a clock that cannot be set": with_clock(None),
    "a clock that is fixed": machine(replace(gpu(), throttle=("app-clocks",))),
    "MIG mode": machine(gpu(kernel_active_pct="mig")),
    "a corrected memory error": machine(gpu(ecc_corrected_count=1)),
    "an uncorrected memory error": machine(gpu(ecc_uncorrected_count=1)),
    # which GPUs CUDA sees
    **{f"CUDA_VISIBLE_DEVICES={text}": machine(environ={"CUDA_VISIBLE_DEVICES": text})
       for text in ("", "-1", "NoDevFiles", "0", "0,5", "5")},
    "a slice that is visible": machine(SLICED, environ={"CUDA_VISIBLE_DEVICES": "MIG-x"}),
    "a slice that is not there": machine(SLICED, environ={"CUDA_VISIBLE_DEVICES": "MIG-y"}),
    **{f"two models, CUDA_DEVICE_ORDER={order}": replace(MIXED, environ={"CUDA_DEVICE_ORDER": order} if order else {})
       for order in ("", "FASTEST_FIRST", "PCI_BUS_ID", "pci")},
    "one model, CUDA_DEVICE_ORDER=FASTEST_FIRST": machine(environ={"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}),
    # host, history, terminal
    "a quota of all cores": with_host(quota_cores=16.0),
    "a quota below the cores": with_host(quota_cores=2.5),
    "inherited variables": with_agent(inherited={"OMP_NUM_THREADS": "1"}),
    "powersave that keeps clocks low": with_host(governor="powersave", frequency_driver="acpi-cpufreq"),
    "powersave that follows the load": with_host(governor="powersave", frequency_driver="intel_pstate"),
    "a database": with_file(),
    "a newer database": with_file(header=header(3)),
    "another program's database": with_file(header=header(2, 8)),
    "no database": with_file(header=b"%PDF-1.7".ljust(100)),
    "an unwritable database": with_file(writable=False),
    "a database on a read-only disk": with_file(writable=False, why_not=READ_ONLY),
    "a database to come": with_file(exists=False),
    "a database that cannot come": with_file(exists=False, writable=False),
    "a refused path": with_file(refusal=("The folder is not there.", "Make it.")),
    "a disk that is nearly full": with_file(free_bytes=50 << 20),
    "a full disk": with_file(free_bytes=1 << 20),
    "unknown free space": with_file(free_bytes=None),
    "over ssh": machine(environ={"SSH_CONNECTION": "1 2"}),
    "over ssh in tmux": machine(environ={"SSH_CONNECTION": "1 2", "TMUX": "/x"}),
    "in screen": machine(environ={"STY": "1"}),
    "no terminal": machine(terminal=capabilities({}, "ascii", False, (80, 24))),
}  # fmt: skip


def report(finding):
    return f"{finding.verdict} {finding.check}: {finding.found}\n  {finding.cause}\n  {finding.remedy}".rstrip()


def test_what_is_said_of_each_machine():
    """All findings of a healthy machine, then those of others that differ from it."""
    healthy = examine(HEALTHY)
    told = {"a healthy machine": "\n".join(map(report, healthy))}
    for name, facts in MACHINES.items():
        told[name] = "\n".join(report(each) for each in examine(facts) if each not in healthy)
    assert_golden("frames/doctor", paragraphs(told))


def test_a_healthy_machine_has_nothing_to_know_about_and_what_is_wrong_has_a_cause_and_a_remedy():
    findings = examine(HEALTHY)
    assert {finding.verdict for finding in findings} == {"ok"}
    assert [finding.check for finding in findings] == [check.name for check in CHECKS]
    assert all(finding.found and not finding.cause and not finding.remedy for finding in findings)
    wrong = [each for facts in MACHINES.values() for each in examine(facts) if each.verdict in ("warn", "fail")]
    assert all(finding.cause.endswith(".") and finding.remedy for finding in wrong)


def test_a_driver_that_hangs_is_said_once_and_nothing_is_called_fine_that_was_not_asked():
    findings = examine(MACHINES["a driver that hangs"])
    about = [f for f in findings if f.check.startswith(("driver", "gpu.", "cuda.")) or f.check == "torch.build"]
    assert [finding.cause for finding in about if finding.verdict == "fail"] == ["It hangs."]
    assert {finding.verdict for finding in about[1:]} == {"unknown"}


def test_a_check_that_crashes_is_a_line_and_the_others_stand():
    def crash(facts):
        raise ZeroDivisionError("a pity")

    checks = (Check("mine", ("host",), crash), Check("yours", ("host",), lambda facts: ok("fine")))
    broken, whole = examine(HEALTHY, checks)
    assert (broken.verdict, broken.check) == ("fail", "mine")
    assert "ZeroDivisionError: a pity" in broken.cause
    assert whole.verdict == "ok"
