"""What tells saved runs apart: their lines at every width, filters, marks, and names that nobody should obey."""

import unicodedata
from dataclasses import replace

import pytest
from rich.cells import cell_len
from tests.helpers.app.fake_run import opened, settled
from tests.helpers.app.looking import screen_lines, text_of
from tests.helpers.app.saved_runs import NOW_NS, SWEEP, app_with, list_runs, listed, stream

from cpugpu_tui.render.outcomes import Outcome
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.store import RunSummary
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.panes.lines import plain
from cpugpu_tui.ui.screens.compare import PairScreen
from cpugpu_tui.ui.screens.history import HistoryScreen
from cpugpu_tui.ui.screens.run_line import about, heads, run_line

HOSTILE = ("evil\x1b[2J\x07[red]", "\u202egnp.exe\u2066", "'; DROP TABLE run; --", "😀" * 40, "x" * 10_000, "a\nb\tc")

RUN = RunSummary(
    number=10_000, run_id="abc", series_id="s", name="elementwise", status="done", started_wall_ns=NOW_NS - 10**13,
    duration_ns=10**9, hostname="node1", cases_ok=2, cases_failed=0, cases_skipped=0,
    devices=("Xeon 8480", "NVIDIA H200"), simulated=False, tags=("nightly",), baselines=("main",), machine="node1",
    gpus=("NVIDIA H200",), dtypes=("bfloat16",), sizes=(64, 2048),
)  # fmt: skip
OUTCOME = Outcome("GPU from ≈ 148", 1)


@pytest.mark.parametrize("width", [38, 53, 54, 58, 73, 74, 78, 99, 100, 118, 139, 140, 198, 298])
def test_a_line_fits_every_width_and_tells_number_dtype_and_answer(width):
    line = plain(run_line(RUN, OUTCOME, width, UNICODE, NOW_NS, chosen=True, marked=True))
    head = plain(heads(width))
    assert cell_len(line) <= width
    assert cell_len(head) <= width
    for told in ("▸*", "10000", "bf16", "GPU from ≈ 148"):
        assert told in line
    assert line.index("GPU from") == head.index("answer")
    below = "\n".join(map(plain, about(RUN, OUTCOME, width, UNICODE, NOW_NS)))
    for told in ("64", "baseline main", "H200"):
        assert told in below or told in line
    assert all(cell_len(each) <= width for each in below.splitlines())
    beside = RUN._replace(devices=("Xeon",), gpus=(), tags=(), is_beside=True)
    assert "recorded" in "\n".join(map(plain, about(beside, OUTCOME, width, UNICODE, NOW_NS)))


def test_lines_of_narrow_and_wide_terminals(words):
    for width in (38, 58, 78):  # wider ones show dates in local time
        words(plain(heads(width)).rstrip())
        words(plain(run_line(RUN, OUTCOME, width, UNICODE, NOW_NS, chosen=False, marked=True)).rstrip())


async def test_a_list_tells_dtype_sizes_and_answer_and_is_filtered_by_them(store):
    store.import_run(stream("a"))
    store.import_run(stream("b"))
    store.import_run(stream("c", build_plan(PlanRequest(("matmul",), sizes="64,128", dtype="bf16"))))
    async with opened(app_with(store), (80, 24)) as pilot:
        await list_runs(pilot)
        await settled(pilot, lambda: "GPU" in listed(pilot)[1])
        assert "bf16 64–128" in listed(pilot)[0]
        assert "f32 64–1,024" in listed(pilot)[1]
        assert not any("%" in line for line in listed(pilot))  # one run against one has no interval
        await pilot.press("slash", *"dtype:bf16")
        assert [line.split()[1] for line in listed(pilot)] == ["3"]
        await pilot.press("ctrl+u", *"gpu:h200 n>1000")
        assert listed(pilot)[-1].startswith("1 ")
        assert len(listed(pilot)) == 2
        await pilot.press(*" gpuu:x")
        assert "Did you mean 'gpu:'?" in text_of(pilot, "#wrong")
        assert under_each_other(pilot, "#line-field", "#wrong")
        assert len(listed(pilot)) == 2
        await pilot.press(*["backspace"] * 7)
        assert text_of(pilot, "#wrong") == ""


def under_each_other(pilot, above, below):
    """Whether one widget ends where the other begins."""
    regions = [pilot.app.screen.query_one(each).region for each in (above, below)]
    return regions[0].bottom == regions[1].y


async def test_two_marked_runs_are_compared_with_enter(store):
    for run_id in "abc":
        store.import_run(stream(run_id))
    async with opened(app_with(store), (80, 24)) as pilot:
        await list_runs(pilot)
        await pilot.press("space", "j", "j", "space")
        assert [line.startswith(("*", "▸ *", "▸*")) for line in listed(pilot)] == [True, False, True]
        assert "enter compare both" in text_of(pilot, "#page-keys")
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, PairScreen))
        await settled(pilot, lambda: "run 3 vs run 1" in text_of(pilot, "#page-title"))
        await pilot.press("b", "escape")
        assert store.baselines() == {}
        assert isinstance(pilot.app.screen, HistoryScreen)
        await pilot.press("escape")
        assert not any("*" in line for line in listed(pilot))
        assert isinstance(pilot.app.screen, HistoryScreen)


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (120, 40)], ids="{0[0]}x{0[1]}".format)
async def test_hostile_names_are_shown_without_obeying_them(store, size):
    for index, name in enumerate(HOSTILE):
        store.import_run(stream(f"id{index}", replace(SWEEP, name=name)))
        store.tag(f"id{index}", [name])
        store.set_baseline(name, f"of-id{index}")
    async with opened(app_with(store), size) as pilot:
        await list_runs(pilot)
        await settled(pilot, lambda: any("GPU" in line for line in listed(pilot)))
        for _ in HOSTILE:
            harmless(pilot, size)
            await pilot.press("j")
        assert len(store.runs()) == len(HOSTILE)


@pytest.mark.parametrize("typed", [*HOSTILE, "gpu:'", "foo:\u202ebar", "n>\u0662x", "dtype:😀"])
async def test_a_hostile_filter_hurts_nobody_and_esc_shows_all_again(store, typed):
    store.import_run(stream("a"))
    store.import_run(stream("b", replace(SWEEP, name="'; DROP TABLE run; --")))
    async with opened(app_with(store), (80, 24)) as pilot:
        await list_runs(pilot)
        await pilot.press("slash")
        screen = pilot.app.screen
        screen._line.field.insert_text_at_cursor(typed)
        await pilot.pause()
        harmless(pilot, (80, 24))
        await pilot.press("escape")
        assert len(listed(pilot)) == len(store.runs()) == 2


@pytest.mark.parametrize("name", ["", "42", "latest", "a:b", "a/b", "evil\x1b[2J", "\u202ebad", "x" * 1_000])
async def test_a_name_that_no_baseline_can_have_is_refused_below_the_field(store, name):
    store.import_run(stream("a"))
    async with opened(app_with(store), (80, 24)) as pilot:
        await name_baseline(pilot, name)
        assert "Invalid baseline name" in text_of(pilot, "#hint")
        harmless(pilot, (80, 24))
        await pilot.press("ctrl+u", *"good", "enter")
        await settled(pilot, lambda: store.baselines() == {"good": "of-a"})


async def name_baseline(pilot, name):
    """Type the name of a baseline for the newest run."""
    await list_runs(pilot)
    await pilot.press("b", "ctrl+u")
    box = pilot.app.screen
    box.field.insert_text_at_cursor(name)
    await pilot.press("enter")


def harmless(pilot, size):
    """Assert that the screen holds no control or format characters, and that each line has its cells."""
    lines = screen_lines(pilot)
    assert [each for line in lines for each in line if unicodedata.category(each) in ("Cc", "Cf")] == []
    assert [line for line in lines if cell_len(line) != size[0]] == []
