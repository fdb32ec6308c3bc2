"""A pytest plugin: a line for each test as it ends, with the cause of a failure, so that a cut-off run tells, too."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PART = os.environ.get("PART", "1/1")
RESULTS = os.environ.get("GPU_RESULTS", "")
CAUSE_LINES = 6
"""Lines of a failure that are shown at once; the rest follows at the end."""

_ended = 0
_spent_s: dict[str, float] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep every n-th test for `PART` k/n: tests of one file, which resemble each other, spread over all parts."""
    part, parts = map(int, PART.split("/"))
    if not 1 <= part <= parts:
        raise pytest.UsageError(f"Invalid PART={PART}. Use k/n with k from 1 to n, for example PART=1/3.")
    left_out = [item for index, item in enumerate(items) if index % parts != part - 1]
    items[:] = items[part - 1 :: parts]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """Leave out pytest's dots."""
    if isinstance(report, pytest.CollectReport) or (report.when != "call" and report.passed):
        return None
    return report.outcome, "", ""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print how a test ended, once: after its call, or after a set-up that failed or skipped it.

    A worker of xdist is silent: it loads this plugin, too, and the controller gets all reports.
    """
    global _ended
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return
    _spent_s[report.nodeid] = _spent_s.get(report.nodeid, 0.0) + report.duration
    if (report.when == "setup" and report.passed) or (report.when == "teardown" and not report.failed):
        return
    _ended += 1
    cause = cause_of(report)
    line = f"[{_ended:3}] {report.outcome:7} {_spent_s[report.nodeid]:6.1f} s  {report.nodeid}"
    print(line + "".join(f"\n      {each}" for each in cause), flush=True)
    if RESULTS:
        found = {"test": report.nodeid, "outcome": report.outcome, "elapsed_s": round(_spent_s[report.nodeid], 2),
                 "cause": cause, "ended": time.time(), "part": PART, "python": sys.version.split()[0]}  # fmt: skip
        with Path(RESULTS).open("a") as file:
            file.write(json.dumps(found) + "\n")


def cause_of(report: Any) -> list[str]:
    """Return the first lines of why a test failed or was skipped; empty for one that passed."""
    if report.passed:
        return []
    if report.skipped and isinstance(report.longrepr, tuple):
        return [report.longrepr[2]]
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash is not None else str(report.longrepr)).splitlines()[:CAUSE_LINES]
