"""Quitting by key or by signal; work in progress is stopped first."""

from __future__ import annotations

from collections.abc import Callable

from cpugpu_tui.ui.controllers.app_port import Port


class Leaving:
    """Asks, stops the work, and exits when it has ended or after a grace period."""

    def __init__(
        self, port: Port, is_busy: Callable[[], bool], stop: Callable[[], object], leave: Callable[[int], object],
        question: tuple[str, str], grace_s: float,
    ) -> None:  # fmt: skip
        """Stop work with `stop` while `is_busy`; end the app with `leave`, which takes the exit code.

        `question` is the question before work is stopped and the label for not stopping; `grace_s` is how long to
        wait for the work to end.
        """
        self._port, self._is_busy, self._stop, self._leave = port, is_busy, stop, leave
        self._question, self._grace_s = question, grace_s
        self.exit_code: int | None = None
        """Exit code once the app is quitting; None before."""

    def ask(self) -> None:
        """Quit; ask first while something runs, except in a demo."""
        if not self._is_busy() or self._port.state.situation.demo:
            self.leave()
            return
        from cpugpu_tui.ui.screens.page import ConfirmScreen

        def decide(yes: bool | None) -> None:
            if yes:
                self.leave()

        question, keep = self._question
        self._port.push_screen(ConfirmScreen(question, "stop and quit", keep), decide)

    def leave(self, code: int = 0) -> None:
        """Stop the work, then exit; agents end by themselves what does not stop in time."""
        if self.exit_code is not None and code == 0:
            return
        self.exit_code = code
        if not self._is_busy():
            self.go_if_asked()
            return
        self._stop()
        self._port.set_timer(self._grace_s, self.go_if_asked)

    def go_if_asked(self, _: object = None) -> None:
        """Exit if the app is quitting; called when nothing runs any more."""
        if self.exit_code is not None:
            self._leave(self.exit_code)
