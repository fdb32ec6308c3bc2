"""The demo in virtual time: due times, pauses, skips and the final state."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from cpugpu_tui.demo.recording import Clock, Player, Recording, lasted_s, pace_of, shipped
from cpugpu_tui.model import DeviceSampled, Event, Gap, RunFinished, RunStarted
from cpugpu_tui.state.state import RunState


class VirtualClock(Clock):
    """A clock that advances only in waits."""

    def __init__(self):
        self.s = 1000.0
        self.at_pause: Callable[[], None] = lambda: None
        """Called in place of a wait that only another thread would end."""

    def now_s(self):
        return self.s

    def wait(self, changed, seconds):
        if seconds is None:
            self.at_pause()
        else:
            self.s += seconds


Log = list[tuple[float, Event]]


def play(recording, pace, at=lambda *_: None):
    """Play it all; return each event with its second, the end, and the clock. `at` is called with every event."""
    clock = VirtualClock()
    begun_s = clock.s
    log: Log = []
    playing = Player(recording, pace, clock=clock)

    def deliver(event):
        log.append((clock.s - begun_s, event))
        at(playing, clock.s - begun_s, event)

    clock.at_pause = playing.resume
    return log, playing.run(deliver), clock


def spans(log):
    """Return the seconds at which each run began and ended."""
    starts = [at_s for at_s, event in log if isinstance(event, RunStarted)]
    return list(zip(starts, (at_s for at_s, event in log if isinstance(event, RunFinished)), strict=True))


@pytest.fixture(scope="module")
def whole():
    return shipped()


@pytest.fixture(scope="module")
def two(whole):
    """The two shortest runs."""
    return Recording(tuple(sorted(whole.runs, key=lambda run: len(run.events))[:2]))


# ------------------------------------------------------------------ the pace


def test_by_itself_the_search_takes_20_s_and_all_of_it_90(whole):
    log, finished, clock = play(whole, None)
    (_, quick_s), *_ = times = spans(log)
    assert quick_s == pytest.approx(20, abs=0.01)
    assert clock.s - 1000 == pytest.approx(90, abs=0.1)
    assert finished.status == "done"
    pauses = [start_s - end_s for (_, end_s), (start_s, _) in pairwise(times)]
    assert pauses == pytest.approx([3.0] * 10), "time to read each answer"
    lengths = [lasted_s(run) for run in whole.runs[1:]]
    scaled = [(end_s - start_s) ** 2 / length for (start_s, end_s), length in zip(times[1:], lengths, strict=True)]
    assert scaled == pytest.approx([scaled[0]] * 10), "a run of four times the length takes twice as long"


@pytest.mark.parametrize(("pace", "factor"), [("original", 1.0), ("2", 2.0), ("0.5", 0.5)])
def test_at_a_pace_of_ones_own_every_event_comes_in_its_time(two, pace, factor):
    log, _, _ = play(two, pace_of(pace))
    for (start_s, _), run in zip(spans(log), two.runs, strict=True):
        begun_ns = run.started.mono_ns
        due = {event.seq: start_s + (event.mono_ns - begun_ns) / 1e9 / factor for event in run.events}
        seen = {event.seq: at_s for at_s, event in log if event in run.events and isinstance(event, DeviceSampled)}
        assert len(seen) == sum(isinstance(event, DeviceSampled) for event in run.events)
        assert all(at_s == pytest.approx(due[seq], abs=0.05) for seq, at_s in seen.items())


# ------------------------------------------------------------------ what is told


def test_the_end_of_each_run_is_the_state_that_was_recorded(whole):
    state, ends = RunState(), []
    for _, event in play(whole, None)[0]:
        state = state.apply(event)
        if isinstance(event, RunFinished):
            ends.append(state)
    assert ends == [run.state for run in whole.runs]


# ------------------------------------------------------------------ what a person asks for


def test_a_pause_holds_it_where_it_is_and_puts_the_rest_off(two):
    asked: list[float] = []

    def pause_at_five(playing, at_s, _):
        if at_s > 5 and not asked:
            asked.append(at_s)
            playing.pause()

    plain, _, _ = play(two, 1.0)
    clock_jump_s = 60.0
    clock = VirtualClock()
    log: Log = []
    playing = Player(two, 1.0, clock=clock)

    def deliver(event):
        log.append((clock.s - 1000, event))
        pause_at_five(playing, clock.s - 1000, event)

    def hours_later():
        clock.s += clock_jump_s
        playing.resume()

    clock.at_pause = hours_later
    playing.run(deliver)
    (paused_s,) = asked
    assert [event for _, event in log] == [event for _, event in plain], "nothing is lost"
    for (with_s, event), (without_s, _) in zip(log, plain, strict=True):
        late_s = with_s - without_s
        if without_s < paused_s:
            assert late_s == 0
        elif without_s > paused_s + 0.01:
            assert late_s == pytest.approx(clock_jump_s, abs=1e-6), event


def test_a_skip_goes_to_the_end_of_the_run_with_all_that_was_measured(two):
    def skip_at_two(playing, at_s, event):
        if 2 < at_s < 2.6 and isinstance(event, Gap):
            playing.stop()

    log, finished, _ = play(two, 1.0, skip_at_two)
    (_, first_end_s), (second_s, second_end_s) = spans(log)
    assert first_end_s < 2.6
    assert second_s == pytest.approx(first_end_s + 3)
    assert second_end_s - second_s == pytest.approx(lasted_s(two.runs[1]), abs=0.05), "the next one takes its time"
    state = RunState()
    for _, event in log:
        state = state.apply(event)
        if isinstance(event, RunFinished):
            break
    assert state == two.runs[0].state
    assert finished.status == "done"
