"""What the app takes: its pairs of windows, its findings, and how it ends whatever happens."""

import errno
import itertools
import math
import os
import signal
import time

import psutil
import pytest
from tests.helpers.command_line import PATIENCE_S

from cpugpu_tui.analysis.costs import CostRatio
from cpugpu_tui.doctor import app_cost
from cpugpu_tui.doctor.app_cost import AppOnTerminal, AppUse, Taken, Window, app_findings, measure_app, window_pairs
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.machine.processes import memory_of
from cpugpu_tui.model import LATENCY, DeviceSampled, Simulation

S = 1_000_000_000
WINDOWS = [Window(index % 2 == 0, index * S, (index + 1) * S) for index in range(7)]


def sampled(start_s, latency_ns, device="cpu", case="a", length_s=0.01):
    start_ns = int(start_s * S)
    return DeviceSampled(
        case=case, device=device, round_index=1, calls_per_block=1, samples={LATENCY: (latency_ns,) * 5},
        started_mono_ns=start_ns, ended_mono_ns=start_ns + int(length_s * S),
    )  # fmt: skip


def ratios(pairs):
    return [on / off for off, on in pairs]


# ------------------------------------------------------------------ windows


def test_a_planted_cost_is_found_though_the_machine_drifts():
    """Each window is 10 % slower than the one before; with the app, calls take 2 % longer."""
    events = [
        sampled(index + place, base_ns * 1.1**index * (1.02 if window.is_on else 1.0), device)
        for index, window in enumerate(WINDOWS)
        for place in (0.2, 0.5, 0.9)
        for device, base_ns in (("cpu", 1000.0), ("cuda:0", 20_000.0))
    ]
    pairs = window_pairs(events, WINDOWS)
    assert list(pairs) == ["cpu", "cuda:0"]
    for found in pairs.values():
        assert ratios(found) == pytest.approx([1.02] * 3)
    assert pairs["cpu"][0] == pytest.approx((1100.0, 1.02 * 1100.0))


def test_calls_after_a_switch_and_across_one_do_not_count():
    steady = [sampled(index + 0.5, 1000.0) for index in range(7)]
    strange = [sampled(1.0, 9e9), sampled(1.1, 9e9), sampled(2.99, 9e9, length_s=0.2), sampled(9.0, 9e9)]
    assert ratios(window_pairs([*steady, *strange], WINDOWS)["cpu"]) == [1.0] * 3


def test_only_cases_of_all_three_windows_are_compared():
    """`a` ends in the third window, where `b` begins, which takes a thousand times as long."""
    events = [
        *(sampled(index + 0.5, 1000.0) for index in range(3)),
        *(sampled(index + 0.7, 1e6, case="b") for index in range(2, 7)),
    ]
    assert ratios(window_pairs(events, WINDOWS)["cpu"]) == [1.0, 1.0, 1.0]
    assert len(window_pairs(events[:2], WINDOWS)) == 0


def test_cases_of_a_window_are_averaged_with_equal_weight():
    events = [
        sampled(index + 0.5, latency_ns * (factor if index % 2 == 0 else 1.0), case=case)
        for index in range(3)
        for case, latency_ns, factor in (("a", 1000.0, 1.04), ("b", 1e6, 1.0))
    ]
    assert ratios(window_pairs(events, WINDOWS[:3])["cpu"]) == pytest.approx([math.sqrt(1.04)])


def test_the_app_is_suspended_in_every_other_window_and_never_last(monkeypatch):
    calls = []

    class Noted:
        def suspend(self, wanted):
            calls.append(wanted)

        def read_until(self, ends_s):
            time.sleep(max(0.0, ends_s - time.monotonic()))

    monkeypatch.setattr(app_cost, "WINDOW_S", 0.02)
    windows = app_cost._windows(Noted(), time.monotonic() + 0.1, lambda _: None)
    assert [window.is_on for window in windows] == [not wanted for wanted in calls]
    assert calls == [index % 2 == 1 for index in range(len(calls))]
    assert len(calls) % 2 == 1
    assert all(first.end_ns <= second.start_ns for first, second in itertools.pairwise(windows))


# ------------------------------------------------------------------ findings

APP, AGENT = Taken(1, 63_000_000, 50_000_000, 0.031), Taken(2, 322_000_000, None, 0.97)


def found(ratios):
    return app_findings(lambda: AppUse(APP, AGENT, 1421.4, ratios), 60.0)


def test_the_findings_say_what_was_measured_with_numbers_beside_them(words):
    usual = {"cpu": CostRatio(1.001, 0.996, 1.006, 15), "cuda:0": CostRatio(1.05, 1.04, 1.06, 15)}
    findings = found(usual)
    assert [each.check for each in findings] == ["app.usage", "agent.usage", "terminal.bytes", "app.cost"]
    assert [each.verdict for each in findings] == ["ok", "ok", "ok", "warn"]
    assert findings[0].values == {"rss_bytes": 63_000_000, "pss_bytes": 50_000_000, "cpu_share": 0.031}
    assert findings[1].values["pss_bytes"] is None
    assert findings[2].values == {"bytes_per_s": 1421.4}
    assert findings[3].values["cuda:0"] == {"ratio": 1.05, "low": 1.04, "high": 1.06, "rounds": 15}
    others = [found(each)[3] for each in ({"cpu": None}, {}, None)]
    assert [each.verdict for each in others] == ["warn", "warn", "unknown"]
    words([" | ".join(filter(None, (each.found, each.cause, each.remedy))) for each in (*findings, *others)])


def failing(**_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "broken",
    [(app_cost.os, "openpty"), (app_cost, "TemporaryDirectory"), (app_cost.subprocess, "Popen")],
    ids=["pty", "folder", "process"],
)
def test_what_the_system_refuses_is_one_failure_with_its_remedy(monkeypatch, broken, words):
    monkeypatch.setattr(*broken, lambda *_, **__: failing())
    first, *rest = app_findings(lambda: measure_app(None, None, time.monotonic() + 20, lambda _: None), 60.0)
    assert (first.verdict, first.check) == ("fail", "app.usage")
    assert {each.verdict for each in rest} == {"unknown"}
    words([first.cause, first.remedy])


# ------------------------------------------------------------------ the child


def children():
    return psutil.Process().children(recursive=True)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("raise SystemExit(3)", "ended with exit code 3"),
        ("import time; print('ready', flush=True); time.sleep(600)", "saved no start of a run within"),
    ],
)
def test_an_app_that_runs_nothing_is_ended_and_said(monkeypatch, entry, said):
    before = children()
    monkeypatch.setattr(app_cost, "_ENTRY", entry)
    with pytest.raises(UnfitError, match=said):
        measure_app(None, None, time.monotonic() + app_cost.LIVE_S + 2.0, lambda _: None)
    assert children() == before


def test_a_suspended_app_is_asked_to_end_too(monkeypatch):
    monkeypatch.setattr(app_cost, "_ENTRY", "import time; print('ready', flush=True); time.sleep(600)")
    app = AppOnTerminal({})
    app.read_until(time.monotonic() + PATIENCE_S, lambda: app.bytes_read > 0)
    app.suspend(True)
    os.waitid(os.P_PID, app.pid, os.WSTOPPED | os.WNOWAIT)
    app.close()
    assert app._process.returncode == -signal.SIGTERM, "it was woken to end by itself, and not killed"


def test_a_simulated_run_is_counted_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before, told = children(), []
    use = measure_app(None, Simulation(), time.monotonic() + PATIENCE_S, told.append)
    assert use.ratios is None
    assert use.app.processes == 1
    assert use.app.rss_bytes > 20e6
    assert use.agent.processes >= 1
    assert use.bytes_per_s > 0
    assert children() == before
    assert list(tmp_path.iterdir()) == []
    assert len(told) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_app_and_removes_its_folder(cpugpu, tmp_path, monkeypatch, number):
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    doctor = cpugpu.start("doctor", "--simulate", "default", "--telemetry-cost")
    process, started = psutil.Process(doctor.pid), []
    ends_s = time.monotonic() + PATIENCE_S
    while not any(folder.glob("cpugpu-tui-cost-*/results.db")):  # its history: the app is up
        assert time.monotonic() < ends_s
        assert doctor.poll() is None
        time.sleep(0.05)
    started = process.children(recursive=True)
    assert started
    doctor.send_signal(number)
    doctor.communicate(timeout=PATIENCE_S)
    assert doctor.returncode == 128 + number
    _, alive = psutil.wait_procs(started, timeout=PATIENCE_S)
    assert not alive
    assert list(folder.iterdir()) == []


def test_memory_of_a_process_is_what_it_holds():
    rss_bytes, pss_bytes = memory_of(os.getpid())
    assert rss_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)
    assert pss_bytes is None or 0 < pss_bytes <= rss_bytes
    assert memory_of(2**22 + 1) == (0, None)


@pytest.mark.slow
def test_a_real_run_beside_its_app_gives_a_ratio():
    use = measure_app(None, None, time.monotonic() + 60.0, lambda _: None)
    assert set(use.ratios) >= {"cpu"}
    assert use.agent.rss_bytes > use.app.rss_bytes
