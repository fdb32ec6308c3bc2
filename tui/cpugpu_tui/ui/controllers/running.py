"""Starts, pauses and stops runs and measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import RESIDENT
from cpugpu_tui.errors import UsageError
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.ui.app_state import ParentRun
from cpugpu_tui.ui.controllers.comparing import Repeating
from cpugpu_tui.ui.controllers.history import History
from cpugpu_tui.ui.controllers.live import Live
from cpugpu_tui.ui.controllers.own_code import Consent
from cpugpu_tui.ui.keys import DEMO, Situation
from cpugpu_tui.ui.live import messages
from cpugpu_tui.ui.live.bridge import Bridge
from cpugpu_tui.ui.live.saved_runs import OpenedRun
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.shell import Shell


class Running:
    """Runs plans through the bridge, one series at a time."""

    def __init__(
        self, app: Shell[Any], bridge: Bridge, live: Live, history: History, repeating: Repeating, consent: Consent
    ) -> None:
        self._app, self._bridge, self._live = app, bridge, live
        self._history, self._repeating, self._consent = history, repeating, consent

    # ---------------------------------------------------------------- wishes

    def run(self) -> None:
        """Run the highlighted workload, or the plan of the saved run that is shown or was run again last."""
        state = self._app.state
        if state.past is not None:
            self._run_saved(OpenedRun(state.past.summary, state.run, state.telemetry))
        elif state.again is not None:
            self.begin(state.again, state.asked_runs or 1, again=True)
        else:
            self.start(state.request)

    def run_beside(self) -> None:
        """Run the highlighted workload on the CPU, beside a recorded GPU. `r` repeats that."""
        from cpugpu_tui.state.reference import OFFERED

        request = self._app.state.request._replace(beside=OFFERED, devices=("cpu",), parallel=False)
        self.start(request, again=True)

    def run_row(self) -> None:
        """Run the highlighted row alone, with the seed and devices of its run."""
        found = self._repeating.plan_of_row()
        if found is not None:
            plan, parent = found
            started = parent.run.run
            timeout_s = started.environment.get("case_timeout_s") if started is not None else None
            self.begin(plan, self._app.state.asked_runs or 1, timeout_s, parent=parent)

    def find_crossover(self) -> None:
        """Find the size from which the GPU wins; sizes in the form are the range."""
        self.start(self._app.state.request._replace(find_crossover=True))

    def run_named(self, name: str) -> None:
        """Highlight a preset or workload and run it with its parameters."""
        self._app.close_pages()
        if isinstance(self._app.screen, MainScreen):
            pane = self._app.screen.query_one(WorkloadPane)
            pane.choose(name)
            self.start(pane.entry.request)

    def choose_saved(self, message: messages.SavedRunChosen) -> None:
        """Show the chosen saved run, or run its plan."""
        if message.again:
            self._history.read(message.run, lambda opened, _: self._run_saved(opened))
        else:
            self._history.show(message.run)

    def measure_claim(self, message: messages.ClaimWanted) -> None:
        """Close the page and measure what a claim needs, on the chosen devices."""
        self._app.close_pages()
        if message.judged.wants_ceilings:
            self.measure()
        elif message.judged.request is not None and isinstance(self._app.screen, MainScreen):
            asked = self._app.state.request
            request = message.judged.request._replace(
                devices=asked.devices, mnist=asked.mnist, simulation=asked.simulation
            )  # fmt: skip
            self._app.screen.query_one(WorkloadPane).highlight(request)
            self.start(request)

    def measure_noise(self, _: messages.NoiseWanted) -> None:
        """Measure the noise floor of the chosen devices in a series of runs."""
        from cpugpu_tui.compare.series import REPEATS, noise_plan

        asked = self._app.state.request
        if not self._is_refused():
            self.begin(replace(noise_plan(asked.devices, asked.simulation), gaps=True), REPEATS)

    # ---------------------------------------------------------------- starting

    def start(self, request: PlanRequest, *, again: bool = False) -> None:
        """Run a request, or show why it cannot be run; `again` as in `begin`."""
        if self._is_refused():
            return
        request = request._replace(gaps=True)
        try:
            if request.against:
                self._start_duet(request)
                return
            from cpugpu_tui.session.planning import build_plan

            plan = build_plan(request)
        except UsageError as error:
            self._app.change(problem=error)
            return
        plan = self._consent.as_last_run(plan)
        self.begin(plan, self._app.state.asked_runs or request.repeat, request.case_timeout_s, again=again)

    def _start_duet(self, request: PlanRequest) -> None:
        """Compare the request's code with the one beside it, as both files are now.

        Raises:
            UsageError: it cannot be run, or has an option that a duet cannot follow.
        """
        from cpugpu_tui.analysis.compare import MOST_PAIRS
        from cpugpu_tui.compare.in_turn import code_sides, duet_plan

        bridge, count = self._bridge, len(request.own.codes)
        sides = code_sides(request.own.codes, request.against, bridge.backend.agents_python)
        plan = duet_plan(request, sides, self._app.state.worker)

        def begin(both: model.Plan) -> None:
            new, old = both.codes[:count], both.codes[count:]
            sides = code_sides(new, old, bridge.backend.agents_python)
            self._show(replace(plan, codes=new), MOST_PAIRS, lambda: bridge.run_duet(request, plan, sides))

        both = self._consent.as_last_run(replace(plan, codes=(*plan.codes, *request.against)))
        self._consent.ask(both, begin)

    def _run_saved(self, opened: OpenedRun) -> None:
        """Run the plan of a saved run with its seed, or show why this app cannot."""
        started, state = opened.run.run, self._app.state
        simulates = state.request.simulation is not None
        if started is None or not state.situation.may_start:
            return
        if opened.run.simulated != simulates:
            was, does, option = ("measured", "simulates", "without") if simulates else ("simulated", "measures", "with")
            message = f"Run {opened.summary.number} was {was}, but this app {does}."
            self._history.refuse(UsageError(message, f"Start cpugpu-tui {option} --simulate."))
            return
        timeout_s = started.environment.get("case_timeout_s")
        # Peak rates are looked up anew; gaps let this screen repaint and change no number.
        plan = replace(started.plan, gaps=True, ceilings=())
        self._app.close_pages()
        self.begin(plan, state.asked_runs or 1, timeout_s, again=True)

    def begin(
        self, plan: model.Plan, repeats: int = 1, case_timeout_s: float | None = None, *, again: bool = False,
        parent: ParentRun | None = None,
    ) -> None:  # fmt: skip
        """Start a series of a plan; ask first if it has code that was not typed in this app.

        With `again`, `r` repeats this plan until another workload is highlighted. `parent` is the run of this row.
        """

        def start(plan: model.Plan) -> None:
            # `r` does not repeat a row that was run alone
            kept = plan if again else None if parent is None else self._app.state.again
            self._show(plan, repeats, lambda: self._bridge.run_series(plan, repeats, case_timeout_s), kept, parent)

        self._consent.ask(plan, start)

    def _show(
        self, plan: model.Plan, repeats: int, body: Callable[[], object], again: model.Plan | None = None,
        parent: ParentRun | None = None,
    ) -> None:  # fmt: skip
        """Run `body` on its thread, and show what it is about to do."""
        app = self._app
        self._history.leave()
        self._repeating.expect_runs(plan, parent)
        self._bridge.expect_series()
        app.start_thread(body, "run", exclusive=True)
        self._live.begin(
            problem=None, repeats=repeats, repeat_number=1, again=again, asked_runs=0, parent=parent, what_if=RESIDENT,
            situation=Situation(live=True, ran=app.state.situation.ran, duet=plan.is_of_two_codes),
        )  # fmt: skip
        app.set_terminal_title(f"cpugpu-tui: {plan.name}")
        if isinstance(app.screen, MainScreen):
            app.screen.focus_timings()

    def measure(self) -> None:
        """Measure the peak rates and open the machine card."""
        if self._is_refused():
            return
        app, bridge = self._app, self._bridge
        self._history.leave()
        request = app.state.request
        plan = model.Plan(
            "machine", (), devices=request.devices, calibrate=True, gaps=True, simulation=request.simulation
        )
        bridge.expect_series()
        app.start_thread(lambda: bridge.calibrate(plan), "run", exclusive=True)
        situation = Situation(live=True, ran=app.state.situation.ran)
        self._live.begin(problem=None, calibrating="starting", situation=situation)
        from cpugpu_tui.ui.screens.machine import MachineScreen

        if not isinstance(app.screen, MachineScreen):
            app.push_screen(MachineScreen(app.state, app.glyphs))

    def _is_refused(self) -> bool:
        """Show that a replay or a demo measures nothing; pages and the palette bypass the check of the key."""
        situation = self._app.state.situation
        if situation.demo:
            self._app.say(f"Not run: {DEMO}")
        elif situation.replay:
            remedy = "Start cpugpu-tui without --replay."
            self._app.change(problem=UsageError("A replay cannot run anything.", remedy))
        return situation.replay

    # ---------------------------------------------------------------- while it runs

    def pause(self) -> None:
        """Pause or resume the run."""
        paused = self._app.state.situation.paused
        (self._bridge.resume if paused else self._bridge.pause)()
        self._app.situate(paused=not paused)

    def stop(self) -> None:
        """Stop after the current block; called again, at once."""
        if self._app.state.situation.stopping:
            self._bridge.kill()
        else:
            self._bridge.stop()
            self._app.situate(stopping=True, paused=False)
