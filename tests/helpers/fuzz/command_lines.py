"""Hostile command lines: every command with invalid options and values, each in a separate process.

No traceback, no undocumented exit code and no run beyond a time limit. All runs are simulated.
"""

import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 60.0
"""Time limit of one command line, seconds: the longest intended waits are below 20 s, and the machine may be busy."""

CODES = frozenset({0, 1, 2, 3, 4, 129, 130, 143})
FAST = "default,cpu_overhead_ns=200000,launch_ns=200000,first_call_ns=0"

RUN = (
    "--size", "--dtype", "--threads", "--variant", "--device", "--rounds", "--repeat", "--max-seconds", "--max-size",
    "--case-timeout", "--cache", "--scale", "--mnist", "--worker", "--export", "--db", "--simulate", "--workloads",
    "--tensorboard", "--python",
)  # fmt: skip
FLEET = (
    "-H", "-w", "--launcher", "--python", "--size", "--device", "--rounds", "--start-timeout", "--at-once", "--mnist",
    "--export", "--db", "--simulate", "--max-seconds", "--variant",
)  # fmt: skip
GATE = ("--baseline", "--max-slowdown", "--repeat", "--new", "--junit", "--summary", "--db", "--python")

COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("run", "matmul", "--size", "16", "--simulate", FAST): RUN,
    ("run", "--simulate", FAST, "--size", "16"): ("", *RUN),
    ("run", "--resume"): ("", "--db", "--export", "--python", "--workloads"),
    ("list",): ("--workloads", "--python"),
    ("devices", "--simulate", "default"): ("--simulate", "--python"),
    ("machine", "--simulate", "default"): ("--simulate", "--device", "--db", "--python"),
    ("claims",): ("--db", "--simulate"),
    ("telemetry", "--count", "1", "--simulate", "default"): ("--interval", "--count", "--record", "--simulate"),
    ("telemetry", "--count", "1", "--interval", "0"): ("--replay",),
    ("demo", "--table"): ("", "--pace", "--theme"),
    ("doctor", "--simulate", "default"): ("--db", "--python", "--simulate", "--max-seconds"),
    ("history",): ("--filter", "--tag", "--limit", "--db"),
    ("history", "prune"): ("--keep", "--older-than", "--db"),
    ("history", "merge"): ("", "--db"),
    ("show",): ("", "--db"),
    ("rm",): ("", "--db"),
    ("tag", "1"): ("", "--db"),
    ("tag",): ("",),
    ("compare", "1"): ("", "--db"),
    ("compare",): ("",),
    ("baseline",): ("", "--db"),
    ("baseline", "main"): ("", "--db"),
    ("gate", "--new", "1", "--baseline", "1"): GATE,
    ("gate", "matmul", "--simulate", FAST, "--repeat", "4"): ("", *GATE),
    ("export",): ("", "--format", "--out", "--db"),
    ("export", "--format", "csv"): ("--out",),
    ("export", "--format", "tensorboard"): ("--out",),
    ("import",): ("", "--db"),
    ("config", "show"): ("",),
    ("config", "themes"): ("",),
    ("new-workload",): ("",),
    ("new-workload", "mine"): ("--out",),
    ("fleet", "hosts"): ("-H", "-w", "--launcher", "--python"),
    ("fleet", "run", "matmul", "--size", "16", "-w", "n1", "--launcher", "local", "--simulate", FAST): FLEET,
    ("fleet", "gate", "-w", "n1", "--launcher", "local", "--simulate", FAST): ("", *GATE),
    ("--simulate", FAST): ("--theme", "--worker", "--db", "--replay", "--python", "--workloads"),
    (): ("", "--version", "--help", "--nosuch"),
}
"""Command → options that may follow with a hostile value; an empty option is an argument."""

VALUES: tuple[bytes, ...] = (
    b"", b" ", b"x" * 130_000, b"1," * 60_000, b"a " * 60_000, b"0" * 130_000, b"\xff", b"a\xff\xfe/b",
    b"\x01\x02\x7f\x1b[31m\r\n\t", b"\x1b]0;title\x07", b"%s%n{}{0}", b"'; --", b"$(true)", b"a=b", b"--", b"-",
    b"-1", b"-0", b"0", b"1", b"1e400", b"-1e400", b"nan", b"inf", b"1e308", b"9" * 400, b"0x10", b"1_0",
    "\u0663\u0664".encode(), "\u00b2".encode(), "\uff11".encode(), "\u202e\u200b".encode(),
    b"folder", b"pipe", b"pipe.json", b"text", b"deep.json", b"deep.toml", b"noise.gz", b"full.csv", b"loop",
    b"loop/x.json", b"/dev/zero", b"/dev/full", b"/dev/null", b"missing", b"no/such/place", b"../..", b".", b"/", b"~",
    b"~nobody-here/x",
    b"1:10:0", b"1:1e12", b"n[1-99999999]", b"n[", b"latest",
)  # fmt: skip

STREAMS = ("<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", "</dev/zero")

CONFIGS = (
    "x = " + "[" * 3000, 'theme = "\\u0000"', 'mnist = "\\u0000"', 'workloads = ["\\u0000"]', 'database = "\\u0000"',
    'python = "\\u0000"', "device = [1]", "[presets.a]", "[keys]\nrun = 1", "\x00", "x",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """A command line and its surroundings."""

    arguments: tuple[bytes, ...]
    streams: str = ""
    config: str = ""
    is_gone: bool = False
    """Whether the current folder is deleted before the start."""

    def __str__(self) -> str:
        words = " ".join(shlex.quote(os.fsdecode(each[:80])) for each in self.arguments)
        around = f" config {self.config[:20]!r}" if self.config else ""
        return ascii(f"{words} {self.streams}{around}{' in a deleted folder' if self.is_gone else ''}")


def drawn(draw: random.Random, command: tuple[str, ...], option: str) -> Trial:
    """Return a command with an option, whose value and surroundings are random."""
    words = [*(word.encode() for word in command), *([option.encode()] if option else []), draw.choice(VALUES)]
    if draw.random() < 0.2:
        words += [b"--json"]
    config = draw.choice(CONFIGS) if draw.random() < 0.1 else ""
    streams = draw.choice(STREAMS) if draw.random() < 0.4 else ""
    return Trial(tuple(words), streams, config, is_gone=draw.random() < 0.03)


def try_one(draw: random.Random, folder: Path) -> str:
    """Run a random command line below a folder with a history; return its fault with the line, or an empty text."""
    command = draw.choice(list(COMMANDS))
    trial = drawn(draw, command, draw.choice(COMMANDS[command]))
    fault = attempt(trial, folder)
    return f"{trial}: {fault}" if fault else ""


def furnish(folder: Path) -> None:
    """Create the files that the values name, and a history with a run."""
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.json")
    (folder / "loop").symlink_to("loop")
    (folder / "full.csv").symlink_to("/dev/full")
    (folder / "text").write_text("Dear diary,\n" * 100)
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "deep.toml").write_text("x = " + "[" * 3000)
    (folder / "noise.gz").write_bytes(b"\x1f\x8b" + random.Random(1).randbytes(10_000))


def environment(home: Path) -> dict[str, str]:
    """Return environment variables that place all files of a command in `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CPUGPU_", "XDG_", "PYTHON"))}
    folders = {name: str(home) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TMPDIR")}
    return {**kept, **folders, "CPUGPU_DB": str(home / "history.db"), "CPUGPU_SIMULATE": "default", "COLUMNS": "80"}


def attempt(trial: Trial, folder: Path) -> str:
    """Run one command line in a new folder below `folder`; return its failure, or an empty text."""
    home = Path(tempfile.mkdtemp(dir=folder))
    furnish(home)
    (home / "history.db").write_bytes((folder / "history.db").read_bytes())
    if trial.config:
        (home / "cpugpu-tui").mkdir()
        (home / "cpugpu-tui" / "config.toml").write_text(trial.config)
    current = home
    if trial.is_gone:
        current = home / "gone"
        current.mkdir()
    leave = 'rmdir "$PWD"; ' if trial.is_gone else ""
    # `ulimit` keeps a command line from filling the disk. The shell only redirects.
    line = f'{leave}ulimit -f 200000; exec "$0" -m cpugpu_tui "$@" {trial.streams}'
    process = subprocess.Popen(
        [b"sh", b"-c", line.encode(), sys.executable.encode(), *trial.arguments], cwd=current, env=environment(home),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"still running after {LIMIT_S:.0f} s"
    return fault(process.returncode, out, err, has_stderr="2>" not in trial.streams)


def fault(code: int, out: bytes, err: bytes, *, has_stderr: bool) -> str:
    """Return what is wrong with the end of a command, or an empty text."""
    if b"Traceback" in err or b"Traceback (most" in out:
        return f"a traceback: {err.decode(errors='replace').strip().splitlines()[-1][:200]}"
    if code not in CODES:
        return f"exit code {code}: {err.decode(errors='replace')[-200:]}"
    if code == 2 and has_stderr and not err.strip():
        return "exit code 2 without a message"
    if b"\x1b]0;" in out + err:
        return "an escape sequence reached the terminal"
    if len(err) > 20_000:
        return f"{len(err):,} bytes of error output"
    return ""
