"""How an app ends: by key or by signal; always with what runs stopped first."""

from __future__ import annotations

from collections.abc import Callable

from cpugpu_tui.ui.controllers.app_port import Port


class Leaving:
    """Asks, stops what runs, and exits when it has ended or when that takes too long."""

    def __init__(
        self,
        port: Port,
        is_busy: Callable[[], bool],
        stop: Callable[[], object],
        leave: Callable[[int], object],
        question: tuple[str, str],
        grace_s: float,
    ) -> None:
        """Stop with `stop` while `is_busy`, end the app with `leave`, which takes the exit code.

        `question` is asked before work is stopped, with the words for not stopping it; `grace_s` is how long its end
        is waited for.
        """
        self._port, self._is_busy, self._stop, self._leave = port, is_busy, stop, leave
        self._question, self._grace_s = question, grace_s
        self.exit_code: int | None = None
        """What the app will exit with; None until it is being left."""

    def ask(self) -> None:
        """Leave; ask first while something runs. A demo has nothing to lose."""
        if not self._is_busy() or self._port.state.situation.demo:
            self.leave()
            return
        from cpugpu_tui.ui.screens.boxes import ConfirmScreen

        def decide(yes: bool | None) -> None:
            if yes:
                self.leave()

        question, keep = self._question
        self._port.push_screen(ConfirmScreen(question, "stop and quit", keep), decide)

    def leave(self, code: int = 0) -> None:
        """Stop what runs, then exit; what does not end in time is left to the end of its agents."""
        if self.exit_code is not None and code == 0:
            return
        self.exit_code = code
        if not self._is_busy():
            self.go_if_asked()
            return
        self._stop()
        self._port.set_timer(self._grace_s, self.go_if_asked)

    def go_if_asked(self, _: object = None) -> None:
        """Exit, if the app is being left: nothing runs any more."""
        if self.exit_code is not None:
            self._leave(self.exit_code)
