"""A box over the screen that asks for something and goes: themes, a question, a form, the palette."""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen

T = TypeVar("T")


class Box(ModalScreen[T]):
    """Closes once, whatever was typed ahead."""

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close and hand over the result; a box that has closed, or stands behind another one, stays as it is.

        Textual pops whatever is on top: the second enter of a quick hand closed the main screen, which ended the app.
        """
        return super().dismiss(result) if self.is_current else AwaitComplete()
