"""The text of the panes, as pure functions of the state."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.helpers.app.fake_run import DEVICES, ENVIRONMENT, done_run, finished, opened, readings, rounds, settled
from tests.helpers.app.looking import reads
from tests.helpers.app.looking import text_of as shown_by
from tests.helpers.golden import assert_golden, paragraphs
from tests.readme.blocks import keys as keys_table

from cpugpu_tui.model import Case, CaseFailed, CaseStarted, DevicesFound, Plan, Progressed, RunStarted
from cpugpu_tui.render.columns import Key
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState, TelemetryState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.keys import COMMANDS, Situation, keys_text
from cpugpu_tui.ui.panes import timings_pane
from cpugpu_tui.ui.panes.lines import fitted, in_whole_words, plain, rich_text, width_of
from cpugpu_tui.ui.panes.status import keys_line, status_line
from cpugpu_tui.ui.panes.telemetry.arrangements import telemetry_lines
from cpugpu_tui.ui.panes.timing_columns import columns, shape_of
from cpugpu_tui.ui.panes.workload import Entry, parameter_lines

CASES = tuple(Case("matmul", size) for size in (16, 64, 256))


def run_of(*events, cases=CASES):
    """The state after these events of a run."""
    started = RunStarted(run_id="id", series_id="s", plan=Plan("quick", cases), environment=ENVIRONMENT, number=3)
    return folded([started, DevicesFound(devices=DEVICES), *events])


def cells_of(run, index=0):
    """The cells of a row as text."""
    row = list(run.rows.values())[index]
    look = rows.look_of(run, UNICODE, 11)
    return {key: plain(spans) for key, spans in rows.cells(row, look, run).items()}


# ------------------------------------------------------------------ rows


def without_gpu(*events):
    """A run on a machine without a GPU."""
    alone = [event for event in events if getattr(event, "device", "") != "cuda:0"]
    return run_of(DevicesFound(devices=DEVICES[:1], no_gpu="none"), *alone)


FIRST = CASES[0]
ROWS: dict[str, tuple[RunState, int]] = {
    "nothing is known": (run_of(), 0),
    "in progress": (run_of(*rounds(FIRST, 1_000, 20_000, 3)), 0),
    "finished with fewer rounds than an interval needs":
        (run_of(*rounds(FIRST, 1_000, 20_000, 3), finished(FIRST)), 0),
    "finished": (run_of(*rounds(FIRST, 1_000, 20_000), finished(FIRST)), 0),
    "an odd GPU": (run_of(*rounds(CASES[1], 1_000, 20_000)), 1),
    "a second and a millisecond": (run_of(*rounds(FIRST, 1_035_000_000, 999_700)), 0),
    "a mismatch": (run_of(*rounds(FIRST, 1_000, 20_000), CaseFailed(case=FIRST.key, kind="mismatch", message="m")), 0),
    **{f"failed: {kind}": (run_of(CaseStarted(case=FIRST.key), CaseFailed(case=FIRST.key, kind=kind, message="m")), 0)
       for kind in ("oom", "crashed", "skipped", "new")},
    "a name of what differs": (run_of(cases=(
        Case("vector-dot", 10**6, variant="dot"), Case("vector-dot", 10**6, variant="matmul", threads=4))), 1),
    "a machine without GPU": (without_gpu(*rounds(FIRST, 1_000, 20_000, 8)), 0),
}  # fmt: skip
"""A run, and the row that is looked at."""


def test_what_a_row_shows(monkeypatch):
    """Cells without a number are dashes; they are left out."""
    told = {name: " | ".join(f"{key} {text.strip()}" for key, text in cells_of(run, index).items()
                             if text.strip() not in ("", "–")) for name, (run, index) in ROWS.items()}  # fmt: skip
    assert_golden("frames/rows", paragraphs(told))
    monkeypatch.setattr(RunState, "starts", 2)
    for interval, shown in (("0.233–0.287×", "(0.233–0.287×)"), ("0.0352–0.0480×", "(0.0352–0.0480)")):
        monkeypatch.setattr("cpugpu_tui.render.columns.interval_text", lambda _, interval=interval: interval)
        assert cells_of(run_of(*rounds(FIRST, 1_000, 20_000), finished(FIRST)))["plus_minus"] == shown


def test_a_mismatch_shows_no_time_and_one_device_alone_nothing_that_compares():
    cells = cells_of(*ROWS["a mismatch"])
    assert cells[Key.CPU] == cells[Key.GPU] == cells[Key.SPEEDUP] == "–"
    labels = [column.label for column in columns(77, shape=shape_of(ROWS["a machine without GPU"][0], UNICODE))]
    assert labels[:4] == ["case", "CPU", "95 % interval", "state"]
    assert not {"GPU", "speedup", "with copies", "paper's error"} & set(labels)


def names_of(cases, width):
    """Return the names of a run's rows in a column of `width` cells."""
    run = run_of(cases=cases)
    look = rows.look_of(run, UNICODE, 9, width)
    return [plain(rows.cells(row, look, run)[Key.CASE]) for row in run.rows.values()]


VARIANTS = ("fresh", "out", "add", "add-out")
SWEEPS = tuple(Case("elementwise", size, variant=name) for size in (1_000, 10_000, 10**8) for name in VARIANTS)
NETS = tuple(Case(name, 32, variant=how) for name in ("mnist-mlp", "mnist-mlp-wide") for how in ("eager", "cuda-graph"))


@pytest.mark.parametrize(
    ("cases", "width", "last"),
    [
        (CASES, 10, "matmul 256"), (CASES, 9, "256"), (SWEEPS, 26, "elementwise 100M add-out"),
        (SWEEPS, 13, "100M add-out"), (SWEEPS, 9, "100M …out"), (NETS, 28, "mnist-mlp-wide 32 cuda-graph"),
        (NETS, 20, "…-wide cuda-graph"), ((Case("matmul", 123_456_789),), 11, "123,456,789"),
    ],
)  # fmt: skip
def test_names_lose_first_what_all_rows_share(cases, width, last):
    assert names_of(cases, width)[-1] == last


SEARCHED = (*(Case("vector-dot", size, variant="dot") for size in (100, 44_740)), Case("random", 90_114))


@pytest.mark.parametrize(
    ("width", "names"),
    [(20, ["vector-dot 100 dot", "…ctor-dot 44,740 dot", "random 90,114"]),
     (16, ["…tor-dot 100 dot", "…-dot 44,740 dot", "random 90,114"]),
     (12, ["…dot 100 dot", "… 44,740 dot", "…ndom 90,114"]), (9, ["… 100 dot", "…t 44,740", "…m 90,114"])],
)  # fmt: skip
def test_a_size_is_never_cut(width, names):
    assert names_of(SEARCHED, width) == names


@pytest.mark.parametrize("cases", [CASES, SWEEPS, NETS])
def test_no_two_rows_look_alike(cases):
    for width in range(13, 40):
        found = names_of(cases, width)
        assert len(set(found)) == len(found), found
        assert max(map(len, found)) <= max(width, 17)


async def test_a_filter_says_how_many_rows_it_lets_through_at_every_size():
    for size in ((80, 24), (120, 40)):
        async with opened(size=size, ran=True) as pilot:
            await pilot.press("slash", *"2048")
            await settled(pilot, lambda: shown_by(pilot, "#filter-count") == "1 of 7 rows")
            await reads(pilot, "1 of 7 rows")
            await pilot.press("z")
            await settled(pilot, lambda: shown_by(pilot, "#filter-count") == "0 of 7 rows")


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("about 9.1 s, as run 12 of the same plan took.", "about 9.1 s"),
        ("unknown: no earlier run of matmul 16 on cpu, and the machine card has no rate for it.", "unknown"),
        ("48 MiB per device, at matmul 2048, estimated.", "48 MiB per device, at matmul 2048"),
    ],
)
def test_where_a_fact_has_one_line_a_whole_clause_stands_there(fact, said):
    entry = Entry(PlanRequest(("quick",)), "matrix product", "a claim " * 20)
    facts = {"sizes": "16 to 2048", "time": fact}
    (_, line) = parameter_lines(entry, facts, width=44, height=4)
    assert plain(line).split(maxsplit=1)[1] == said


def test_filter_words_match_name_verdict_and_failure():
    run = run_of(
        *rounds(CASES[0], 1_000, 20_000), *rounds(CASES[2], 90_000, 20_000),
        CaseFailed(case=CASES[1].key, kind="oom", message="m"),
    )  # fmt: skip

    def kept(wanted):
        return [run.rows[key].case.size for key in rows.shown_keys(run, wanted, frozenset())]

    assert kept("") == [16, 64, 256]
    assert kept("gpu") == [256]
    assert kept("OOM") == [64]
    assert kept("matmul 16") == [16]
    assert kept("nothing") == []


# ------------------------------------------------------------------ status


def state_of(run, **changes):
    situation = Situation(live=run.finished is None, ran=True)
    return AppState(run=run, situation=situation, agent_ready=True)._replace(**changes)  # type: ignore[arg-type]


def test_the_status_says_how_far_it_is_and_what_is_left(words):
    run = run_of(*rounds(CASES[0], 1_000, 20_000), finished(CASES[0]))
    run = run.apply(Progressed(case=CASES[1].key, device="cuda:0", phase="round", round_index=3, seconds_left=42.0))
    line = plain(status_line(state_of(run, step_s=2.0), 100, UNICODE))
    words(line.partition("  ")[0])
    assert line.endswith("torch 2.11.0+cu130")
    assert len(line) == 100


def test_between_two_cases_the_status_ends_in_no_dot():
    run = run_of(*rounds(CASES[0], 1_000, 20_000), finished(CASES[0])).apply(
        Progressed(case="", device="", phase="gap")
    )
    assert plain(status_line(state_of(run), 60, UNICODE)).partition("torch")[0].rstrip().endswith("cases done")


@given(st.integers(10, 300), st.text(max_size=80))
@example(21, "0")
def test_the_status_line_is_as_wide_as_the_screen_or_its_left_side(width, notice):
    line = status_line(state_of(run_of(), notice=notice), width, UNICODE)
    left = status_line(state_of(run_of(), notice=notice), 0, UNICODE)
    assert width_of(line) == max(width, width_of(left))


# ------------------------------------------------------------------ footer


@given(st.integers(10, 250), st.booleans(), st.booleans())
def test_the_footer_never_overflows(width, live, ran):
    assert width_of(keys_line(Situation(live=live, ran=ran, stopping=True, paused=True), width)) <= width


@pytest.mark.parametrize("situation", [Situation(), Situation(ran=True), Situation(past=True, ran=True)])
def test_own_code_stands_in_the_footer_at_80_columns_when_it_can_be_timed(situation):
    assert " o Own code " in plain(keys_line(situation, 80))


def test_keys_that_do_nothing_now_make_room_for_those_that_do():
    shown = plain(keys_line(Situation(live=True, ran=True), 80))
    assert "space Pause" in shown
    assert "Own code" not in shown
    assert "Pause" not in plain(keys_line(Situation(ran=True), 80))


def test_a_line_that_is_cut_ends_in_an_ellipsis_and_keeps_its_start():
    line = (("Claims ", "title"), ("1 holds, 2 do not", "text"))
    assert fitted(line, 24, UNICODE) == line
    assert [plain(fitted(line, width, UNICODE)) for width in (12, 7, 3)] == ["Claims 1 ho…", "Claims…", "Cl…"]
    assert plain(fitted(line, 12, ASCII)) == "Claims 1 ho>"


@pytest.mark.parametrize(
    ("width", "title"),
    [(45, "Claims 12 hold, 1 depends on size 1 of 25"), (40, "Claims 12 hold, 1 depends on size …"),
     (37, "Claims 12 hold, 1 depends on size …"), (20, "Claims 12 hold …"), (12, "Claims …"), (4, "Cla…")],
)  # fmt: skip
def test_a_title_is_cut_between_words_and_never_ends_in_part_of_a_number(width, title):
    spans = (("Claims ", "title"), ("12 hold, 1 depends on size", "text"), (" 1 of 25", "muted"))
    assert plain(in_whole_words(spans, width, UNICODE)) == title


def test_every_command_has_one_meaning_per_key_and_stands_in_the_readme_table():
    keys = [key for command in COMMANDS for key in command.keys]
    assert len(keys) == len(set(keys))
    assert all(f"| `{keys_text(command.keys)}` | {command.help} |" in keys_table() for command in COMMANDS)


# ------------------------------------------------------------------ telemetry


def telemetry_of(*reads):
    state = TelemetryState()
    for read in reads:
        state = state.apply(read)
    return state


@given(st.integers(38, 250), st.integers(1, 60), st.integers(0, 16), st.sampled_from([UNICODE, ASCII]))
def test_telemetry_fits_its_pane(width, height, gpus, glyphs):
    lines = telemetry_lines(telemetry_of(readings(gpus), readings(gpus)), width, height, glyphs)  # type: ignore[arg-type]
    assert 1 <= len(lines) <= max(height, 1)
    assert all(width_of(line) <= width for line in lines)


async def test_the_ground_under_the_panes_is_drawn_once():
    """Two thirds of the lines of a first frame lay under others."""
    async with opened() as pilot:
        screen = pilot.app.screen
        for ground in (screen, *map(screen.query_one, ("#body", "#centre"))):
            lines = ground.render_lines(ground.size.region)
            assert (len(lines), len(set(map(id, lines)))) == (ground.size.height, 1)


async def test_a_run_makes_rich_text_only_of_cells_that_change(monkeypatch):
    """Each step of a run asks for the cells of all rows of its sweep again: that was a fifth of the app's CPU time."""
    made = []
    monkeypatch.setattr(timings_pane, "rich_text", lambda *given: made.append(given[1]) or rich_text(*given))
    async with opened() as pilot:
        await done_run(pilot)
        pane = pilot.app.screen.query_one(timings_pane.TimingsPane)
        shown = len(made)
        assert shown
        pane._shown = None
        pane.show_state(pilot.app.state)
        assert len(made) == shown == len(set(made))
        pane.restyle()  # another theme has other colours
        assert len(made) > shown
