"""Checks of the terminal: how the app will look on it, and over which line."""

from __future__ import annotations

from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, ok, warn

LEAST_COLUMNS, LEAST_ROWS = 80, 24
"""The smallest terminal that shows every pane."""


def size(facts: Facts) -> Finding:
    """Judge whether the app can be drawn, and whether every pane fits."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("no terminal here; `cpugpu-tui run` prints text")
    found = f"{terminal.columns} x {terminal.rows}"
    if terminal.dumb:
        return warn(found, "TERM says that it cannot move its cursor.", "Use `cpugpu-tui run`, or set TERM rightly.")
    if terminal.columns < LEAST_COLUMNS or terminal.rows < LEAST_ROWS:
        return warn(found, f"Below {LEAST_COLUMNS} x {LEAST_ROWS} panes are left out.", "Make the window larger.")
    return ok(found)


def text(facts: Facts) -> Finding:
    """Judge whether block elements and arrows arrive as themselves."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("no terminal here")
    if terminal.utf8:
        return ok("UTF-8")
    return warn("ASCII", "Histories and marks are drawn with letters.", "Set a UTF-8 locale, like LANG=C.UTF-8.")


def colours(facts: Facts) -> Finding:
    """Say how many colours there are; nothing depends on them."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("no terminal here")
    words = {"none": "none (NO_COLOR)", "16": "16", "256": "256", "truecolor": "24 bits"}
    return ok(words[terminal.colours])


def session(facts: Facts) -> Finding:
    """Say whether the session outlives its line."""
    inside = [name for name, variable in (("tmux", "TMUX"), ("screen", "STY")) if facts.environ.get(variable)]
    remote = bool(facts.environ.get("SSH_CONNECTION") or facts.environ.get("SSH_TTY"))
    if not remote:
        return ok(f"local, in {inside[0]}" if inside else "local")
    if inside:
        return ok(f"SSH, in {inside[0]}")
    return warn(
        "SSH, in neither tmux nor screen",
        "When the line breaks the run ends with it; its finished cases are kept.",
        "Start long runs in tmux or screen.",
    )
