"""Typed code: the form that takes it, and the consent without which no code runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import UsageError
from cpugpu_tui.session.repeat import code_sizes
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.ui.live.messages import in_background
from cpugpu_tui.ui.live.saved_runs import SavedRuns
from cpugpu_tui.ui.panes.workload import WorkloadPane, bare
from cpugpu_tui.ui.shell import Shell

if TYPE_CHECKING:
    from cpugpu_tui.model import OwnCode, Plan
    from cpugpu_tui.session.typed_code import CodeFields
    from cpugpu_tui.ui.screens.code import Typed


class Consent:
    """Knows the code that the person typed or confirmed since the app opened, and asks about any other."""

    def __init__(self, app: Shell[Any]) -> None:
        self._app = app
        self._known: dict[OwnCode, str] = {}
        """Code without the hash of its file → that hash when it last ran."""

    def give(self, codes: tuple[OwnCode, ...]) -> None:
        """Let this code run: the person typed it just now."""
        self._known.update({_text_of(code): code.sha256 for code in codes})

    def as_last_run(self, plan: Plan) -> Plan:
        """Return a plan whose files have the hashes of the last run, so that a change is noticed once."""
        return _with_hashes(plan, lambda code: self._known.get(_text_of(code), code.sha256))

    def ask(self, plan: Plan, then: Callable[[Plan], object], since: str = "since that run") -> None:
        """Call `then` with the plan: at once, or after the person has read and confirmed its code.

        Code of a file runs as the file is now; the plan says so by its hash. `since` says when the plan was made.
        """
        if not plan.codes:
            then(plan)
            return
        present = self._as_of_now(plan)
        if present is None:
            return
        pairs = zip(plan.codes, present.codes, strict=True)
        files = dict.fromkeys(new.target[0] for old, new in pairs if old.sha256 != new.sha256)
        changed = list(map(os.path.basename, files))

        def run() -> None:
            self.give(present.codes)
            then(present)

        if all(_text_of(code) in self._known for code in plan.codes):
            run()
            if changed:
                self._app.say(f"{' and '.join(changed)} has changed since this was last run.", stays=True)
            return
        from cpugpu_tui.ui.screens.code import CodeQuestion

        def answered(yes: bool) -> None:
            if not yes:
                return
            # A file may be edited while it is read here. What runs is what was shown, so the new text is asked about.
            now = self._as_of_now(plan)
            if now == present:
                run()
            elif now is not None:
                self.ask(present, then, since="while you read it")

        own = self._app.state.environment.get("interpreter", sys.executable)
        question = CodeQuestion(present.codes, changed, since, own if own != sys.executable else None)
        self._app.push_screen(question, answered)

    def _as_of_now(self, plan: Plan) -> Plan | None:
        """Return a plan with the present hashes of its files; None if one cannot be read, which is shown."""
        from cpugpu_tui.session.typed_code import as_of_now

        try:
            return _with_hashes(plan, lambda code: as_of_now(code).sha256)
        except UsageError as error:
            self._app.change(problem=error)
            return None


def _text_of(code: OwnCode) -> OwnCode:
    """Return code without what an edit of its file changes."""
    return replace(code, sha256="")


def _with_hashes(plan: Plan, hash_of: Callable[[OwnCode], str]) -> Plan:
    return replace(plan, codes=tuple(replace(code, sha256=hash_of(code)) for code in plan.codes))


class Coding:
    """Opens the form for typed code and starts what was typed."""

    def __init__(
        self, app: Shell[Any], saved_runs: Callable[[], SavedRuns], consent: Consent,
        start: Callable[[PlanRequest], object],
    ) -> None:  # fmt: skip
        """`saved_runs` is called on threads; `start` runs a request."""
        self._app, self._saved_runs, self._consent, self._start = app, saved_runs, consent, start
        self._typed: list[CodeFields] = []
        """What was run since the app opened, the newest first."""
        self._draft: Typed | None = None
        """What was typed but not run."""

    def type(self) -> None:
        """Open the form; code of earlier runs is offered as soon as it is read."""
        from cpugpu_tui.ui.screens.code import CodeForm

        state = self._app.state
        form = CodeForm(bare(state.request), state, self._app.glyphs, tuple(self._typed), self._draft)
        self._app.push_screen(form, self._run)
        # Without a history there is nothing to offer.
        in_background(self._app, "codes", self._earlier, form.offer)

    def _earlier(self) -> tuple[CodeFields, ...]:
        """Return the fields of code in the history, the newest first. Called on a thread."""
        from cpugpu_tui.session.typed_code import fields_of

        plans = self._saved_runs().store.code_plans(MOST_LOOKED_THROUGH)
        found = (fields_of(plan, code_sizes(plan)) for plan in plans[:MOST_OFFERED])
        return tuple(dict.fromkeys(each for each in found if each is not None))

    def _run(self, typed: Typed | None) -> None:
        """Run what was typed. Code that the form took from the history is confirmed first, like that of a saved run."""
        self._draft = typed if typed is not None and typed.request is None else None
        if typed is None or typed.request is None:
            return
        self._typed = [typed.fields, *(each for each in self._typed if each != typed.fields)]
        if not typed.is_from_history:
            self._consent.give((*typed.request.own.codes, *typed.request.against))
        self._app.close_pages()
        main = self._app.main_screen
        for pane in main.query(WorkloadPane) if main is not None else ():
            pane.add(typed.request)
        self._start(typed.request)


MOST_LOOKED_THROUGH = 1_000
"""Newest runs of the history in which typed code is looked for."""

MOST_OFFERED = 50
"""Most plans whose code is offered."""
