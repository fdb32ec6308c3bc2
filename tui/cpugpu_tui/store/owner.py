"""Who writes a run: the process that must be alive for the status `running` to be true."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """A process, told apart from a later one that was given the same pid (in containers: nearly every one)."""

    hostname: str
    pid: int
    boot_id: str
    """The kernel's random name for this boot; empty where unknown."""
    process_started_ticks: int
    """Start of the process in clock ticks since boot; 0 where unknown."""

    @classmethod
    def current(cls) -> Owner:
        """Return the owner that this process is."""
        return cls(socket.gethostname(), os.getpid(), _boot_id(), _started_ticks(os.getpid()))

    def is_gone(self) -> bool:
        """Return whether the process has certainly ended.

        False for another host's process, whose life cannot be seen from here: homes are shared on clusters.
        """
        if self.hostname != socket.gethostname():
            return False
        if self.boot_id != _boot_id():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # alive, another person's
        now = _started_ticks(self.pid)
        return bool(now and self.process_started_ticks) and now != self.process_started_ticks


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _started_ticks(pid: int) -> int:
    """Return field 22 of /proc/<pid>/stat (man 5 proc), 0 where it cannot be read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    # The command, field 2, may hold spaces and brackets: count from behind its last bracket.
    return int(stat[stat.rindex(b")") + 1 :].split()[19])
