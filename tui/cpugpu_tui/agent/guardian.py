"""A tiny process beside the agent, which ends what the agent started when the agent or its controller is gone.

The agent cannot do that itself: it may be stopped (SIGSTOP), killed, or stuck in native code. The guardian is forked
before torch and threads exist, lives in a process group of its own, and holds nothing open but the end of stdin that
it watches. A process that calls `setsid` leaves the agent's group, and is the one that it cannot reach.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

NAME = "cpugpu-guardian"
"""What `ps` shows; 15 letters are all that the kernel keeps."""

GRACE_MS = 500
"""How long an agent may take to end by itself once its controller is gone."""

LOOK_MS = 500
"""Between two looks for the agent's end where the kernel (before 5.3) has no descriptor for it."""


def guard() -> None:
    """Fork the guardian of this process, which becomes the leader of a process group if it is none yet."""
    if os.isatty(0):
        return  # a terminal ends its processes itself, and a new group could not read from it
    if os.getpgrp() != os.getpid():
        # The launcher's shell has to live on: it tells the exit code of the agent.
        os.setpgid(0, 0)
    agent_pid = os.getpid()
    try:
        child = os.fork()
    except OSError as error:  # a limit on processes: the agent works without one, too
        print(f"No guardian: {error.strerror}.", file=sys.stderr)
        return
    if child:
        return
    try:
        _watch(agent_pid)
    finally:
        os._exit(0)


def exit_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None where the kernel (before 5.3) has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


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
    changes.register(0, select.POLLRDHUP)  # and POLLHUP, always: nothing of what the agent is to read is taken
    if exited is not None:
        changes.register(exited, select.POLLIN)
    while os.getppid() == agent_pid:
        seen = [descriptor for descriptor, _ in changes.poll(None if exited is not None else LOOK_MS)]
        if seen == [0]:
            ends.poll(GRACE_MS)  # an agent that is able to ends by itself
        if seen:
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(agent_pid, signal.SIGKILL)


def _let_go() -> None:
    """Close what the agent has open but stdin: who waits for the end of its output must not wait for us."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    # Not up to the limit of descriptors: in a container that may be a billion.
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(descriptor)
