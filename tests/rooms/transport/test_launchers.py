"""Commands that start agents on other machines. Text from a person is never parsed as shell code."""

import os
import shutil
import subprocess
import sys

import pytest
from tests.helpers.command_line import PATIENCE_S
from tests.helpers.machine.fake_interpreters import interpreter

from cpugpu_tui.agent.main import EXIT_CONTROLLER_GONE
from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import UsageError
from cpugpu_tui.transport import launchers

NASTY = "a'b\"c $(touch {0}) `touch {0}` ; touch {0} \\ !! % é"


def test_ssh_asks_for_nothing_and_notices_a_dead_link():
    argv = launchers.launch_argv(Host("gpu1", options=("-p", "2222")), "true")
    assert argv[:3] == ["ssh", "-p", "2222"]  # the person's own options win: ssh takes the first of each
    assert "BatchMode=yes" in argv
    assert {"ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"} <= set(argv)
    assert argv[-3:] == ["--", "gpu1", "exec sh -c true"]


def test_slurm_gives_the_whole_node_and_no_buffer():
    argv = launchers.launch_argv(Host("n1", "srun", gpus=4, cpus=32, options=("--partition=gpu",)), "true")
    assert argv[0] == "srun"
    assert {"--exclusive", "--unbuffered", "--gres=gpu:4", "--nodelist=n1", "--partition=gpu"} <= set(argv)
    assert (argv[argv.index("-c") + 1], argv[-3:]) == ("32", ["sh", "-c", "true"])


def test_a_template_gets_the_command_at_its_end_or_as_one_word():
    docker = Host("box1", "docker", ("docker", "exec", "-i", "{host}"))
    assert launchers.launch_argv(docker, "x y") == ["docker", "exec", "-i", "box1", "sh", "-c", "x y"]
    rsh = Host("box1", "rsh", ("rsh", "{host}", "nice {command}"))
    assert launchers.launch_argv(rsh, "x y") == ["rsh", "box1", "nice sh -c 'x y'"]


@pytest.mark.parametrize("launcher", ["ssh", "srun", "local"])
def test_a_host_that_looks_like_an_option_starts_nothing(launcher):
    with pytest.raises(UsageError, match="-oProxyCommand"):
        launchers.launch_argv(Host("-oProxyCommand=touch x", launcher), "true")


def ran(line, data=b"", shell="sh", **env):
    return subprocess.run(
        [shell, "-c", line],
        input=data,
        capture_output=True,
        timeout=PATIENCE_S,
        env={"PATH": os.environ["PATH"], **env},
    )


def test_what_a_person_wrote_is_no_shell(tmp_path):
    """Interpreter, variables and arguments with special characters arrive unchanged."""
    trap = tmp_path / "trapped"
    nasty = NASTY.format(trap)
    python = interpreter(tmp_path / "py'th$on; x", 'printf "%s\\n" "$NASTY" "$@"')
    host = Host("h", python=python, env={"NASTY": nasty})
    done = ran(launchers.shell_line(host, (nasty,), 7))
    lines = done.stdout.decode().splitlines()[1:]
    assert (lines[0].encode(), lines[1], lines[2], lines[4:6]) == (launchers.REACHED, nasty, "-c", ["7", nasty])
    assert not trap.exists()


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish", "csh", "tcsh"])
def test_the_line_passes_through_login_shells(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    """Half a zip: the interpreter has begun to read, and ends with its controller."""
    host = Host("h", python=sys.executable, env={"A": "it's; $HOME"}, pre=("A=1",))
    argv, data = launchers.remote_start(host, ("--simulated",))
    done = ran(argv[-1], data[: len(data) // 2], shell=shell, HOME="/nowhere")
    assert (done.stdout.split()[0], done.returncode) == (launchers.REACHED, EXIT_CONTROLLER_GONE)
    assert b"Error" not in done.stderr


def test_the_persons_commands_come_first_and_eat_nothing_of_stdin(tmp_path):
    host = Host("h", python="cat", pre=("cat", "echo ready"))
    line = launchers.shell_line(host, (), 0)
    line = line[: line.index("; cat -c")] + "; cat; exit $?"
    done = ran(line, b"the zip")
    assert (done.stdout, done.stderr) == (b"\n" + launchers.REACHED + b"\nthe zip", b"ready\n")


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("pre", "code"),
    [
        (("A=1 # why", "test $A = 1"), 0),
        (("echo 'open",), launchers.EXIT_PRE),
        (("if true",), launchers.EXIT_PRE),
        (("}",), launchers.EXIT_PRE),
    ],
)
def test_a_command_of_the_person_reaches_into_nothing_else(shell, pre, code):
    """A comment ends with its command. A syntax error is a failure of the command, not of the connection."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = ran(launchers.shell_line(Host("h", python="true", pre=pre), (), 0), shell=shell)
    assert (done.stdout.split(), done.returncode) == ([launchers.REACHED], code)


def test_a_command_of_the_person_that_fails_is_told_from_all_else():
    assert ran(launchers.shell_line(Host("h", pre=("false",)), (), 0)).returncode == launchers.EXIT_PRE


def test_an_old_python_says_so(tmp_path):
    pretend = "import sys; sys.version_info = (3, 6, 8); exec(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", pretend, launchers.SOURCE], capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (launchers.EXIT_OLD, b"Python 3.6\n")


def test_the_lines_for_the_interpreter_pass_through_every_shell():
    assert not set('"!\\') & set(launchers.SOURCE)


def test_home_is_that_of_the_host(tmp_path):
    interpreter(tmp_path / "bin" / "python", "echo here")
    assert b"here" in ran(launchers.shell_line(Host("h", python="~/bin/python"), (), 0), HOME=str(tmp_path)).stdout


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:4", 4), ("gpu:a100:8(S:0-1)", 8), ("gpu:a100:2,gpu:h100:2", 4), ("(null)", 0), ("nvme:1", 0),
        ("gpu", 1), ("gpu:a100_3g.20gb:4(S:0),gpu:a100:3", 7),
    ],
)  # fmt: skip
def test_what_slurm_says_of_its_nodes_is_read(gres, gpus):
    text = f"n1 64 {gres}\nn1 64 {gres}\nnonsense\n"
    assert launchers.nodes_in(text) == {"n1": (64, gpus)}
