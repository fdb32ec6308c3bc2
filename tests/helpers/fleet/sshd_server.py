"""An sshd of one test, with keys of its own; in a network namespace if it is given one."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.helpers.command_line import PATIENCE_S

SSHD = "/usr/sbin/sshd"
READY_WITHIN_S = 10.0


def why_not() -> str:
    """Return why no server can be started; empty if one can."""
    if shutil.which("ssh") is None or not os.access(SSHD, os.X_OK):
        return "no OpenSSH server (Debian: openssh-server)"
    return "" if os.geteuid() == 0 else "sshd lets only root log in as whom it likes"


def key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=PATIENCE_S)
    return path


@dataclass(frozen=True)
class Server:
    address: str
    port: int
    pid: int
    folder: Path

    def options(self, identity: Path | None = None, *more: str) -> list[str]:
        """Return ssh options for an inventory, which ignore this machine's configuration."""
        return [
            "-F", "/dev/null", "-p", str(self.port), "-i", str(identity or self.folder / "id"),
            "-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={self.folder}/known",
            "-o", "StrictHostKeyChecking=yes", *more,
        ]  # fmt: skip

    def log(self) -> str:
        return (self.folder / "sshd.log").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(
    folder: Path, address: str = "127.0.0.1", before: Sequence[str] = (), banner: str = "", known: bool = True
) -> Iterator[Server]:
    """Serve this machine at an address; `before` is a command that goes first, like `ip netns exec NAME`."""
    folder.mkdir(exist_ok=True)
    key(folder / "host_key")
    identity = key(folder / "id")
    (folder / "authorized").write_text(identity.with_suffix(".pub").read_text())
    (folder / "banner").write_text(banner)
    port = free_port()
    kind, data = (folder / "host_key.pub").read_text().split()[:2]
    (folder / "known").write_text(f"[{address}]:{port} {kind} {data}\n" if known else "")
    settings = {
        "Port": port, "ListenAddress": address, "HostKey": folder / "host_key", "UsePAM": "no", "StrictModes": "no",
        "AuthorizedKeysFile": folder / "authorized", "PidFile": "none", "PermitRootLogin": "yes",
        "PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no",
        **({"Banner": folder / "banner"} if banner else {}),
    }  # fmt: skip
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd wants its emptiness to be
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([*before, SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
    try:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while "listening on" not in (folder / "sshd.log").read_text():
            assert process.poll() is None
            assert time.monotonic() < deadline_s
            time.sleep(0.02)  # it has no other way to say so
        yield Server(address, port, process.pid, folder)
    finally:
        with suppress(psutil.NoSuchProcess):
            sessions = psutil.Process(process.pid).children(recursive=True)
            for each in sessions:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        process.kill()
        process.wait()


def host_lines(name: str, options: Sequence[str]) -> str:
    """Return a host of an inventory."""
    return f'[[hosts]]\nhost = "{name}"\noptions = {list(options)!r}\n'
