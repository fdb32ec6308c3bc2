"""Interleave the rounds of a window of active cases."""

from __future__ import annotations

import traceback
from collections import deque
from itertools import chain

from cpugpu_tui.decide.correlation import Pool
from cpugpu_tui.errors import RUN_AGAIN, STOP_REQUESTED
from cpugpu_tui.model import ENERGY, KERNELS, TURN, Case, CaseFailed, CasesChosen, Gap, Plan, Progressed, SweepKey
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.channel import Control, Emit
from cpugpu_tui.timing.last_passes import EnergyPass, measure_peers, profile_cases, profile_lines
from cpugpu_tui.timing.size_search import SPARE_NS, SizeSearch, grant_rounds, left_ns
from cpugpu_tui.timing.time_shares import Forecast, TimeShares
from cpugpu_tui.timing.timers import GAP_MS, CaseError, Machine, Stopped, Stopwatch, leave_gap
from cpugpu_tui.timing.warm_up import limit_s
from cpugpu_tui.workloads import case_costs, is_compiled

MOST_WAITING_BYTES = 64e6
"""Bytes that a call of a case may move whose tensors are kept until the end of a survey."""

CHECK_EVERY = 10
"""Of over 20 cases the last, every tenth and the first of each sweep are checked (method.md, step 2)."""


class Scheduler:
    """Runs the cases of a plan on a machine; a failure affects only its own case."""

    def __init__(self, plan: Plan, machine: Machine, emit: Emit, control: Control) -> None:
        self._plan = plan
        self._machine = machine
        self._emit = emit
        self._control = control
        gpus = tuple(device.name for device in machine.devices if not device.is_cpu)
        self._search = SizeSearch(plan.search, plan.cases, gpus) if plan.search is not None else None
        # A search runs one sweep after the other; all other plans are one group.
        groups: dict[SweepKey | None, list[tuple[int, Case]]] = {}
        for found in plan.search.found if plan.search is not None else ():
            groups[found.case.sweep] = []
        for index, case in enumerate(plan.cases):
            groups.setdefault(case.sweep if self._search is not None else None, []).append((index, case))
        self._firsts = set({case.sweep: index for index, case in reversed([*enumerate(plan.cases)])}.values())
        """Indices of the first case of each sweep."""
        self._later = deque(groups.items())
        self._shares = TimeShares(limit_s(plan, len(machine.devices)), is_search=self._search is not None)
        self._pending: deque[tuple[int, Case]] = deque()
        self._is_crowded = False
        self._active: list[CaseRun] = []
        self._pool = Pool()
        self._waiting: list[CaseRun] = []
        """Cases of a search that are done, but whose interval is wide: they get its spare seconds."""
        self._left_ns = self._granted_ns = 0.0
        """What finished cases of this sweep left of their budgets, and what others were granted."""
        self._warmed: set[str] = set()
        self._since_gap = Stopwatch()
        self._forecast = Forecast(plan)
        self._to_profile: list[Case] = []
        self._to_measure: list[Case] = []
        self._typed: list[tuple[Case, tuple[str, ...]]] = []
        """Cases of a person's own code, with the devices that timed them."""

    def run(self) -> str:
        """Run all cases and passes; return `done` or `stopped`.

        Raises:
            CaseError: a fatal one, after its case was reported; the process is unusable afterwards.
        """
        self._gap(force=True)
        while self._later:
            self._begin_group()
            if not self._run_group():
                return self._wind_up()
        self._pending.extend(self._shares.begin_rest())
        if not self._run_group() or self._shares.postponed:
            return self._wind_up()
        if self._plan.turns:
            self._await_turn()  # a process that ends would disturb the last round of another one
            return "done"
        measure_peers(self._plan.cases, self._machine, self._emit, self._should_stop_between)
        if ENERGY in self._plan.metrics:
            EnergyPass(self._machine, self._emit, self._should_stop, self._control).run(self._to_measure)
        profile_lines(self._typed, self._machine, self._emit, self._should_stop_between)
        if KERNELS in self._plan.metrics:
            profile_cases(self._to_profile, self._machine, self._emit, self._should_stop)
        return "done"

    def _begin_group(self) -> None:
        """Make the cases of the next group pending; in a search with a time limit, give it a share of what is left."""
        sweep, cases = self._later.popleft()
        self._shares.begin(sweep, len(self._later) + 1)
        if self._is_survey:
            cases = [*cases[:1], *cases[1:][-1:], *cases[1:-1]]  # both ends first: they alone give a wide bracket
        self._pending.extend(cases)

    def _run_group(self) -> bool:
        """Run the pending cases and those that a search adds; return False if the run must end."""
        enter_every = max(1, self._plan.rounds // self._plan.window)
        passes = 0
        while True:
            if self._shares.is_share_over:
                self._shares.postponed += self._pending
                self._pending.clear()
            elif not self._pending:
                self._choose()
            if not self._pending and not self._active and not self._grant_spare():
                return True
            room = not self._active or (passes % enter_every == 0 and len(self._active) < self._plan.window)
            if self._pending and room and not (self._is_crowded and self._active):
                self._await_turn(self._pending[0][1])
                if self._should_stop():
                    return False
                self._enter()
            for case_run in list(self._active):
                self._await_turn(case_run.case, case_run.round_index + 1)
                if self._should_stop():
                    return False
                self._advance(case_run)
            passes += 1
            if self._should_stop():
                return False

    def _choose(self) -> None:
        """Add the next case of a search, if any."""
        search, only = self._search, self._shares.sweep
        if search is None:
            return
        if only is None and self._is_survey and (unsure := search.unsure(self._waiting)) is not None:
            grant_rounds(unsure, 1e9 * self._shares.left_s)
            self._waiting.remove(unsure)
            self._active.append(unsure)
            return
        case = search.next_case(only)
        if case is None and self._is_survey and not self._active:
            if only is None:
                search.judge_again()
            case = search.next_case(only) or search.middle_case(only)
        if case is not None:
            self._pending.append((len(self._plan.cases), case))
            self._emit(CasesChosen(cases=(case,)))
            self._emit.flush()

    def _grant_spare(self) -> bool:
        """Let the case with the widest interval run on in spare time; without one, finish all that wait."""
        if self._search is None or self._has_rest:
            return False
        if self._is_survey:  # its spare time goes to further sizes, and only then to further rounds
            spare_ns = (
                0.0 if self._shares.sweep is not None or self._shares.is_share_over else 1e9 * self._shares.left_s
            )
        else:
            spare_ns = self._left_ns + sum(left_ns(case_run, self._plan.budget_ns) for case_run in self._waiting)
            spare_ns = min(spare_ns, SPARE_NS - self._granted_ns)
        widest = self._search.widest(self._waiting, spare_ns)
        if widest is None:
            self._finish_waiting()
            self._left_ns = self._granted_ns = 0.0
            return False
        self._granted_ns += grant_rounds(widest, spare_ns)
        self._waiting.remove(widest)
        self._active.append(widest)
        return True

    @property
    def _is_survey(self) -> bool:
        return self._plan.search is not None and self._plan.search.is_survey

    def _finish_waiting(self) -> None:
        while self._waiting:
            case_run = self._waiting.pop(0)
            self._left_ns += left_ns(case_run, self._plan.budget_ns)
            self._finish(case_run)

    def _should_stop(self) -> bool:
        return self._control.stopping or self._shares.left_s <= 0

    def _enter(self) -> None:
        """Start the next pending case; report a failure as the case's result."""
        index, case = self._pending.popleft()
        without_cpu = self._search is not None and self._search.is_left_out(case)
        case_run = CaseRun(
            case,
            self._plan,
            self._machine,
            self._emit,
            self._control,
            self._should_stop,
            self._is_cut,
            without_cpu=without_cpu,
            pool=self._pool,
        )
        try:
            case_run.begin(check=self._is_checked(index), warmed=self._warmed)
        except Stopped:
            self._pending.appendleft((index, case))  # `_wind_up` reports it as skipped
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a workload may raise anything, which fails its own case
            failure = self._failure(case_run, error)
            if failure.kind == "oom" and (self._active or self._waiting) and not failure.fatal:
                # Other cases hold memory. Try again once they have finished.
                self._finish_waiting()
                self._pending.appendleft((index, case))
                self._is_crowded = True
                self._drop(case_run, error)
                self._machine.release()
            else:
                self._fail(case_run, error)
        else:
            self._is_crowded = False
            self._active.append(case_run)
            self._forecast.learn(case_run)
            if self._search is not None:
                self._search.learn(case_run)
        self._between()

    def _is_cut(self, rounds: int) -> bool:
        """Return whether the share of the time is over for a case with so many rounds."""
        return self._shares.is_share_over and rounds >= (1 if self._shares.is_grace_over else self._plan.rounds)

    def _is_checked(self, index: int) -> bool:
        if self._plan.is_repeat:
            return False
        count = len(self._plan.cases)
        is_tenth = index % CHECK_EVERY == 0 and index < count  # a search gives all sizes that it adds the index `count`
        is_certain = count <= 20 or self._plan.is_of_two_codes or any(code.sides for code in self._plan.codes)
        return is_certain or is_tenth or index == count - 1 or index in self._firsts

    def _advance(self, case_run: CaseRun) -> None:
        try:
            for _ in case_run.half_rounds():
                self._pause()  # what was sampled is written with the next announcement, which wakes the reader anyway
                if self._control.stopping:
                    return
        except Stopped:
            return
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            self._active.remove(case_run)
            self._fail(case_run, error)
            return
        if case_run.is_cut or (case_run.done and not (self._search is not None and self._search.keeps(case_run))):
            self._active.remove(case_run)
            if self._search is not None and self._may_wait(case_run) and self._search.is_wide(case_run):
                self._waiting.append(case_run)
            else:
                self._left_ns += left_ns(case_run, self._plan.budget_ns)
                self._finish(case_run)
            self._between()

    @property
    def _has_rest(self) -> bool:
        """Return whether it is the share of a sweep, after which a full search gives further rounds to any of them."""
        search = self._plan.search
        return search is not None and search.is_survey and search.full and self._shares.sweep is not None

    def _may_wait(self, case_run: CaseRun) -> bool:
        """Return whether a case may get further rounds: in a full search those of all sweeps, in the rest."""
        if not self._has_rest:
            return not case_run.is_cut
        return case_costs(case_run.case).bytes_moved <= MOST_WAITING_BYTES

    def _finish(self, case_run: CaseRun) -> None:
        """Finish a case; report a failure as the case's result."""
        case, is_called_again, is_starved = case_run.case, case_run.is_called_again, case_run.is_starved
        devices = tuple(run.name for run in case_run.runs)
        try:
            case_run.finish()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(case_run, error)
            return
        if is_called_again:
            if not is_starved:  # threads that wait for a core make the energy meaningless
                self._to_measure.append(case)
            if case_run.is_checked:
                self._to_profile.append(case)
                if case.workload in {code.name for code in self._plan.codes} and not is_compiled(case):
                    self._typed.append((case, devices))

    def _fail(self, case_run: CaseRun, error: Exception | SystemExit) -> None:
        failure = self._failure(case_run, error)
        self._drop(case_run, error)
        if not failure.fatal:
            self._machine.release()
        self._emit(
            CaseFailed(
                case=case_run.case.key, kind=failure.kind, message=failure.message, remedy=failure.remedy,
                device=case_run.device,
            )
        )  # fmt: skip
        self._emit.flush()
        if failure.fatal:
            raise failure

    def _failure(self, case_run: CaseRun, error: Exception | SystemExit) -> CaseError:
        return error if isinstance(error, CaseError) else self._machine.explain(error, case_run.case)

    def _drop(self, case_run: CaseRun, error: Exception | SystemExit) -> None:
        """Release the tensors of a case, also those in the frames of the error's traceback."""
        case_run.close()
        traceback.clear_frames(error.__traceback__)

    def _between(self) -> None:
        """Deliver events, leave a gap if one is due, and pause if requested."""
        self._emit.flush()
        self._pause()

    def _pause(self) -> None:
        """Leave a gap if one is due, and pause if requested; both deliver events."""
        self._gap(force=False)
        if self._control.paused:
            self._gap(force=True)
            self._control.wait_while_paused()

    def _await_turn(self, case: Case | None = None, round_index: int = 0) -> None:
        """In a duet, wait until this agent may prepare a case, time its next round, or end (without a case)."""
        if not self._plan.turns:
            return
        self._control.obey("pause")
        key = case.key if case is not None else ""
        self._emit(Progressed(case=key, device="", phase=TURN, round_index=round_index))
        self._emit.flush()
        self._control.wait_while_paused()

    def _should_stop_between(self) -> bool:
        self._between()
        return self._should_stop()

    def _gap(self, *, force: bool) -> None:
        if not self._plan.gaps or (not force and self._since_gap.elapsed_s() < self._plan.gap_every_s):
            return
        self._emit(self._progress())
        self._emit(Gap(duration_ms=GAP_MS))
        self._emit.flush()
        leave_gap(GAP_MS)
        self._since_gap.restart()

    def _progress(self) -> Progressed:
        pending = [case for _, case in self._to_come()]
        more = self._search.most_left if self._search is not None else 0
        left_s = self._forecast.seconds_left(self._active, pending, more)
        if left_s is not None:
            left_s = min(left_s, max(0.0, self._shares.left_s))
        current = self._active[-1] if self._active else None
        return Progressed(
            case=current.case.key if current else "", device="", phase="gap",
            round_index=current.round_index if current else 0, seconds_left=left_s,
        )  # fmt: skip

    def _wind_up(self) -> str:
        """End early: finish cases that have a complete round, skip all others.

        A stopped search skips those with too few rounds for an interval: when it goes on, it would not time them again.
        """
        stopped = self._control.stopping
        why = STOP_REQUESTED if stopped else "The time limit of the run was over before a round of this case ended."
        least = self._plan.rounds if stopped and self._search is not None else 1
        for case_run in (*self._waiting, *self._active):
            if case_run.rounds_complete >= least or (case_run.rounds_complete and case_run.done):
                self._finish(case_run)
            else:
                self._skip(case_run.case, why)
        for _, case in self._to_come():
            self._skip(case, why)
        return "stopped" if stopped else "done"

    def _to_come(self) -> tuple[tuple[int, Case], ...]:
        """Return the cases that have not started."""
        return (*self._pending, *chain.from_iterable(cases for _, cases in self._later), *self._shares.postponed)

    def _skip(self, case: Case, why: str) -> None:
        self._emit(CaseFailed(case=case.key, kind="skipped", message=why, remedy=RUN_AGAIN))
