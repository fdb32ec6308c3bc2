"""Threads that lack a core in a case: which half-rounds are repeated, and what one thread takes beside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpugpu_tui.machine.schedstat import Waited
from cpugpu_tui.model import DiscardedHalfRound
from cpugpu_tui.timing.host_watch import is_starved, lacks_core

if TYPE_CHECKING:
    pass

RESTS_S = (0.0, 0.05, 0.25)
"""Rest before each repetition of a starved half-round, seconds. On an idle 16-core machine 2 of 32 runs of `quick`
had a row marked `no-core` without rests, and 0 of 9 with these."""

REPEATS = len(RESTS_S)

READING_S = 0.005
"""Rest after an event was written out, seconds, while whoever reads it takes a core. Without it an idle two-core
machine repeated 77 half-rounds in 18 runs of `quick`, with 2 ms 36, with 5 ms 21, with 20 ms 33."""


@dataclass
class CoreLack:
    """What the threads of one device lacked in one case."""

    waited: Waited = field(default_factory=lambda: Waited(0.0, 0.0))
    """Of all half-rounds above the limit."""
    discarded: list[DiscardedHalfRound] = field(default_factory=list)
    stays: bool = False
    """Whether a thread still lacked a core in a last repetition: then the case has no result on this device."""
    _repeats: int = 0
    _is_in_vain: bool = False
    """Whether a half-round was still starved after its repetitions. From then on only one whose thread lacks a core is
    repeated."""

    def is_to_repeat(
        self, waited: Waited | None, round_index: int, samples: dict[str, tuple[float, ...]], *, can_repeat: bool
    ) -> bool:
        """Whether a half-round is thrown away and taken again; it is noted if it was starved.

        Once the case has no result none is repeated any more: it would take four times as long and change nothing.
        """
        if waited is None or not is_starved(waited):
            self._repeats = 0
            return False
        self.waited += waited
        is_worth_it = lacks_core(waited) or not self._is_in_vain
        if not can_repeat or self.stays or self._repeats >= REPEATS or not is_worth_it:
            self._repeats, self._is_in_vain = 0, True
            self.stays = self.stays or lacks_core(waited)
            return False
        self._repeats += 1
        self.discard(waited, round_index, samples)
        return True

    @property
    def rest_s(self) -> float:
        """How long to rest before the repetition that was just decided."""
        return RESTS_S[self._repeats - 1]

    def discard(self, waited: Waited | None, round_index: int, samples: dict[str, tuple[float, ...]]) -> None:
        """Note a half-round that is thrown away."""
        share = waited.share if waited is not None else 0.0
        self.discarded.append(DiscardedHalfRound(round_index, share, samples))
