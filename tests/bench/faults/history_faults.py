"""Runs whose history is locked, full, read-only, deleted, damaged or replaced: nothing may be lost silently.

Each trial is a simulated run of some seconds in its own process. Afterwards every case that was shown must be in the
history, unless exit code and stderr report the loss. The database must be sound, and `show` must work for each of its
runs. BENCH_SEED repeats the times of an earlier bench. Each fault is tried once before any is repeated; no trial starts
after BENCH_SECONDS. Mounts need root.
"""

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.helpers.bench.history_attempt import CASES, RUN, Attempt, FaultError, fill, judge, locked, small_disk
from tests.helpers.bench.large_history import CASES as CASES_A_RUN
from tests.helpers.bench.large_history import make_history
from tests.helpers.bench.ratios import cap_seconds, table

from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_UNFIT
from cpugpu_tui.store import Store

AT_ONCE = 3
TERMINATED = 128 + signal.SIGTERM
GONE_WITHIN_S = 4.0
"""Longest time to end after SIGTERM: 2 s on an idle machine, but with load 12 on two cores it took up to 2.4 s."""

# ------------------------------------------------------------------ faults: each returns the exit codes that are right

OK, UNSAVED = {EXIT_OK}, {EXIT_UNFIT}


def locked_in_mid_run(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    with locked(attempt.database):
        attempt.pause(1, 9)
    return OK


def locked_again_and_again(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.cases(1)
    while attempt.process.poll() is None and len(attempt.shown) < CASES:
        with locked(attempt.database):
            attempt.pause(0.05, 1)
        attempt.pause(0, 0.5)
    return OK


def locked_from_the_start(attempt: Attempt) -> set[int]:
    Store.open(attempt.database).close()
    with locked(attempt.database):
        attempt.start()
        attempt.pause(1, 9)
    return OK


def locked_beyond_the_end(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    with locked(attempt.database):
        attempt.end()
    return UNSAVED


def locked_for_30_s(attempt: Attempt) -> set[int]:
    attempt.words = (*RUN, "--repeat", "9")
    attempt.start()
    attempt.middle()
    with locked(attempt.database):
        time.sleep(30)
    return OK


def locked_and_stopped(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    with locked(attempt.database):
        attempt.process.send_signal(signal.SIGINT)
        attempt.end()
    return {EXIT_INTERRUPTED}


def locked_and_terminated(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    with locked(attempt.database):
        attempt.pause(0, 1)
        attempt.process.terminate()
        began = time.monotonic()
        attempt.end()
        if time.monotonic() - began > GONE_WITHIN_S:
            raise FaultError(f"SIGTERM took {time.monotonic() - began:.1f} s")
    return {TERMINATED}


def two_runs_and_a_lock(attempt: Attempt) -> set[int]:
    with tempfile.TemporaryDirectory() as folder:
        other = Attempt(Path(folder), attempt.moments)
        other.database = attempt.database
        other.start()
        attempt.start()
        attempt.middle()
        with locked(attempt.database):
            attempt.pause(1, 5)
        code = other.end()
        attempt.end()
        attempt.shown += other.shown
        if code != EXIT_OK:
            raise FaultError(f"the other run exited {code}: {other.err}")
    return OK


def fleet_and_a_lock(attempt: Attempt) -> set[int]:
    attempt.words = ("fleet", "run", "matmul", "-w", "n[1-3]", "--launcher", "local", *RUN[2:])
    attempt.start()
    attempt.cases(3)
    with locked(attempt.database):
        attempt.pause(1, 5)
    return OK


def disk_full_for_good(attempt: Attempt) -> set[int]:
    with small_disk(attempt) as disk:
        attempt.start()
        attempt.middle()
        fill(disk)
        attempt.end()
        (disk / "ballast").unlink()
    return UNSAVED


def disk_full_for_a_while(attempt: Attempt) -> set[int]:
    with small_disk(attempt) as disk:
        attempt.start()
        attempt.cases(1)
        fill(disk)
        attempt.pause(0.2, 1)
        (disk / "ballast").unlink()
        attempt.end()
    return OK


def disk_full_from_the_start(attempt: Attempt) -> set[int]:
    with small_disk(attempt) as disk:
        fill(disk)
        attempt.start()
        is_freed = attempt.moments.random() < 0.5
        attempt.cases(2)
        if is_freed:
            (disk / "ballast").unlink()
        attempt.end()
    return OK if is_freed else UNSAVED


def file_size_limited(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.cases(1)
    hard = resource.prlimit(attempt.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(attempt.process.pid, resource.RLIMIT_FSIZE, (4096, hard))
    attempt.pause(0.3, 1)
    is_lifted = attempt.moments.random() < 0.5
    if is_lifted:
        resource.prlimit(attempt.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    return OK if is_lifted else UNSAVED


def folder_missing(attempt: Attempt) -> set[int]:
    attempt.database = attempt.folder / "later" / "results.db"
    attempt.start()
    comes = attempt.moments.random() < 0.5
    attempt.cases(2)
    if comes:
        attempt.database.parent.mkdir()
    return OK if comes else UNSAVED


def folder_in_place_of_the_journal(attempt: Attempt) -> set[int]:
    blocker = attempt.database.with_name("results.db-wal")
    (blocker / "x").mkdir(parents=True)
    attempt.start()
    goes = attempt.moments.random() < 0.5
    attempt.cases(2)
    if goes:
        shutil.rmtree(blocker)
        return OK
    attempt.end()
    shutil.rmtree(blocker)
    return UNSAVED


def disk_read_only_at_the_start(attempt: Attempt) -> set[int]:
    with small_disk(attempt) as disk:
        if attempt.moments.random() < 0.5:
            make_history(attempt.database, 3)
            attempt.earlier = 3 * CASES_A_RUN
        remount = ["mount", "-o", "remount,ro", str(disk)]
        subprocess.run(remount, check=True)
        attempt.start()
        attempt.cases(2)
        becomes_writable = attempt.moments.random() < 0.5
        if becomes_writable:
            subprocess.run([*remount[:2], "remount,rw", str(disk)], check=True)
        attempt.end()
        subprocess.run([*remount[:2], "remount,rw", str(disk)], check=True)
    return OK if becomes_writable else UNSAVED


def deleted(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    for path in attempt.files():
        path.unlink()
    return OK


def partly_deleted(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    attempt.moments.choice(attempt.files()).unlink()
    return OK


def moved(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    attempt.database.rename(attempt.folder / "kept.db")
    return OK


def page_damaged(attempt: Attempt) -> set[int]:
    """Overwrite a random page with noise; whether the run reads it depends on chance."""
    make_history(attempt.database, 40)
    attempt.is_sound = False
    attempt.start()
    attempt.middle()
    pages = attempt.database.stat().st_size // 4096
    with attempt.database.open("r+b") as file:
        file.seek(4096 * attempt.moments.randrange(1, pages))
        file.write(attempt.moments.randbytes(4096))
    return OK | UNSAVED


def replaced_by_garbage(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    garbage = attempt.folder / "garbage"
    garbage.write_bytes(attempt.moments.randbytes(20_000))
    attempt.is_sound = False
    garbage.replace(attempt.database)
    return UNSAVED


def replaced_by_garbage_at_the_default_place(attempt: Attempt) -> set[int]:
    attempt.environment = {"CPUGPU_DB": "", "XDG_DATA_HOME": str(attempt.folder)}
    attempt.database = attempt.folder / "cpugpu-tui" / "results.db"
    attempt.start()
    attempt.middle()
    garbage = attempt.folder / "garbage"
    garbage.write_bytes(attempt.moments.randbytes(20_000))
    garbage.replace(attempt.database)
    return OK


def overwritten_in_place(attempt: Attempt) -> set[int]:
    attempt.start()
    attempt.middle()
    attempt.is_sound = False
    with attempt.database.open("r+b") as file:
        file.write(attempt.moments.randbytes(os.path.getsize(attempt.database)))
    return OK | UNSAVED


FAULTS: dict[Callable[[Attempt], set[int]], int] = {
    locked_in_mid_run: 12, locked_again_and_again: 8, locked_from_the_start: 6, locked_beyond_the_end: 4,
    locked_for_30_s: 2, locked_and_stopped: 6, locked_and_terminated: 8, two_runs_and_a_lock: 4, fleet_and_a_lock: 4,
    disk_full_for_good: 5, disk_full_for_a_while: 6, disk_full_from_the_start: 6, file_size_limited: 8,
    folder_missing: 6, folder_in_place_of_the_journal: 4, disk_read_only_at_the_start: 6, deleted: 8,
    partly_deleted: 9, moved: 4,
    page_damaged: 8, replaced_by_garbage: 4, replaced_by_garbage_at_the_default_place: 4, overwritten_in_place: 4,
}  # fmt: skip
"""Fault → number of trials."""


def main() -> None:
    """Print the number of passed and failed trials of each fault; exit 1 after a failure."""
    seed = int(os.environ.get("BENCH_SEED", random.SystemRandom().randrange(10**6)))
    wanted = {fault: count for fault, count in FAULTS.items() if os.environ.get("BENCH_FAULT", "") in fault.__name__}
    rounds = range(max(wanted.values(), default=0))
    tries = [
        (fault, f"{seed}/{fault.__name__}/{index}") for index in rounds for fault in wanted if index < wanted[fault]
    ]
    end_s = time.monotonic() + cap_seconds(float("inf"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        whys = pool.map(lambda each: outcome(*each) if time.monotonic() < end_s else None, tries)
        found = [(each, why) for each, why in zip(tries, whys, strict=True) if why is not None]
    rows = []
    for fault in wanted:
        came_to = [bool(why) for (each, _), why in found if each is fault]
        numbers = (len(came_to), len(came_to) - sum(came_to), sum(came_to))
        rows.append((fault.__name__.replace("_", " "), *map(str, numbers)))
    failures = [(name, why) for (_, name), why in found if why]
    total = ("all", str(len(found)), str(len(found) - len(failures)), str(len(failures)))
    table(f"seed {seed}", ("fault of the history", "tried", "as designed", "failed"), [*rows, total])
    for name, why in failures:
        print(f"\n{name}: {why}")
    sys.exit(bool(failures))


def outcome(fault: Callable[[Attempt], set[int]], name: str) -> str:
    """Run one trial of a fault; return its failure, or an empty text."""
    with tempfile.TemporaryDirectory() as folder:
        attempt = Attempt(Path(folder), random.Random(name))
        try:
            judge(attempt, fault(attempt), attempt.end())
        except (FaultError, OSError, sqlite3.Error, subprocess.CalledProcessError) as error:
            if hasattr(attempt, "process"):
                attempt.process.kill()
            return f"{error!r}\n{attempt.err}"
    return ""
