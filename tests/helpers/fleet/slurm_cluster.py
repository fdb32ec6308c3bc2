"""A Slurm of one test: a controller, three virtual nodes, and six GPUs that are device files of nothing."""

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from tests.helpers.command_line import until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "scontrol", "scancel")
NODES, GPUS_EACH = ("cpugpu-n1", "cpugpu-n2", "cpugpu-n3"), 2


def why_not() -> str:
    """Return why it cannot be started; empty if it can."""
    if os.geteuid() != 0:
        return "Slurm's daemons and device files need root"
    missing = [name for name in PROGRAMS if program(name) is None]
    return f"not installed: {', '.join(missing)} (Debian: slurm-wlm, munge)" if missing else ""


def program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def configure(folder: Path) -> None:
    """Write Slurm's configuration: GPUs are found in the file alone, and CPUs as many as it says."""
    controller, *ports = free_ports(1 + len(NODES))
    lines = f"""
ClusterName=cpugpu
SlurmctldHost={socket.gethostname()}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
ReturnToService=2
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
""".splitlines()
    gres = ["AutoDetect=off"]
    for node, port in zip(NODES, ports, strict=True):
        lines.append(
            f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=2 "
            f"Gres=gpu:{GPUS_EACH} State=UNKNOWN"
        )
        gres.append(f"NodeName={node} Name=gpu File={folder}/{node}-gpu[0-{GPUS_EACH - 1}]")
        for index in range(GPUS_EACH):
            os.mknod(folder / f"{node}-gpu{index}", 0o600 | 0o020000, os.makedev(1, 3))
    lines.append(f"PartitionName=all Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP")
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    (folder / "gres.conf").write_text("\n".join(gres) + "\n")
    (folder / "cgroup.conf").write_text("")
    (folder / "state").mkdir()


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start it and yield the variables by which Slurm's commands find it; all of it is gone at the end.

    Raises:
        AssertionError: it does not start.
    """
    folder.chmod(0o755)  # munged refuses a folder that others may write to
    configure(folder)
    environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf"}
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        path = program(name)
        log = (folder / f"{name}.out").open("ab")
        started.append(subprocess.Popen([path, *arguments], env=environment, stdout=log, stderr=log, stdin=-3))
        log.close()

    try:
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}",
              f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed",
              "--num-threads=2")  # fmt: skip
        until(lambda: (folder / "munge.socket").exists())
        start("slurmctld", "-D", "-f", f"{folder}/slurm.conf")
        for node in NODES:
            start("slurmd", "-D", "-N", node, "-f", f"{folder}/slurm.conf")
        until(lambda: idle(environment) == len(NODES))
        yield {"SLURM_CONF": environment["SLURM_CONF"]}
    finally:
        for each in reversed(started):
            each.terminate()
        end_steps(environment["SLURM_CONF"])
        for each in started:
            with suppress(subprocess.TimeoutExpired):
                each.wait(5)
            each.kill()
            each.wait()


def end_steps(configuration: str) -> None:
    """End the daemons of steps and their clients: they wait for a controller that is gone."""
    sought = f"SLURM_CONF={configuration}\0".encode()
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            # Not `environ()`: they write their title over its beginning, and psutil reads no further.
            if (
                each.name().startswith(("slurmstepd", "srun"))
                and sought in Path(f"/proc/{each.pid}/environ").read_bytes()
            ):
                each.kill()


def idle(environment: dict[str, str]) -> int:
    told = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %t"], env=environment, capture_output=True, text=True)
    return sum(line.split()[-1:] == ["idle"] for line in told.stdout.splitlines())
