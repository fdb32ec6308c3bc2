"""Resumes a saved run: its missing cases are timed in the same run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.errors import UnfitError, UsageError, print_notice
from cpugpu_tui.machine.nvml.probe import is_found
from cpugpu_tui.machine.procfs import hostname
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import joined
from cpugpu_tui.report.time_limit import wide_brackets
from cpugpu_tui.session.repeat import repeat_text, why_no_command
from cpugpu_tui.session.request import longer_s
from cpugpu_tui.state.folding import Remaining, folded

if TYPE_CHECKING:
    from cpugpu_tui.state.state import RunState
    from cpugpu_tui.store import RunSummary, Store


LOOKED_AT = 50
"""Number of newest runs that are searched for an unfinished one."""

PASSING = ("argv", "torch_import_s", "worker", "python_option", "case_timeout_s", "face", "fleet")
"""Facts that may differ between starts and do not change times."""

SAYS_ALL = 6
"""Most differences that an error lists."""


_ELSEWHERE = {"fleet_host", model.DUET}
"""Facts of runs that this command cannot resume."""


@dataclass(frozen=True)
class Unfinished:
    """A saved run with missing cases, rounds or starts."""

    events: tuple[model.Event, ...]
    """Its events, without skipped and cut cases, further starts and the end: these come again."""
    summary: RunSummary
    cut: tuple[model.Event, ...] = ()
    """Events of cases that ended with too few rounds: they hold until the case has been timed again."""

    @property
    def started(self) -> model.RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, model.RunStarted)
        return first


def unfinished(store: Store, name: str | None, preset: str | None = None) -> Unfinished:
    """Return the named run or, without a name, this machine's newest unfinished run, of `preset` if given.

    Of those without a name, one whose GPU has gone is passed over with a notice.

    Raises:
        UsageError: the run does not exist, is complete, is still running, or belongs to a fleet or a duet.
    """
    if name is not None:
        run = store.summary(store.find(name))
        if run.status == "running":
            raise UsageError(f"Run {run.number} is still running.", "Wait until it ends, or stop it.")
        found = _what_is_missing(store, run)
        command = repeat_text(found.started) if found is not None else ""
        if found is not None and (host := found.started.environment.get("fleet_host")):
            raise UsageError(
                f"Cannot resume run {run.number}: a fleet measured it on {printable(str(host))}.",
                f"Run it again on that host: `{command}`." if command else why_no_command(found.started),
            )
        if found is not None and found.started.environment.get(model.DUET):
            raise UsageError(f"Cannot resume run {run.number}: it is one side of a duet.", "Run both sides again.")
        if found is None:
            raise UsageError(
                f"Run {run.number} is complete.", f"`{with_database(f'cpugpu-tui show {run.number}')}` shows it."
            )
        return found
    here = hostname()
    # Not imported, nor merged from another machine; nor of another preset.
    runs = [run for run in store.runs(LOOKED_AT) if run.hostname == here and preset in (None, run.name)]
    for run in runs:
        # Whether the limit of a search left brackets wide takes its events, so only the newest run is asked.
        if run.status not in ("running", "done") or run.cases_skipped or (run is runs[0] and run.status == "done"):
            if run.status == "failed":  # it would fail again, each time that no number is given
                continue
            found = _what_is_missing(store, run)
            if found is None or _ELSEWHERE & found.started.environment.keys():
                continue
            if not (gone := _gone_gpus(found)):
                return found
            print_notice(f"Run {run.number} is passed over: {printable(gone)} was not found on this machine.")
    what = "run" if preset is None else preset
    raise UsageError(
        f"No unfinished {what} of this machine found.", f"`{with_database('cpugpu-tui history')}` lists all runs."
    )


def _gone_gpus(run: Unfinished) -> str:
    """Return the GPUs of a run that the driver does not find now; empty if it finds all, or if they are simulated."""
    found = (event.devices for event in run.events if isinstance(event, model.DevicesFound))
    devices = () if run.started.plan.simulation is not None else next(found, ())
    return joined([each.label for each in devices if each.uuid and not is_found(each.uuid)])


def _what_is_missing(store: Store, run: RunSummary) -> Unfinished | None:
    loaded = store.load(run.run_id)
    state = folded(loaded)
    events = [event for event in loaded if not _is_void(event)]
    again = {case.key for case in cut_cases(state)} if run.status != "done" or run.cases_skipped else set()
    kept, cut = (
        tuple(event for event in events if (getattr(event, "case", "") in again) is is_cut) for is_cut in (False, True)
    )
    left = Remaining(model.Plan("", ()))
    for event in kept:
        left.note(event)
    started = kept[0]
    assert isinstance(started, model.RunStarted)
    is_cut = run.status != "done" and _goes_on(started)
    if run.status == "done" and started.plan.search is not None:
        is_cut = bool(wide_brackets(state))
    plan_cases = set(started.plan.cases) | set(left.cases)
    missing = any(case.key not in left.settled for case in plan_cases)
    return Unfinished(kept, run, cut) if missing or is_cut else None


def cut_cases(state: RunState) -> list[model.Case]:
    """Return the cases that a stop or the time limit ended early, for example after 2 of 8 rounds."""
    return [row.case for row in state.rows.values() if row.is_cut]


def _goes_on(started: model.RunStarted) -> bool:
    """Return whether more than the planned cases comes: those that a search chooses, and at last the further starts."""
    has_starts = started.plan.starts > 1 and started.environment.get("worker") != "thread"
    return has_starts or started.plan.search is not None


def resume_command(state: RunState, *, is_interrupted: bool = False) -> str:
    """Return the command that goes on with a run of this machine that ended early; empty if none, see `unfinished`."""
    run = state.run
    is_cut_off = state.status == "done" and (state.skipped > 0 or wide_brackets(state))
    is_early = is_interrupted or state.status == "stopped" or is_cut_off
    is_left = state.settled - state.skipped < len(state.rows) or cut_cases(state)
    if run is None or run.number is None or not is_early or run.plan.codes:
        return ""
    facts = run.environment
    if _ELSEWHERE & facts.keys() or facts.get("hostname") != hostname() or not (is_left or _goes_on(run)):
        return ""
    python = ("--python", str(facts["python_option"])) if facts.get("python_option") else ()
    files = (word for file in run.plan.own_files for word in ("--workloads", file.path))
    # The same limit again may end before the first missing case.
    longer = () if run.plan.max_seconds is None else ("--max-seconds", f"{longer_s(run.plan, state):g}")
    return shlex.join(("cpugpu-tui", "run", "--resume", str(run.number), *longer, *python, *files))


def _is_void(event: model.Event) -> bool:
    if isinstance(event, model.DeviceSampled):
        return event.start > 0
    return isinstance(event, model.RunFinished) or (isinstance(event, model.CaseFailed) and event.kind == "skipped")


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences of two environments, as `torch 2.6.0, now 2.7.0`; empty if their times can be mixed.

    A fact that only one version of this program reports is not a difference.
    """
    return [
        f"{name.replace('_', ' ')} {_shown(then[name])}, now {_shown(now[name])}"
        for name in then
        if name in now and name not in PASSING and then[name] != now[name]
    ]


def require_environment(run: Unfinished, hello: model.Hello) -> None:
    """Check that an agent's environment is that of a saved run.

    Raises:
        UnfitError: it differs.
    """
    _require_same(run, differences(run.started.environment, hello.environment))


def require_devices(run: Unfinished, found: model.DevicesFound) -> bool:
    """Check that an agent's devices are those of a saved run; return whether the run has devices.

    Raises:
        UnfitError: they differ.
    """
    known = next((event for event in run.events if isinstance(event, model.DevicesFound)), None)
    if known is not None:
        _require_same(run, device_differences(known, found))
    return known is not None


def device_differences(then: model.DevicesFound, now: model.DevicesFound) -> list[str]:
    """Return the difference between two lists of devices; empty if they are the same."""
    before, after = ([(d.name, d.label, d.uuid) for d in found.devices] for found in (then, now))
    return [] if before == after else [f"devices {_names(then)}, now {_names(now)}"]


def _names(found: model.DevicesFound) -> str:
    return " and ".join(f"{d.label} ({d.uuid})" if d.uuid else d.label for d in found.devices) or "none"


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _require_same(run: Unfinished, differing: Sequence[str]) -> None:
    if differing:
        more = f"; and {len(differing) - SAYS_ALL} more" if len(differing) > SAYS_ALL else ""
        raise UnfitError(
            f"Run {run.summary.number} was measured in another environment: {'; '.join(differing[:SAYS_ALL])}{more}.",
            "Start a new run: times of two environments do not belong in one table.",
        )
