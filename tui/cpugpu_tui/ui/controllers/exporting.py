"""Copies a row or a command to the clipboard of the user's terminal, and writes a run to a file.

The terminal takes a text by the escape sequence OSC 52, also over ssh. tmux reads the sequence itself if
`set-clipboard` is on, and passes it through in an envelope if `allow-passthrough` is. screen has its own envelope.
Programs ignore forms that they do not know, so each form that may be needed is sent. No terminal reports whether it
took the text.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cpugpu_tui.session.repeat import repeat_text, why_no_command
from cpugpu_tui.ui.controllers.app_port import Port
from cpugpu_tui.ui.live.saved_runs import SavedRuns

if TYPE_CHECKING:
    from cpugpu_tui.thresholds import Thresholds

THRESHOLDS = Path("thresholds.json")
"""The file that the answer names, written by `cpugpu-tui thresholds make` and by the export of a search."""

SCREEN_ROOM = 240
"""Bytes in one envelope for screen, which drops sequences longer than 256."""


def envelope(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that makes tmux or screen pass `text` through; empty without them."""
    plain = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\a"
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith("tmux"):
        doubled = plain.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    # Over ssh, tmux often also sets TERM=screen; it takes the plain form.
    if environ.get("STY") or term.startswith("screen"):
        pieces = (plain[start : start + SCREEN_ROOM] for start in range(0, len(plain), SCREEN_ROOM))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return ""


def way(environ: Mapping[str, str]) -> str:
    """Return the condition for the text to arrive."""
    if environ.get("TMUX") or environ.get("TERM", "").startswith("tmux"):
        return "tmux and the terminal allow it"
    return "screen and the terminal allow it" if environ.get("STY") else "the terminal allows it"


class Exporting:
    """Exports the shown run; between runs only, because writing disturbs timing."""

    def __init__(self, port: Port, saved_runs: Callable[[], SavedRuns], copy: Callable[[str], object]) -> None:
        """`saved_runs` is called on threads; `copy` sends a text to the terminal's clipboard."""
        self._port, self._saved_runs, self._copy = port, saved_runs, copy

    def copy_row(self) -> None:
        """Copy the highlighted row as a Markdown table to the terminal's clipboard (OSC 52)."""
        from cpugpu_tui.export.markdown import table

        state = self._port.state
        row = state.run.rows.get(state.cursor or "")
        if row is None:
            self._port.say("No row is highlighted.")
            return
        self._copy("\n".join([*table(state.run, [row]), ""]))
        self._port.say(f"Row sent to the clipboard, if {way(os.environ)}.")

    def copy_command(self) -> None:
        """Copy the command that repeats the shown run to the terminal's clipboard."""

        started = self._port.state.run.run
        if started is not None:
            command = repeat_text(started)
            if not command:
                self._port.say(why_no_command(started))
                return
            self._copy(command)
            self._port.say(f"Copied, if {way(os.environ)}: {command}")

    def ask(self) -> None:
        """Ask for a file and write the shown run."""
        from cpugpu_tui.ui.screens.form import ExportForm

        started = self._port.state.run.run
        if started is None:
            return

        def write(path: Path | None) -> None:
            if path is not None:
                self.write(started.run_id, path)

        self._port.push_screen(ExportForm(f"{started.plan.name}-{started.run_id}.md".replace(os.sep, "_")), write)

    def write(self, run_id: str, path: Path) -> None:
        """Write a saved run in the format of the file's suffix, and show a notice."""

        def body() -> Path:
            from cpugpu_tui.export import formats, target
            from cpugpu_tui.export.stream import exported

            run = exported(self._saved_runs().store.load(run_id))
            name = formats.required_format_of(path)
            if name == formats.THRESHOLDS:
                from cpugpu_tui.export.thresholds import add_to

                add_to(path, run.state)
            else:
                target.write(path, formats.rendered(name, [run]))
            return path

        def written(path: Path) -> None:
            self._port.say(f"Wrote {path}")
            self.read_thresholds()

        self._port.in_background("export", body, written, lambda error: self._port.change(problem=error))

    def read_thresholds(self, _: object = None) -> None:
        """Read the file of thresholds in the current folder, if there is one. A damaged one counts as none."""
        # A pipe would be waited for, and in a folder without permission `Path.exists` raises.
        if not os.path.isfile(THRESHOLDS) and self._port.state.thresholds is None:
            return

        def body() -> Thresholds | None:
            from cpugpu_tui.thresholds import ThresholdsError, load

            try:
                return load(THRESHOLDS, {})
            except ThresholdsError:
                return None

        def keep(found: Thresholds | None) -> None:
            self._port.change(thresholds=found)

        self._port.in_background("thresholds", body, keep, lambda _: None)
