"""Textual calls methods by name: `key_at` when `@` is pressed. Every such name of ours must be intended.

`TimingTable._key_at(row)` was called with a key and ended the app.
"""

import importlib
import inspect
import pkgutil

import pytest
from tests.helpers.app.fake_run import opened
from tests.helpers.app.fuzz import send_at_once
from textual.binding import Binding
from textual.message import Message
from textual.message_pump import MessagePump
from textual.reactive import Reactive

from cpugpu_tui import ui
from cpugpu_tui.ui.keys import COMMANDS


def own_classes():
    """Return every class of ours that receives Textual's messages."""
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(ui.__path__, f"{ui.__name__}.")]
    found = {each for module in modules for each in vars(module).values() if inspect.isclass(each)}
    return sorted((each for each in found if issubclass(each, MessagePump) and is_ours(each)), key=lambda c: c.__name__)


def is_ours(kind):
    return kind.__module__.startswith("cpugpu_tui.")


def descendants(kind):
    for each in kind.__subclasses__():
        yield each
        yield from descendants(each)


def inherits(kind, name):
    return any(name in vars(base) for base in kind.__mro__ if not is_ours(base))


def bound_actions(kinds):
    """Return the names of the actions of keys, buttons and commands."""
    bindings = [each for kind in kinds for each in vars(kind).get("BINDINGS", [])]
    texts = [each.action if isinstance(each, Binding) else each[1] for each in bindings]
    texts += [command.action for command in COMMANDS]
    return {text.partition("(")[0].rpartition(".")[2] for text in texts}


def meant(kind, name, handlers, actions):
    if inherits(kind, name):
        return True
    prefix, _, rest = name.lstrip("_").partition("_")
    if prefix == "on":
        parameters = inspect.signature(vars(kind)[name]).parameters
        return name.lstrip("_") in handlers and len(parameters) <= 2
    if prefix == "action":
        return rest in actions
    if prefix in ("watch", "validate", "compute"):
        return isinstance(inspect.getattr_static(kind, rest, None), Reactive)
    return prefix not in ("key", "handle")


def test_every_name_that_textual_calls_by_itself_is_meant():
    kinds = own_classes()
    assert len(kinds) > 40
    handlers = {each.handler_name for each in descendants(Message)}
    actions = bound_actions(kinds)
    accidents = [
        f"{kind.__qualname__}.{name}"
        for kind in kinds
        for name in vars(kind)
        if not name.startswith("__") and not meant(kind, name, handlers, actions)
    ]
    assert not accidents, f"Textual takes these for handlers, rename them: {', '.join(accidents)}"


@pytest.mark.parametrize("opens", ["", "enter"])
async def test_no_sign_on_the_keyboard_ends_the_app(opens):
    async with opened(ran=True) as pilot:
        for sign in "@~`|\\^_<>=%&*;$§ä\x80\ufffd":
            await to(pilot, opens)
            send_at_once(pilot.app, sign)
            await pilot.pause()
            assert pilot.app.is_running, sign


async def to(pilot, opens):
    while len(pilot.app.screen_stack) > 1:
        pilot.app.pop_screen()
    if opens:
        await pilot.press(opens)
