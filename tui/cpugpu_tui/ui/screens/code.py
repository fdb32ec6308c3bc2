"""A person's own code: the form for it, and the box that shows code in full and asks whether to run it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from os.path import commonprefix
from typing import ClassVar, NamedTuple

from rich.cells import chop_cells
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key, Paste
from textual.widget import Widget
from textual.widgets import Input

from cpugpu_tui.analysis.compare import FIRST_LOOK, MOST_PAIRS
from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import OwnCode
from cpugpu_tui.session.own_workloads import completions
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.session.typed_code import LINE_BREAK, CodeFields, function_source, request_of
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.fields import Choice, LineField
from cpugpu_tui.ui.panes.lines import Lines, Spans, cut, labelled, visible, wrapped
from cpugpu_tui.ui.panes.workload import cases_words, estimate_of, plan_of, time_words
from cpugpu_tui.ui.screens.form import LABEL_WIDTH, Form
from cpugpu_tui.ui.screens.page import Box

FIELDS: dict[str, tuple[str, str]] = {
    "code": ("code", "an expression such as x @ x, or file.py:function"),
    "setup": ("setup", "makes the inputs, for example x = torch.rand(n, n); paste several lines as they are"),
    "sizes": ("n", "512, or 16,64,256; 16:4096 searches between both; 16:4096:16 takes steps"),
    "against": ("compare with", "another code, timed in turn with the first; {compare} shows the difference"),
    "lets": ("parameters", "NAME=VALUE; several values, k=1,2, are timed one after the other"),
    "host": ("host", "another machine, as gpu01, gpu01 srun, or gpu01 ~/env/bin/python; imported files go along"),
    "in_place": ("in place", "yes if the code changes its inputs, which are restored before each call"),
}
"""Field of `CodeFields` → label and hint."""

MOST_OFFERS = 6
"""Largest number of visible offers."""


class Typed(NamedTuple):
    """What the form returns."""

    fields: CodeFields
    request: PlanRequest | None
    """What to run; None if the form was only closed."""
    is_from_history: bool
    """Whether the form took some of it from a saved run."""


class Offer(NamedTuple):
    """A completion of the first field."""

    text: str
    fields: CodeFields | None = None
    """Texts of all fields, for code that was used before."""
    is_from_history: bool = False


def offers_for(text: str, typed: Sequence[CodeFields], earlier: Sequence[CodeFields]) -> list[Offer]:
    """Return what the first field may be completed to: paths and functions, then code that was used before."""
    wanted = text.strip()
    used = [Offer(each.code, each) for each in typed]
    used += [Offer(each.code, each, is_from_history=True) for each in earlier if each not in typed]
    used = [each for each in used if wanted.lower() in each.text.lower()]
    paths = [Offer(each) for each in completions(wanted) if each != wanted]
    return [*paths, *used] if wanted else [*used, *paths]


class CodeField(LineField):
    """A field that hands on keys which were typed ahead, before the focus moved to another field.

    Textual handles keys of bindings only after those that follow them in the field's queue.
    """

    def on_key(self, event: Key) -> None:
        """Obey keys that move at once; give a letter that was meant for another field to it."""
        form, focused = self.screen, self.screen.focused
        assert isinstance(form, CodeForm)
        if event.key in form.moves:
            form.moves[event.key]()
        elif focused is not self and isinstance(focused, Input) and event.is_printable and event.character:
            focused.insert_text_at_cursor(event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: Paste) -> None:
        """Take all lines of a setup; Textual keeps only the first one."""
        if self.id == "setup":
            self.replace(LINE_BREAK.join(event.text.strip("\n").splitlines()), *self.selection)
            event.stop()
            event.prevent_default()


class CodeForm(Form[Typed | None]):
    """Returns what was typed, or None if it was dropped."""

    def __init__(
        self, base: PlanRequest, state: AppState, glyphs: Glyphs, typed: Sequence[CodeFields] = (),
        draft: Typed | None = None,
    ) -> None:  # fmt: skip
        """Type code to be run as `base`; `typed` was run in this app before, `draft` was not."""
        super().__init__("Your code", {name: label for name, (label, _) in FIELDS.items()}, state, glyphs)
        self._base, self._typed = base, typed
        self._first = draft.fields if draft is not None else CodeFields()
        self._earlier: tuple[CodeFields, ...] = ()
        self._offers: list[Offer] = []
        self._index: int | None = None
        """Place of the chosen offer; None while the cursor is in the field."""
        self._is_from_history = draft is not None and draft.is_from_history
        self.moves: dict[str, Callable[[], None]] = {
            "tab": self._complete, "shift+tab": lambda: self._go(-1), "down": lambda: self._move(1),
            "up": lambda: self._move(-1),
        }  # fmt: skip
        """Key → what it does in every field."""

    def make_field(self, name: str) -> Iterator[Widget]:
        """Yield a line or, for yes and no, a chooser."""
        text = getattr(self._first, name)
        if name == "in_place":
            yield Choice(text or "no", ("no", "yes"), id=name)
        else:
            yield CodeField(text, id=name, select_on_focus=False)

    def below(self, name: str) -> Iterator[Widget]:
        """Yield the offers under the code."""
        if name == "code":
            yield Lines(id="offers")

    def offer(self, earlier: tuple[CodeFields, ...]) -> None:
        """Offer code of saved runs, too."""
        self._earlier = earlier
        self.check()

    # ---------------------------------------------------------------- what is shown

    @property
    def _fields(self) -> CodeFields:
        texts = {name: text.strip() for name, text in self.texts().items()}
        return replace(CodeFields(**texts), in_place=texts["in_place"].removesuffix("no"))

    def check(self) -> None:
        """Show offers, errors and the estimate."""
        if not self.is_shown:
            return
        typed = self._fields
        self._find_offers()
        self._show_offers()
        try:
            request = request_of(typed, self._base)
            plan = plan_of(request)
        except UsageError as error:
            field = error.field if isinstance(error, FieldError) and error.field in FIELDS else ""
            is_unfinished = field == "code" and (not typed.code or any(each.fields is None for each in self._offers))
            wrong = {} if is_unfinished else {field: str(error)}
            self._show(wrong, [] if field else wrapped(str(error), self.width, "bad"))
        else:
            time = time_words(estimate_of(self._state, plan, request.repeat), request.repeat)
            pairs = f"{FIRST_LOOK} to {MOST_PAIRS}, of fresh processes"
            lasts = {"pairs": (pairs, "text")} if request.against else {"time": (time, "text")}
            self._show({}, self.fact_lines({"cases": (cases_words(plan), "text"), **lasts}))

    def _find_offers(self) -> None:
        found = offers_for(self._fields.code, self._typed, self._earlier) if self._is_at("code") else []
        if found != self._offers:
            self._offers, self._index = found, None

    def _show(self, wrong: Mapping[str, str], lines: Sequence[Spans]) -> None:
        keymap = self._state.keymap
        self.show_hints({name: keymap.with_keys(hint) for name, (_, hint) in FIELDS.items()}, wrong)
        does = "take" if self._index is not None else "run"
        keys = {"enter": does, "esc": "close, keep changes", "tab": "complete, next", "up down": "choose"}
        self.show_outcome(lines, {**keys, "ctrl+c": "cancel"})

    def _show_offers(self) -> None:
        """Show the offers around the chosen one."""
        top = max((self._index or 0) - MOST_OFFERS + 1, 0)
        lines = [self._offer_line(place) for place in range(top, min(top + MOST_OFFERS, len(self._offers)))]
        left = len(self._offers) - top - len(lines)
        lines += [((f"  and {left} more", "muted"),)] if left > 0 else []
        self.query_one("#offers", Lines).show_any(labelled("suggestions", lines, LABEL_WIDTH))

    def _offer_line(self, place: int) -> Spans:
        offer, width = self._offers[place], self.width - LABEL_WIDTH
        sign = self._glyphs.cursor if place == self._index else " "
        setup = f"   setup: {offer.fields.setup}" if offer.fields is not None and offer.fields.setup else ""
        source = " history" if offer.is_from_history else ""
        text = cut(f"{sign} {visible(offer.text)}{visible(setup)}", max(width - len(source), 10), self._glyphs)
        return ((text + source, "chosen"),) if place == self._index else ((text, "text"), (source, "muted"))

    def _is_at(self, name: str) -> bool:
        return self.focused is self.query_one(f"#{name}")

    # ---------------------------------------------------------------- keys

    def _move(self, step: int) -> None:
        """Choose the next or previous offer; without offers, go to the next or previous field."""
        self._find_offers()
        if not self._offers or (self._index is None and step < 0):
            self._go(step)
            return
        place = step - 1 if self._index is None else self._index + step
        self._index = None if place < 0 else min(place, len(self._offers) - 1)
        self.check()

    def _complete(self) -> None:
        """Take the chosen offer, or the only or longest common path; with nothing to complete, go to the next field."""
        self._find_offers()
        if self._index is not None:
            self._take(self._offers[self._index])
            return
        field = self.query_one("#code", Input)
        paths = [each.text for each in self._offers if each.fields is None]
        is_begun = self._is_at("code") and field.value.strip()
        common = commonprefix(paths) if is_begun else ""  # noqa: RUF071 - of names, too
        if len(common) > len(field.value.strip()):
            self._take(Offer(common))
        elif common:
            self._index = 0
            self.check()
        else:
            self._go(1)

    def _go(self, step: int) -> None:
        if step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def _take(self, offer: Offer) -> None:
        """Fill in an offer."""
        texts = asdict(offer.fields) if offer.fields is not None else {"code": offer.text}
        self._is_from_history = self._is_from_history or offer.is_from_history
        for name, text in texts.items():
            field = self.query_one(f"#{name}")
            if isinstance(field, Input):
                field.value = text
                field.cursor_position = len(text)
        if offer.fields is not None:
            self.query_one("#in_place", Choice).choose(offer.fields.in_place or "no")

    def submit(self) -> None:
        """Take the chosen offer, or close and run the code."""
        if self._index is not None:
            self._take(self._offers[self._index])
            return
        typed = self._fields
        try:
            request = request_of(typed, self._base)
            plan_of(request)
        except UsageError as error:
            field = error.field if isinstance(error, FieldError) and error.field in FIELDS else "code"
            self.query_one(f"#{field}").focus()
            self._show({field: str(error)}, [])
            return
        self.dismiss(Typed(typed, request, self._is_from_history))

    def action_leave(self) -> None:
        """Close without running anything, and keep what was typed."""
        self.dismiss(Typed(self._fields, None, self._is_from_history))


# ------------------------------------------------------------------ the box that asks whether to run code


FACT_WIDTH = 11
"""Cells of the labels."""

INPUTS = "inputs"
"""Name of the function that makes arguments."""

LONGEST_FILE = 200_000
"""Characters of a file that are shown."""


class CodeQuestion(Box[bool]):
    """Returns whether the code may run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "dismiss(True)"), ("escape,ctrl+c,q,n", "dismiss(False)"), ("j,down", "scroll('down')"),
        ("k,up", "scroll('up')"), ("pagedown", "scroll('page_down')"), ("pageup", "scroll('page_up')"),
        ("home,g", "scroll('home')"), ("end,G", "scroll('end')"),
    ]  # fmt: skip

    def __init__(
        self, codes: Sequence[OwnCode], changed: Sequence[str], since: str = "since that run", python: str | None = None
    ) -> None:
        """Ask about `codes`; `changed` are their files that have changed `since` something was done.

        `python` is the interpreter that will import their modules; None for this one.
        """
        super().__init__()
        self._codes, self._changed, self._since, self._python = codes, changed, since, python

    def compose(self) -> ComposeResult:
        """Yield the question, the code and the keys."""
        with Vertical(id="box") as box:
            box.border_title = "Run this code?"
            yield Lines(id="question")
            with VerticalScroll(id="code", can_focus=False):
                yield Lines(id="code-text")
            yield Lines(id="code-keys", classes="keys")

    def on_resize(self) -> None:
        """Wrap for the new width."""
        width = max(20, min(self.app.size.width, 100) - 6)
        lines = wrapped("This code was not typed in this app. Read it before you run it.", width, "strong")
        for file in self._changed:
            lines += wrapped(f"! {visible(file)} has changed {self._since}.", width, "warn")
        self.query_one("#question", Lines).show([*lines, ()])
        self.query_one("#code-text", Lines).show(list(code_lines(self._codes, width, self._python)))
        keys: Spans = (("enter", "key"), (" run  ", "text"), ("esc", "key"), (" cancel  ", "text"),
                       ("j k", "key"), (" scroll", "text"))  # fmt: skip
        self.query_one("#code-keys", Lines).show([(), keys])

    def action_scroll(self, move: str) -> None:
        """Scroll the code."""
        getattr(self.query_one("#code", VerticalScroll), f"scroll_{move}")(animate=False)


def code_lines(codes: Sequence[OwnCode], width: int, python: str | None = None) -> Iterator[Spans]:
    """Yield all that would run: setup, parameters and statement of each code, then the files that they import."""
    for code in codes:
        for label, text in _facts(code):
            for number, piece in enumerate(_cut(text, width - FACT_WIDTH)):
                yield ((f"{label if number == 0 else '':<{FACT_WIDTH}}", "muted"), (piece, "text"))
    for target in dict.fromkeys(code.target for code in codes if code.target):
        yield ()
        if target[0].endswith(".py"):
            yield from _text_lines(target[0], _file_lines(target[0]), width)
        else:
            yield from _module_lines(target[0], target[-1], width, python)


def _text_lines(title: str, lines: Sequence[str], width: int) -> Iterator[Spans]:
    yield from wrapped(visible(title), width, "title")
    yield from (((f"  {piece}", "text"),) for line in lines for piece in _cut(line, width - 2))


def _module_lines(module: str, name: str, width: int, python: str | None) -> Iterator[Spans]:
    """Yield the source of a module's function, and of `inputs` beside it, as far as files of this Python show it."""
    yield from wrapped(f"The interpreter imports the whole module {visible(module)}.", width, "warn")
    sources = {each: function_source(module, each) for each in dict.fromkeys((name, INPUTS)) if python is None}
    for source in sources.values():
        if source is not None:
            yield from _text_lines(f"{source.file}, line {source.line}", source.text.expandtabs(4).splitlines(), width)
    if sources.get(name) is None:
        why = f"another Python runs it: {python}" if python is not None else "no Python file defines it"
        yield from wrapped(f"The code of {visible(name)} is not shown, because {visible(why)}.", width, "warn")


def _facts(code: OwnCode) -> Iterator[tuple[str, str]]:
    """Yield label and text of everything in typed code that may change what runs."""
    yield "statement", code.statement
    for line in code.setup:
        yield "setup", line
    for name, value in code.lets:
        yield "parameter", f"{name} = {value}"
    if code.target:
        yield "function", f"{code.target[-1]} of {code.target[0]}"
    for each in fields(code):
        value = getattr(code, each.name)
        if value and each.name not in ("name", "statement", "setup", "lets", "target", "sha256", "setup_option"):
            text = shlex.join(value) if isinstance(value, tuple) else "yes" if value is True else str(value)
            yield each.name.replace("_", " "), text


def _cut(text: str, width: int) -> list[str]:
    """Cut code into lines of this width; blanks stay, because they mean something in Python."""
    return chop_cells(visible(text), max(width, 10)) or [""]


def _file_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            text = file.read(LONGEST_FILE + 1)
    except OSError as error:
        return [f"Cannot be read: {error.strerror}."]
    rest = [f"The file has more than {LONGEST_FILE:,} characters; the rest is not shown."]
    return text[:LONGEST_FILE].expandtabs(4).splitlines() + (rest if len(text) > LONGEST_FILE else [])
