"""Saves the runs of a command, and reports at the end what could not be saved."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from cpugpu_tui.cli.running.options import RunOptions
from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_UNFIT, LockedError, StoreError
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import Store, open_store
from cpugpu_tui.store.outbox import Outbox, Unsaved

LAST_TRY_S = 10.0
"""How long a command waits at its end for a locked database."""

STOPPED_TRY_S = 2.0
"""The same after ctrl+c. After SIGTERM or SIGHUP, which end the process within 2 s, saving is tried once."""


@contextmanager
def saving(options: RunOptions) -> Iterator[Outbox | None]:
    """Yield the outbox of the history, or None with --no-save. A history that cannot be opened is tried again later."""
    if not options.save:
        yield None
        return
    store = None
    with suppress(StoreError):  # the outbox tries again, and reports the reason at the end
        store = open_store(options.database)
    with way_into(options.database, store) as outbox:
        yield outbox


def way_into(database: Path | None, store: Store | None, *, keep_aside: bool = True) -> AbstractContextManager[Outbox]:
    """Return the outbox of a history as a context manager."""
    return closed(Outbox(lambda wait_s: open_store(database, keep_aside=keep_aside, wait_s=wait_s), store))


@contextmanager
def closed(outbox: Outbox) -> Iterator[Outbox]:
    """Close an outbox at the end. After an exception, try once more to save what waits."""
    try:
        yield outbox
    except BaseException:
        outbox.flush(0)
        raise
    finally:
        with suppress(StoreError):
            outbox.close()


def as_saved(state: RunState, unsaved: Unsaved | None, remark: str | None) -> tuple[RunState, str | None, bool]:
    """Return the state with its saved number, the notice about saving, and whether the run is saved completely."""
    if unsaved is None or state.run is None:
        return state, remark, state.run is not None and state.run.number is not None
    run_id = state.run.run_id
    marked = state.with_saving(unsaved.numbers.get(run_id), unsaved.cases.get(run_id, ()))
    return marked, unsaved.text or remark, not unsaved


def remark_of(outbox: Outbox | None) -> str | None:
    """Return the notice about opening the history, if any."""
    return outbox.store.remark if outbox is not None and outbox.store is not None else None


def save_rest(outbox: Outbox | None, code: int) -> int:
    """Save what waits, print on stderr what cannot be saved, and return the exit code of the command.

    If something is not saved, 0 becomes 4. Other exit codes say more and stay.
    """
    if outbox is None or not (before := outbox.unsaved):
        return code
    limit_s = 0.0
    if isinstance(before.cause, LockedError) and (code <= 128 or code == EXIT_INTERRUPTED):
        limit_s = STOPPED_TRY_S if code == EXIT_INTERRUPTED else LAST_TRY_S
        _say(f"Not saved yet: {before.cause} Trying again for up to {limit_s:g} s.")
    try:
        outbox.flush(limit_s)
    except KeyboardInterrupt:
        code = code or EXIT_INTERRUPTED
    left = outbox.unsaved
    _say(_missing(left) if left else _saved(before, left))
    return code or (EXIT_UNFIT if left else 0)


def _say(text: str) -> None:
    with suppress(OSError):  # after a hang-up there is no terminal
        print(text, file=sys.stderr, flush=True)


def _saved(before: Unsaved, now: Unsaved) -> str:
    numbers = sorted(now.numbers[run_id] for run_id in before.waiting if run_id in now.numbers)
    if not numbers:
        return "Everything is saved now."
    return f"Saved now: run{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}."


def _missing(left: Unsaved) -> str:
    """Return what is not saved, and the reason."""
    cases = sum(map(len, left.cases.values()))
    if not cases:
        return left.final_text
    runs = dict.fromkeys(left.cases)
    numbers = [str(left.numbers[run_id]) for run_id in runs if run_id in left.numbers]
    which = (f" of run {numbers[0]}" if numbers else "") if len(runs) == 1 else f" of {len(runs)} runs"
    lack = "1 case" if cases == 1 else f"{cases:,} cases"
    return f"{left.final_text} {lack}{which} {'was' if cases == 1 else 'were'} not saved."
