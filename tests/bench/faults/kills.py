"""Kill the app, a command or an agent at random times: no shown result may be lost, and no process may stay.

BENCH_SEED sets the times; the default is random. BENCH_KILLS is the number of kills (default: 180). A failure is
printed with the number of its kill, which has the same time with the same seed.
"""

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice, product
from pathlib import Path

from tests.helpers.app.pty_app import PtyApp
from tests.helpers.bench.ratios import table
from tests.helpers.command_line import COMMAND, CommandLine, agents_of, events_of, until

from cpugpu_tui.model import CaseFailed, CaseFinished

MACHINE = "pace=1,cpu_overhead_ns=200000,launch_ns=200000,first_call_ns=0,gpus={}"
APP_MACHINE = "pace=0.5,gpus={}"
TARGETS = ("app", "command", "agent")
KILLINGS = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGSTOP, SIGKILL")
AT_ONCE = 2
GONE_WITHIN_S = 2.0
"""Longest time to end on an idle machine; multiplied by the load per core."""
PATIENCE_S = 60.0
LATEST_S = {"app": 6.5, "command": 5.0, "agent": 2.0}
"""Latest time of a kill after the start of the run. Runs of a command and its agent take longer."""


@dataclass(frozen=True)
class Kill:
    """A target, and the way and time of killing it."""

    number: int
    target: str
    killing: str
    gpus: int
    is_suspended: bool
    """Whether it is suspended before, as by ctrl+z, and continued after the signal."""
    moment_s: float


@dataclass
class Outcome:
    """Result of one kill."""

    kill: Kill
    gone_s: float = 0.0
    shown: int = 0
    wrong: list[str] = field(default_factory=list)

    def expect(self, is_so: bool, what: str) -> None:
        """Record a failure unless `is_so`."""
        if not is_so:
            self.wrong.append(what)


def main() -> None:
    """Print a row per kind; exit 1 after a failure."""
    first = int(os.environ.get("BENCH_SEED", random.SystemRandom().randrange(10**6)))
    wanted = int(os.environ.get("BENCH_KILLS", 180))
    started_s = time.monotonic()
    outcomes = []
    with ProcessPoolExecutor(AT_ONCE) as hands:
        for each in hands.map(killed, kills(first, wanted)):
            outcomes.append(each)
            if each.wrong:
                print(f"\n{each.kill}: {' '.join(each.wrong)}", flush=True)
    header = ("killed", "by", "kills", "rows shown before", "time to end: median", "longest", "failed")
    seconds = time.monotonic() - started_s
    table(f"{wanted} kills, seed {first}, in {seconds:.0f} s", header, rows(outcomes))
    for name, chosen in (("suspended", lambda kill: kill.is_suspended), ("two GPUs", lambda kill: kill.gpus == 2)):
        print(f"{name}: {sum(chosen(each.kill) for each in outcomes)} of {wanted}")
    if any(each.wrong for each in outcomes):
        sys.exit(1)


def kills(seed: int, wanted: int) -> Iterator[Kill]:
    """Yield kills of all kinds in turn, at random times."""
    moments = random.Random(seed)
    kinds = list(product(TARGETS, KILLINGS, (1, 2), (False, True)))
    moments.shuffle(kinds)
    for number, (target, killing, gpus, is_suspended) in enumerate(islice(cycle(kinds), wanted)):
        yield Kill(number, target, killing, gpus, is_suspended, moments.uniform(0, LATEST_S[target]))


def rows(outcomes: Iterable[Outcome]) -> Iterator[tuple[str, ...]]:
    """Yield a row per target and way of killing it."""
    groups: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for each in outcomes:
        groups[each.kill.target, each.kill.killing].append(each)
    for (target, killing), some in sorted(groups.items()):
        times_s = sorted(each.gone_s for each in some)
        yield (
            target, killing, str(len(some)), str(sum(each.shown for each in some)),
            f"{times_s[len(times_s) // 2]:.2f} s", f"{times_s[-1]:.2f} s", str(sum(bool(each.wrong) for each in some)),
        )  # fmt: skip


def killed(kill: Kill) -> Outcome:
    """Carry out a kill, then check processes and history."""
    outcome = Outcome(kill)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        command = CommandLine(Path(folder) / "history.db")
        with suppress_and_note(outcome):
            (kill_app if kill.target == "app" else kill_command)(outcome, command)
            look_at_history(outcome, command)
        for pid in related(folder):
            os.kill(pid, signal.SIGKILL)
    return outcome


class suppress_and_note(suppress):
    """Turn any exception of a kill into its failure."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(Exception)
        self._outcome = outcome

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if isinstance(error, Exception):
            self._outcome.wrong.append(f"{type(error).__name__}: {str(error)[:2000]}.")
            return True
        return False


# ------------------------------------------------------------------ the targets


def kill_app(outcome: Outcome, command: CommandLine) -> None:
    """Start a run in the app, kill the app, and compare what the screen showed with the history."""
    kill = outcome.kill
    env = {"CPUGPU_DB": str(command.database), "CPUGPU_SIMULATE": APP_MACHINE.format(kill.gpus)}
    with PtyApp(COMMAND, rows=40, env={**env, "CPUGPU_DEVICE": " ".join(devices(kill.gpus))}) as app:
        app.until_text("Press r", PATIENCE_S)
        app.send("r")
        app.until(lambda app: re.search(r"\d+ of at most", app.text) is not None, PATIENCE_S)
        app.bytes_during(kill.moment_s)
        shown = settled_on(app)
        if kill.is_suspended:
            app.send("\x1a")
            app.until_stopped(PATIENCE_S)
        end(
            outcome,
            app.pid,
            command,
            stop=partial(os.kill, app.pid, signal.SIGSTOP),
            watch=lambda: app.bytes_during(0.01),
        )
        code = app.exit_code(PATIENCE_S)
    outcome.expect(code == expected_code(kill), f"Exit code {code}.")
    saved = saved_cases(command)
    outcome.shown = shown
    outcome.expect(len(saved) >= shown, f"{shown} cases were shown, but only {sorted(saved)} are saved.")


def settled_on(app: PtyApp) -> int:
    """Return the number of finished cases in the status line."""
    found = re.search(r"(\d+) (of at most|points)", app.text)
    return int(found[1]) if found else 0


def kill_command(outcome: Outcome, command: CommandLine) -> None:
    """Start a run, kill it or its agent, and compare what it printed with the history."""
    kill = outcome.kill
    is_agent = kill.target == "agent"
    words = ("run", "--json", "matmul", "--size", "64:76:1" if is_agent else "64:264:1", "--rounds", 1)
    words += tuple(word for name in devices(kill.gpus) for word in ("--device", name))
    log = command.database.with_name("stdout")
    with log.open("wb") as out:
        process = command.start(
            *words, "--simulate", MACHINE.format(kill.gpus), stdout=out.fileno(), stderr=subprocess.DEVNULL
        )
    with process:
        until(lambda: b"DevicesFound" in log.read_bytes())
        time.sleep(kill.moment_s)
        if is_agent:
            until(lambda: bool(agents_of(process)) or process.poll() is not None)
        target = agents_of(process)[0] if is_agent else process.pid
        if kill.is_suspended:
            os.kill(target, signal.SIGSTOP)
        end(outcome, target, command, partial(os.kill, target, signal.SIGSTOP))
        code = process.wait(PATIENCE_S)
    data = log.read_bytes()
    events = events_of(data[: data.rfind(b"\n") + 1])
    shown = {event.case for event in events if isinstance(event, CaseFinished)}
    outcome.shown = len(shown)
    lost = shown - saved_cases(command)
    outcome.expect(not lost, f"Shown but not saved: {sorted(lost)}.")
    if is_agent:
        failed = [event for event in events if isinstance(event, CaseFailed)]
        outcome.expect(len(failed) <= 1 and code == (3 if failed else 0), f"Exit code {code}, failed: {failed}.")
        outcome.expect(len(shown) + len(failed) == 12, f"{len(shown)} of 12 cases finished.")
    else:
        outcome.expect(code == expected_code(kill), f"Exit code {code}.")


def devices(gpus: int) -> list[str]:
    """Return the names of the CPU and so many GPUs."""
    return ["cpu", *(f"cuda:{index}" for index in range(gpus))]


def expected_code(kill: Kill) -> int:
    """Return the exit code of a killed process, as `subprocess` reports it."""
    return {"SIGTERM": 143, "SIGHUP": 129}.get(kill.killing, -signal.SIGKILL)


def end(
    outcome: Outcome, pid: int, command: CommandLine, stop: Callable[[], object],
    watch: Callable[[], object] = lambda: time.sleep(0.01),
) -> None:  # fmt: skip
    """Send the signals, and wait until all processes of the target have ended."""
    kill, folder = outcome.kill, str(command.database.parent)
    mine = {pid, *below(pid)} if kill.target == "agent" else None
    for name in kill.killing.split(", "):
        number = signal.Signals[name]
        if number == signal.SIGSTOP:
            stop()
        else:
            os.kill(pid, number)
    sent_s = time.monotonic()
    if kill.is_suspended:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    left: set[int] = set()
    while time.monotonic() - sent_s < PATIENCE_S:
        left = related(folder) if mine is None else related(folder) & mine
        if not left:
            break
        watch()
    outcome.gone_s = time.monotonic() - sent_s
    limit_s = GONE_WITHIN_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    outcome.expect(not left and outcome.gone_s <= limit_s, f"Processes after {outcome.gone_s:.2f} s: {left or 'none'}.")


# ------------------------------------------------------------------ checks


def related(folder: str) -> set[int]:
    """Return the processes with our folder in their environment, which are those of the target."""
    mark, found = os.fsencode(f"CPUGPU_DB={folder}/"), set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                if mark in Path(entry.path, "environ").read_bytes():
                    found.add(int(entry.name))
    return found


def below(pid: int) -> set[int]:
    """Return all descendants of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child) for child in children}.union(*(below(int(child)) for child in children))


def saved_cases(command: CommandLine) -> set[str]:
    """Return the finished cases in the history; empty without a saved run."""
    if not command.database.exists():
        return set()
    with command.store() as store:
        found = store.runs()
        return {e.case for run in found for e in store.load(run.run_id) if isinstance(e, CaseFinished)}


def look_at_history(outcome: Outcome, command: CommandLine) -> None:
    """Check the database file, and that `show` works for all its runs."""
    if not command.database.exists():
        return
    with closing(sqlite3.connect(command.database)) as connection:
        answer = connection.execute("PRAGMA integrity_check").fetchall()
    outcome.expect(answer == [("ok",)], f"Integrity check: {answer}.")
    for run in command.here("history", "--json").objects:
        shown = command.here("show", run["number"])
        outcome.expect(
            shown.code == 0 and bool(shown.out), f"show {run['number']}: exit code {shown.code}: {shown.err}"
        )


if __name__ == "__main__":
    main()
