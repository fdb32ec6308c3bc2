"""How the app ends: by key, by signal, suspended; always with the run stopped and its finished cases saved."""

from __future__ import annotations

from textual import events, on

from cpugpu_tui.ui.controllers.live import Running
from cpugpu_tui.ui.live.messages import SeriesEnded
from cpugpu_tui.ui.options import AppResult
from cpugpu_tui.ui.terminal.signals import LoopSignals

GRACE_S = 1.2
"""How long leaving waits for the run to end: it takes 0.3 s as a rule, and a signal must be obeyed within 2 s."""


class Leaving(Running):
    """The part of the app that ends it."""

    _exit_code: int | None = None
    signals: LoopSignals | None = None
    """What passes signals on; set by whoever runs the app on a terminal."""

    def answer_signals(self) -> None:
        """Leave on signals; stop and continue the agents with the app."""
        if self.signals is not None:
            self.signals.answer(self.leave)
        self.app_suspend_signal.subscribe(self, lambda _: self.bridge.suspend_agents(), immediate=True)
        self.app_resume_signal.subscribe(self, self._come_back, immediate=True)

    def _come_back(self, _: object) -> None:
        """Go on after a suspension, on a terminal that shows nothing of ours any more."""
        self.bridge.resume_agents()
        # During a run the gate is shut and Textual would draw only what changes from now on.
        self.gate.open_window()
        self.refresh(layout=True)
        self.screen.refresh()

    async def on_event(self, event: events.Event) -> None:
        """Obey no key once the app is being left: a run begun now would be cut off."""
        if self._exit_code is None or not isinstance(event, events.Key):
            await super().on_event(event)

    def action_leave(self) -> None:
        """Quit; ask first if a run is going on."""
        if not self.state.situation.live:
            self.leave()
            return

        from cpugpu_tui.ui.screens.confirm import ConfirmScreen

        def decide(yes: bool | None) -> None:
            if yes:
                self.leave()

        self.push_screen(ConfirmScreen("A run is going on. Stop it and quit?", "stop and quit", "let it run"), decide)

    async def action_quit(self) -> None:
        """Quit as on any other key: Textual binds ctrl+q to an end that asks nothing and stops no run."""
        self.action_leave()

    def leave(self, code: int = 0) -> None:
        """Stop the run, then exit; a run that does not end in time is left to the end of its agents."""
        if self._exit_code is not None and code == 0:
            return
        self._exit_code = code
        if not self.state.situation.live:
            self._go()
            return
        self.bridge.kill(leaving=True)
        self.change(quitting=True)
        self.set_timer(GRACE_S, self._go)

    @on(SeriesEnded)
    def _go_if_asked(self) -> None:
        if self._exit_code is not None:
            self._go()

    def _go(self) -> None:
        code = self._exit_code or 0
        run = self.state.own.run
        self.bridge.leave()
        number = run.run.number if run.run is not None else None
        self.set_terminal_title("")
        self.exit(AppResult(run, number, self.state.notice, code), return_code=code)
