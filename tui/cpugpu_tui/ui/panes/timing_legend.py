"""Signs in the table where a word has no room, and the line below the table that explains them."""

from __future__ import annotations

from collections.abc import Collection

from cpugpu_tui.decide.verdict import TOO_FEW, UNDECIDED
from cpugpu_tui.render.gpus import row_standings
from cpugpu_tui.render.insight import written
from cpugpu_tui.render.marks import all_marks
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.packed import same
from cpugpu_tui.state.state import Row, RunState
from cpugpu_tui.ui.key_overrides import Keymap
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.row_names import NOT_SAVED

ODD, BAD, OPEN = "~", "!", "?"
"""Signs of a disturbed time, of a problem, and of a row without a winner."""

SLOW, NO_CORE, IMPOSSIBLE, CLOSE, FEW, BARS = "slow", "no core", "impossible", "close", "few", "bars"
"""Meanings of the signs; keys of `MEANINGS`."""

MEANINGS = {
    ODD: (ODD, "less certain ({open} shows why)"),
    CLOSE: (OPEN, "too close to call"),
    FEW: (OPEN, "too few rounds"),
    NO_CORE: (BAD, "threads waited for a core"),
    SLOW: (BAD, "slower than equal GPUs"),
    IMPOSSIBLE: (BAD, "faster than this machine can be"),
    NOT_SAVED: (NOT_SAVED, "not saved yet"),
    BARS: ("rounds:", "the last ones, CPU left, GPU right"),
}
"""Meaning → sign and words, in the order of the line."""


def is_odd(row: Row, times: DeviceTimes) -> bool:
    """Whether a device's time has any mark; the detail page lists them."""
    return bool(all_marks(row, times))


def is_impossible(run: RunState, row: Row) -> bool:
    """Whether the paper's clock shows a rate above this machine's peak."""
    times = row.gpu or row.cpu
    judged = written(run, row, times) if times is not None else None
    return judged is not None and judged.impossible_factor is not None


def signs_of(run: RunState, row: Row) -> frozenset[str]:
    """Return the meanings of the signs in a row: keys of `MEANINGS`."""
    verdict = row.comparison.verdict if row.comparison is not None else ""
    has = {
        ODD: row.status != "mismatch" and any(is_odd(row, times) for times in row.times.values()),
        CLOSE: verdict == UNDECIDED,
        FEW: verdict == TOO_FEW and row.status not in ("active", "pending"),
        NO_CORE: row.is_starved,
        SLOW: any(standing.is_slow for standing in row_standings(run, row).values()),
        IMPOSSIBLE: is_impossible(run, row),
        NOT_SAVED: not row.saved,
    }
    signs: frozenset[str] = same(frozenset(sign for sign, is_there in has.items() if is_there))
    return signs


def legend(signs: Collection[str], width: int, keymap: Keymap) -> Spans:
    """Return `~ less certain, enter says why  ? too close to call`: those of `signs` that fit."""
    spans: list[tuple[str, str]] = []
    signs_so_far: list[str] = []
    for sign, (drawn, words) in MEANINGS.items():
        if sign not in signs:
            continue
        # A sign with two meanings is written once: `? too close to call or too few rounds`.
        words = keymap.with_keys(words)
        is_again = signs_so_far[-1:] == [drawn]
        text = f" or {words}" if is_again else f"{'   ' if signs_so_far else ''}{drawn} {words}"
        if sum(len(part) for part, _ in spans) + len(text) > width:
            break
        spans.append((text, "muted"))
        signs_so_far.append(drawn)
    return tuple(spans)
