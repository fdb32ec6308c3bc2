"""`history`, `show`, `rm`, `tag`: past runs, as tables or JSON lines, and what is done with them.

A list needs neither agents nor the tables of a run: with them it took 0.6 s, of which 0.25 s were imports.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
from rich.table import Table

from cpugpu_tui.cli.json_lines import print_json
from cpugpu_tui.cli.table_style import add_columns, console, new_table, plain, tell
from cpugpu_tui.errors import UsageError, print_notice
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import counted, duration
from cpugpu_tui.store import RunSummary, Store, open_store, open_to_read

LISTED = 20
"""Runs that a dry run names one by one."""

LONGEST_TAG = 40
"""Characters: a tag is a word of a table."""


@contextmanager
def reading(database: Path | None) -> Iterator[Store]:
    """Open the history for a command that writes nothing, and say on stderr what opening did."""
    with _closing(open_to_read(database)) as store:
        yield store


@contextmanager
def writing(database: Path | None, *, keep_aside: bool = False) -> Iterator[Store]:
    """Open the history for a command that changes runs in it; `keep_aside` for one that brings runs.

    Raises:
        StoreError: it cannot be opened, or nothing can be written to it.
    """
    with _closing(open_store(database, keep_aside=keep_aside)) as store:
        yield store


@contextmanager
def _closing(store: Store) -> Iterator[Store]:
    try:
        say_remark(store)
        yield store
    finally:
        store.close()


def say_remark(store: Store) -> None:
    """Say on stderr what opening did to the file, if it did something."""
    if store.remark:
        print_notice(f"cpugpu-tui: {store.remark}")


# ------------------------------------------------------------------ looking


def print_history(
    database: Path | None, limit: int, *, text: str = "", tags: Sequence[str] = (), as_json: bool
) -> None:
    """Print past runs, newest first: those whose name, status, machine, id, tags or devices have all words of `text`.

    Raises:
        StoreError: the history cannot be read.
    """
    with reading(database) as store:
        runs = store.runs(limit, text=text, tags=tags)
        total, size = store.count(), store.size_bytes
    if as_json:
        for run in runs:
            print_json(msgspec.to_builtins(run))
        return
    if runs:
        console().print(history_table(runs))
    if not total:
        tell("No runs yet. `cpugpu-tui run` makes the first.")
    elif text or tags:
        match = "matches" if len(runs) == 1 else "match"
        more = f", the {limit:,} newest are shown" if len(runs) == limit else ""
        tell(f"{len(runs):,} of {runs_text(total)} {match}{more}; {store.path} has {megabytes(size)}.")
    else:
        newest = f"The {len(runs):,} newest of " if len(runs) < total else ""
        tell(f"{newest}{runs_text(total)}; {store.path} has {megabytes(size)}.")


def history_table(runs: Sequence[RunSummary]) -> Table:
    """Return one row per run, newest first."""
    table = new_table()
    add_columns(table, "run", justify="right")
    add_columns(table, "started", "what", "status")
    add_columns(table, "cases", "took", justify="right")
    add_columns(table, "devices")
    with_hosts = any(run.fleet_host for run in runs)
    if with_hosts:
        add_columns(table, "host")
    words = [[*(f"baseline {name}" for name in run.baselines), *run.tags] for run in runs]
    if any(words):
        add_columns(table, "tags")
    for run, tags in zip(runs, words, strict=True):
        started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
        cases = f"{run.cases_ok} ok" + (f", {run.cases_failed} failed" if run.cases_failed else "")
        table.add_row(
            str(run.number), f"{started:%Y-%m-%d %H:%M:%S}", run.name, run.status, cases,
            plain("–") if run.duration_ns is None else duration(run.duration_ns / 1e9),
            plain(" · ".join(counted(run.devices))), *([plain(printable(run.fleet_host or "–"))] if with_hosts else []),
            *([plain(", ".join(tags))] if any(words) else []),
        )  # fmt: skip
    return table


def runs_text(count: int) -> str:
    """Return a number of runs in words."""
    return f"{count:,} run{'' if count == 1 else 's'}"


def megabytes(size_bytes: int) -> str:
    """Return the size of a file, as `doctor` says it."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"


def print_run(name: str, database: Path | None, *, as_json: bool) -> None:
    """Print a past run as its table, or as its events.

    Raises:
        StoreError: the history cannot be read.
        UsageError: there is no such run, or several.
    """
    from cpugpu_tui.model import RunFinished
    from cpugpu_tui.state.folding import folded

    with reading(database) as store:
        events = store.load(store.find(name))
    state = folded(events)
    if not as_json:
        from cpugpu_tui.cli.tables import print_state

        print_state(state)
        return
    from cpugpu_tui.cli.run import print_answer
    from cpugpu_tui.transport.wire import encode

    is_over = bool(events) and isinstance(events[-1], RunFinished)
    for event in events[:-1] if is_over else events:
        sys.stdout.buffer.write(encode(event))
    # As `run --json` has it: the end of the run is the end of the stream.
    print_answer(state)
    if is_over:
        sys.stdout.buffer.write(encode(events[-1]))


# ------------------------------------------------------------------ changing


def remove(names: Sequence[str], database: Path | None, *, force: bool) -> None:
    """Delete runs: all that are named or, if one cannot be, none.

    Raises:
        UsageError: one is not there, is running, or is a baseline's; the last two yield to `force`.
        StoreError: the history cannot be written.
    """
    with writing(database) as store:
        run_ids = list(dict.fromkeys(store.find(name) for name in names))
        runs = [store.summary(run_id) for run_id in run_ids]
        for run in runs:
            if run.baselines and not force:
                raise UsageError(
                    f"Run {run.number} is of the baseline {run.baselines[0]!r}.",
                    "Name another series as the baseline first, or delete it all the same with --force.",
                )
        store.delete_all(run_ids, force=force)
    tell(f"Deleted {'run' if len(runs) == 1 else 'runs'} {', '.join(str(run.number) for run in runs)}.")


def prune(database: Path | None, keep: int | None, older_than: str | None, *, sure: bool, as_json: bool) -> None:
    """Delete old runs, or without `sure` only say which; what has a tag, is a baseline's or runs is spared.

    Raises:
        UsageError: neither a number nor an age was given, or the age is none.
        StoreError: the history cannot be read, or written.
    """
    from cpugpu_tui.store.maintenance import age_ns, pruning

    if keep is None and older_than is None:
        raise UsageError("What is old has to be said.", "Write --keep 100, or --older-than 30d, or both.")
    before = time.time_ns() - age_ns(older_than) if older_than is not None else None
    with (writing if sure else reading)(database) as store:
        found = pruning(store.runs(), keep, before)
        size = store.size_bytes
        if sure and found.going:
            store.delete_all([run.run_id for run in found.going])
            store.shrink()
        size_after = store.size_bytes
    if as_json:
        for run in found.going:
            print_json(msgspec.to_builtins(run))
        return
    spared = f" {runs_text(len(found.spared))} with a tag, of a baseline or running stay." if found.spared else ""
    if not found.going:
        tell(f"Nothing to delete.{spared}")
    elif sure:
        sizes = f"{store.path} has {megabytes(size_after)}, it had {megabytes(size)}"
        tell(f"Deleted {runs_text(len(found.going))}: {sizes}.{spared}")
    else:
        console().print(history_table(found.going[:LISTED]))
        more = f"{len(found.going) - LISTED:,} more and these: " if len(found.going) > LISTED else ""
        tell(f"{more}{runs_text(len(found.going))} would be deleted; add --yes to do it.{spared}")


def merge_from(path: Path, database: Path | None, *, as_json: bool) -> None:
    """Copy the runs of another database into the history.

    Raises:
        UsageError: there is no such file, or it is the history itself.
        StoreError: one of the databases cannot be read, or ours not written.
    """
    from cpugpu_tui.store.maintenance import merge

    with writing(database, keep_aside=True) as store:
        merged = merge(store, path)
    if as_json:
        print_json(msgspec.to_builtins(merged))
        return
    said = [f"{runs_text(merged.added)} added"]
    said += [f"{merged.known:,} known already"] if merged.known else []
    said += [f"{merged.running:,} still running and left out"] if merged.running else []
    said += [f"the baseline {name!r} stays what it was here" for name in merged.baselines]
    tell(f"{'; '.join(said)}.")


def change_tags(name: str, changes: Sequence[str], database: Path | None, *, as_json: bool) -> None:
    """Give a run tags (`+word`) and take some from it (`-word`); without any, only say those that it has.

    Raises:
        UsageError: there is no such run, or a change is neither.
        StoreError: the history cannot be read, or written.
    """
    wanted = [(change[:1], tag_word(change)) for change in changes]
    with (writing if changes else reading)(database) as store:
        run_id = store.find(name)
        if changes:
            # The last word on a tag counts, as in `+a -a`.
            last = {tag: sign for sign, tag in wanted}
            store.tag(
                run_id, [t for t, sign in last.items() if sign == "+"], [t for t, sign in last.items() if sign == "-"]
            )
        run = store.summary(run_id)
    if as_json:
        print_json({"number": run.number, "run_id": run.run_id, "tags": list(run.tags)})
    else:
        tell(f"Run {run.number}: {', '.join(run.tags) or 'no tags'}.")


def tag_word(change: str) -> str:
    """Return the tag of `+word` or `-word`.

    Raises:
        UsageError: the sign is missing, or it is no word of a table.
    """
    sign, word = change[:1], change[1:]
    if sign not in ("+", "-"):
        raise UsageError(f"{change!r} neither gives nor takes a tag.", "Write +word to give it, -word to take it.")
    if not word or len(word) > LONGEST_TAG or word != printable(word) or any(c.isspace() or c == "," for c in word):
        raise UsageError(f"{word!r} is no tag.", f"A tag is one word of at most {LONGEST_TAG} characters.")
    return word
