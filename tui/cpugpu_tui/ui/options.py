"""What the app is started with, and what it leaves behind."""

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
    """The command line of the app."""

    request: PlanRequest = field(default_factory=PlanRequest)
    """What is highlighted at the start."""
    python: str | None = None
    """Interpreter of the agent; None for this one."""
    worker: str = "process"
    """`process` or `thread`."""
    database: Path | None = None
    """Database that the person named; None for the default place."""
    save: bool = True
    theme: str | None = None
    """Name of a theme; None for the default."""
    config_dir: Path | None = None
    """Folder whose `themes` are the person's own."""
    log_path: Path | None = None
    """File for what libraries print while the screen is ours; None for the default place."""
    replay: Trace | None = None
    """What the telemetry pane shows in place of this machine; then nothing can be run."""
    ceilings: bool = True
    """Whether a run may measure what `limited by` needs, where the history lacks it."""
    keymap: Keymap = DEFAULT_KEYMAP
    """Which key does what."""
    demo: Recording | None = None
    """Runs to be played in place of any of this machine."""
    demo_pace: float | None = None
    """How many times as fast as they were recorded; None for the demo's own pace."""


@dataclass(frozen=True)
class FleetOptions:
    """How the app of a fleet looks."""

    theme: str | None = None
    """Name of a theme; None for the default."""
    config_dir: Path | None = None
    """Folder whose `themes` are the person's own."""
    keymap: Keymap = DEFAULT_KEYMAP


@dataclass(frozen=True)
class AppResult:
    """What a person takes along."""

    run: RunState
    """The last run; without rows if none was started."""
    number: int | None
    """Its number in the database, None if it is not saved."""
    notice: str | None = None
    """Why it is not saved, or what else the person should know."""
    exit_code: int = 0
    """129 or 143 after a signal, 1 after a crash of the app."""
    outbox: Outbox | None = None
    """The way into the history, still open for what is not saved yet; None where nothing is saved."""
