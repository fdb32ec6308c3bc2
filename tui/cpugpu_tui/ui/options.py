"""Options and result of the app."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.key_overrides import DEFAULT_KEYMAP, Keymap

if TYPE_CHECKING:
    from cpugpu_tui.demo.recording import Recording
    from cpugpu_tui.store.outbox import Outbox
    from cpugpu_tui.telemetry.recording import Trace


@dataclass(frozen=True)
class AppOptions:
    """Options from the app's command line."""

    request: PlanRequest = field(default_factory=PlanRequest)
    """The request that is highlighted at the start."""
    python: str | None = None
    """Interpreter of the agent; None for the current one."""
    worker: str = "process"
    """`process` or `thread`."""
    database: Path | None = None
    """Database file; None for the default."""
    save: bool = True
    theme: str | None = None
    """Name of a theme; None for the default."""
    config_dir: Path | None = None
    """Folder with the user's `themes`."""
    log_path: Path | None = None
    """File for output of libraries while the app is open; None for the default."""
    replay: Trace | None = None
    """Recorded telemetry to show in place of this machine's; then nothing can be run."""
    ceilings: bool = True
    """Whether a run may measure the peak rates for `limited by` if the history lacks them."""
    keymap: Keymap = DEFAULT_KEYMAP
    """Keys by command."""
    demo: Recording | None = None
    """Recorded runs to play in place of new ones."""
    demo_pace: float | None = None
    """Speed of the playback relative to the recording; None for the demo's default."""


@dataclass(frozen=True)
class FleetOptions:
    """Theme and keys of a fleet's app."""

    theme: str | None = None
    """Name of a theme; None for the default."""
    config_dir: Path | None = None
    """Folder with the user's `themes`."""
    keymap: Keymap = DEFAULT_KEYMAP


@dataclass(frozen=True)
class AppResult:
    """What the app returns when it ends."""

    run: RunState
    """The last run; without rows if none was started."""
    number: int | None
    """Its number in the database; None if it is not saved."""
    notice: str | None = None
    """Why it is not saved, or another notice."""
    exit_code: int = 0
    """129 or 143 after a signal, 1 after a crash of the app."""
    outbox: Outbox | None = None
    """Saves runs to the history, still open for unsaved ones; None if nothing is saved."""
