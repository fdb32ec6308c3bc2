"""Each way in which a host fails, with its sentence and remedy."""

import pytest

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.transport.agent_command import (
    AUTH,
    CRASHED,
    NO_PYTHON,
    TIMEOUT,
    UNREACHABLE,
    VERSION,
    Progress,
    classify_host_failure,
    no_program,
)
from cpugpu_tui.transport.agent_output import AgentExited
from cpugpu_tui.transport.launchers import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_OLD, EXIT_PRE, SSH_FAILED

SSH, SRUN, BOX = Host("gpu1"), Host("gpu1", "srun"), Host("gpu1", "docker", ("docker", "exec", "{host}"))
NOT_REACHED, REACHED, READY = Progress(False, False), Progress(True, False), Progress(True, True)

FAILURES = {
    "late": (SSH, AgentExited(-9), Progress(True, False, is_late=True), TIMEOUT),
    "connection lost": (SSH, AgentExited(SSH_FAILED, ("client_loop: send disconnect",)), READY, UNREACHABLE),
    "host key": (SSH, AgentExited(SSH_FAILED, ("Host key verification failed.",)), NOT_REACHED, AUTH),
    "login": (SSH, AgentExited(SSH_FAILED, ("me@gpu1: Permission denied (publickey).",)), NOT_REACHED, AUTH),
    "no such name": (SSH, AgentExited(SSH_FAILED, ("Could not resolve hostname gpu1",)), NOT_REACHED, UNREACHABLE),
    "Slurm refuses": (SRUN, AgentExited(1, ("srun: error: Invalid node name specified",)), NOT_REACHED, UNREACHABLE),
    "node lost": (SRUN, AgentExited(1, ("srun: error: Node failure on gpu1",)), READY, UNREACHABLE),
    "launcher": (BOX, AgentExited(125, ("no such container",)), NOT_REACHED, UNREACHABLE),
    "pre": (SSH, AgentExited(EXIT_PRE, ("module: not found",)), REACHED, CRASHED),
    "old Python": (SSH, AgentExited(EXIT_OLD, ("Python 3.8",)), REACHED, VERSION),
    "no Python": (SSH, AgentExited(EXIT_NOT_FOUND, ("sh: python3: not found",)), REACHED, NO_PYTHON),
    "no program": (SSH, AgentExited(EXIT_NOT_EXECUTABLE), REACHED, NO_PYTHON),
    "interpreter": (SSH, AgentExited(-4, ("Illegal instruction",)), REACHED, CRASHED),
}


@pytest.mark.parametrize(("host", "gone", "progress", "kind"), FAILURES.values(), ids=FAILURES)
def test_a_failure_has_a_kind_a_sentence_and_a_remedy(host, gone, progress, kind, words):
    error = classify_host_failure(host, gone, progress, 120.0)
    assert error.kind == kind
    words((error.message, error.remedy))


def test_an_agent_that_dies_at_work_is_no_failure_of_its_host():
    assert classify_host_failure(SSH, AgentExited(-11), READY, 120.0) is None


def test_a_launcher_that_is_not_installed_is_named(words):
    words(str(no_program("srun", FileNotFoundError(2, "No such file or directory"))))
