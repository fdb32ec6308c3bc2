"""What disturbs the host is named: page faults of fresh memory, a busy neighbour core; a quiet host has no marks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cpugpu_tui.bench import host_watch
from cpugpu_tui.bench.host_watch import FOREIGN_WINDOW_S, HostWatch


class Host:
    """A made-up host of two cores: clock, faults, ticks of all, CPU time of ourselves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_s = 100.0
        self.faults = 0
        self.own_s = 0.0
        self.write(0)
        (root / "proc/self").mkdir(parents=True, exist_ok=True)
        (root / "proc/self/status").write_text("Cpus_allowed_list:\t0-1\n")

    def write(self, busy_ticks: int) -> None:
        """Core 1 has been busy for so many ticks; core 7 is not ours and always busy."""
        (self.root / "proc").mkdir(exist_ok=True)
        lines = ["cpu  9 0 0 9 0 0 0 0", "cpu0 0 0 0 900 0 0 0 0", f"cpu1 {busy_ticks} 0 0 900 0 0 0 0"]
        (self.root / "proc/stat").write_text("\n".join([*lines, f"cpu7 {busy_ticks + 99} 0 0 0 0 0 0 0"]) + "\n")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path)

    class Usage:
        @property
        def ru_minflt(self) -> int:
            return made.faults

    monkeypatch.setattr(host_watch, "perf_counter", lambda: made.now_s)
    monkeypatch.setattr(host_watch.resource, "getrusage", lambda who: Usage())
    monkeypatch.setattr(host_watch.os, "times", lambda: os.times_result((made.own_s, 0.0, 0.0, 0.0, made.now_s)))
    return made


def watched(host: Host, seconds: float, **after: Any) -> tuple[str, ...]:
    watch = HostWatch(str(host.root))
    watch.begin()
    host.now_s += seconds
    for name, value in after.items():
        if name == "ticks":
            host.write(value)
        else:
            setattr(host, name, value)
    return watch.end()


def test_a_quiet_host_has_no_marks(host: Host) -> None:
    assert watched(host, 1.0) == ()


def test_fresh_memory_is_named_by_its_page_faults(host: Host) -> None:
    """400 MB of fresh pages in 0.6 s, as `r + a*b` of 10⁸ numbers makes them."""
    assert watched(host, 0.6, faults=97_656) == ("page-faults",)
    assert watched(host, 0.6, faults=host.faults + 100) == ()


def test_a_busy_neighbour_core_is_named(host: Host) -> None:
    assert watched(host, 1.0, ticks=50) == ("foreign-load",)


def test_our_own_work_is_no_neighbour(host: Host) -> None:
    assert watched(host, 1.0, ticks=100, own_s=1.0) == ()


def test_ticks_are_not_judged_over_less_than_they_can_tell(host: Host) -> None:
    """One tick of a neighbour in 10 ms would be a whole core."""
    assert watched(host, 0.9 * FOREIGN_WINDOW_S, ticks=9) == ()


def test_a_kernel_that_tells_no_ticks_costs_only_that_mark(host: Host) -> None:
    (host.root / "proc/stat").unlink()
    assert watched(host, 1.0, faults=2_000_000) == ("page-faults",)


def test_a_really_busy_neighbour_is_seen() -> None:
    """On this machine, with a process that spins on one of our cores for as long as it takes."""
    import subprocess
    import sys

    watch = HostWatch()
    spinner = subprocess.Popen([sys.executable, "-c", "print('on', flush=True)\nwhile True: pass"], stdout=-1)
    assert spinner.stdout is not None
    spinner.stdout.readline()
    try:
        for _ in range(50):
            watch.begin()
            spinner.poll()
            threading_wait(0.12)
            if "foreign-load" in watch.end():
                return
        pytest.fail("half a minute of a busy neighbour went unnoticed")
    finally:
        spinner.kill()
        spinner.wait()
        spinner.stdout.close()


def threading_wait(seconds: float) -> None:
    """Let time pass, which is what the watch measures."""
    import threading

    threading.Event().wait(seconds)
