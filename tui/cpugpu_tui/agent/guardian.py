"""A tiny process that kills the agent's process group when the agent or its controller is gone.

The agent cannot do that itself: it may be suspended (SIGSTOP), killed, or stuck in native code. The guardian is forked
before torch and threads exist. It has a process group of its own, and keeps only stdin open, to watch its end. Of the
processes that left the agent's group with `setsid` it reaches only those of a timed command.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

from cpugpu_tui.machine.processes import SCRATCH, exit_descriptor, kill_marked

NAME = "cpugpu-guardian"
"""Name that `ps` shows; the kernel stores at most 15 characters."""

GRACE_MS = 500
"""How long an agent may take to exit by itself once its controller is gone."""

LOOK_MS = 500
"""Polling interval for the agent's end on kernels before 5.3, which have no pidfd."""


def guard() -> None:
    """Fork the guardian of this process; make this process the leader of a process group if it is not."""
    if os.isatty(0):
        return  # a terminal ends its processes itself, and a new group could not read from it
    if os.getpgrp() != os.getpid():
        # Do not kill the launcher's shell: it reports the exit code of the agent.
        os.setpgid(0, 0)
    agent_pid = os.getpid()
    try:
        child = os.fork()
    except OSError as error:  # a limit on processes: the agent works without a guardian too
        print(f"Cannot start the guardian process: {error.strerror}.", file=sys.stderr)
        return
    if child:
        return
    try:
        _watch(agent_pid)
    finally:
        os._exit(0)


def _watch(agent_pid: int) -> None:
    """Wait for the end of the agent or of its controller, then kill the agent's process group."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(NAME)
    _let_go()
    exited = exit_descriptor(agent_pid)
    ends = select.poll()
    if exited is not None:
        ends.register(exited, select.POLLIN)
    changes = select.poll()
    changes.register(0, select.POLLRDHUP)  # POLLHUP is implied; the agent's input is not read
    if exited is not None:
        changes.register(exited, select.POLLIN)
    while os.getppid() == agent_pid:
        seen = [descriptor for descriptor, _ in changes.poll(None if exited is not None else LOOK_MS)]
        if seen == [0]:
            ends.poll(GRACE_MS)  # a working agent exits by itself
        if seen:
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(agent_pid, signal.SIGKILL)
    kill_marked(agent_pid)
    _remove_scratch(agent_pid)


def _remove_scratch(agent_pid: int) -> None:
    """Remove what a killed agent has left of its compiler's files."""
    import glob
    import shutil
    import tempfile

    for folder in glob.glob(f"{glob.escape(tempfile.gettempdir())}/{SCRATCH}{agent_pid}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _let_go() -> None:
    """Close all descriptors except stdin, so that readers of the agent's output do not wait for the guardian."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    # Close only open ones: in a container the limit of descriptors may be a billion.
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(descriptor)
