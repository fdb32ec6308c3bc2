"""The main screen at usual sizes of terminals."""

import pytest
from tests.helpers.app import fake_run
from tests.helpers.app.looking import reads, screen_lines

from cpugpu_tui.render.columns import Key
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.shell import COMMON_LAYOUTS

SIZES = [(60, 16), (80, 24), (100, 30), (120, 40), (160, 20), (200, 60), (300, 100)]


@pytest.mark.parametrize("size", SIZES)
async def test_everything_important_is_visible_at_every_size(size):
    async with fake_run.opened(size=size, ran=True) as pilot:
        text = "\n".join(await reads(pilot, "▲ GPU"))
        for wanted in ("done", "CPU", "GPU", "speedup", "rounds", "kernel-active", "host", "Run again"):
            assert wanted in text, wanted
        assert "GPU wins" in " ".join(text.split())
        table = pilot.app.screen.query_one(TimingTable)
        widths = {str(key.value): column.width for key, column in table.columns.items()}
        assert widths[Key.ROUNDS] >= 9, "the bars of the rounds are never dropped"
        assert sum(width + 2 for width in widths.values()) <= table.size.width
        assert any(bar in text for bar in "▄▅▃")


async def test_at_80x24_there_are_twelve_rows_one_line_of_workload_and_seven_keys():
    async with fake_run.opened(size=(80, 24), ran=True) as pilot:
        lines = await reads(pilot, "kernel-active")
        table = pilot.app.screen.query_one(TimingTable)
        assert table.size.height - 1 >= 12
        assert pilot.app.screen.query_one("#workload").outer_size.height == 1
        assert "Workload 1/" in lines[1]
        assert "quick" in lines[1]
        for key in ("r Run", "o Own code", "enter Open", "/ Filter", "g Chart", "? Help", "q Quit"):
            assert key in lines[-1]


async def test_at_200x60_workload_and_telemetry_stand_beside_the_table():
    async with fake_run.opened(size=(200, 60)) as pilot:
        await reads(pilot, "kernel-active")
        screen = pilot.app.screen
        workload, centre, telemetry = (
            screen.query_one(f"#{name}").region for name in ("workload", "centre", "telemetry")
        )
        assert workload.right <= centre.x
        assert centre.right <= telemetry.x
        assert workload.width >= 28


@pytest.mark.parametrize("size", [(40, 12), (50, 16), (59, 20), (59, 30), (80, 12), (200, 15)])
async def test_the_small_view_has_progress_rows_answer_and_keys(size):
    async with fake_run.opened(size=size) as pilot:
        session = await fake_run.start_run(pilot)
        await fake_run.reach_gap(pilot, session)
        await fake_run.settled(pilot, lambda: ("0/14" if size[0] < 60 else "0 of at most 14") in screen_lines(pilot)[0])
        session.put(*fake_run.whole_sweep(session.plan))
        await fake_run.finish(pilot, session)
        lines = await reads(pilot, "▲ GPU")
        assert pilot.app.screen.query_one(TimingTable).size.height >= 3
        assert "done" in lines[0]
        assert "GPU wins" in " ".join(" ".join(lines).split())
        for key in ("Run again", "? Help", "q Quit"):
            assert key in lines[-1]


@pytest.mark.parametrize("keys", ["enter", "g", "m", "K", "h", "?", ":", "T", "e", "o", "tab,enter"])
async def test_every_page_at_40x12_shows_how_to_leave_and_leaves(keys):
    async with fake_run.opened(size=(40, 12), ran=True) as pilot:
        await fake_run.settled(pilot, lambda: pilot.app.state.agent_ready)
        main = pilot.app.screen
        await pilot.press(*keys.split(","))
        await fake_run.settled(pilot, lambda: pilot.app.screen is not main)
        await fake_run.settled(pilot, lambda: any(line.strip() for line in screen_lines(pilot)))
        if keys not in ("enter", "o", "tab,enter"):  # forms scroll to their keys
            await fake_run.settled(
                pilot, lambda: any("back" in line or "cancel" in line for line in screen_lines(pilot))
            )
        await pilot.press("g" if keys == "g" else "escape")
        await fake_run.settled(pilot, lambda: pilot.app.screen is main)


@pytest.mark.parametrize("size", [(39, 24), (80, 11), (20, 5)])
async def test_too_small_says_which_size_is_needed_and_the_run_goes_on(size):
    async with fake_run.opened(size=(80, 24)) as pilot:
        session = await fake_run.start_run(pilot)
        await pilot.resize_terminal(*size)
        lines = await reads(pilot, "Needs 40x12")
        assert not any("Timings" in line for line in lines)
        session.put(*fake_run.whole_sweep(session.plan))
        await fake_run.finish(pilot, session)
        await pilot.resize_terminal(80, 24)
        assert any("done, 7 cases" in line for line in await reads(pilot, "▲ GPU"))


async def test_eight_gpus_at_80x24_say_how_many_are_hidden_and_zoom_shows_all():
    async with fake_run.opened(
        fake_run.new_app(backend=fake_run.FakeBackend(telemetry=fake_run.readings(gpus=8))), size=(80, 24)
    ) as pilot:
        lines = await reads(pilot, "of 8 GPUs")
        assert any(line.startswith(" host") for line in lines)
        await pilot.press("tab", "z")
        assert "GPU 7" in "\n".join(await reads(pilot, "GPU 7"))


async def test_a_finished_survey_shows_its_whole_table_if_that_needs_half_of_80x24():
    names = ("matmul", "fft", "sort", "svd", "solve")
    async with fake_run.opened(fake_run.new_app(PlanRequest(("survey",), only=names)), (80, 24), ran=True) as pilot:
        lines = await reads(pilot, "On this GPU, faster at every size timed")
        start = next(place for place, line in enumerate(lines) if "workload" in line and "GPU wins" in line)
        assert {line.split()[0] for line in lines[start + 1 : start + 6]} == set(names)
        assert pilot.app.screen.query_one(TimingTable).size.height >= 6


@pytest.mark.parametrize("size", [(20, 5), (40, 12), (80, 24), (120, 40), (200, 60)])
async def test_the_first_frame_has_the_layout_of_the_later_ones(size, monkeypatch):
    """Textual lays out for the terminal's size only in the second: boxes appeared and the welcome jumped.

    It also waits for the rules of its own layout alone; all others would change nothing in it.
    """
    frames = []
    for common in (COMMON_LAYOUTS, set()):
        monkeypatch.setattr("cpugpu_tui.ui.app.COMMON_LAYOUTS", common)
        app, first, places = fake_run.new_app(), [], []
        load = app._load_the_rest

        def loaded(app=app, first=first, places=places, load=load):
            first.append(app.screen.classes)
            places += [(each.id, each.region, each.styles.border) for each in app.screen.walk_children()]
            load()

        monkeypatch.setattr(app, "_load_the_rest", loaded)
        async with fake_run.opened(app, size):
            assert first == [app.screen.classes]
        frames.append(places)
    assert frames[0] == frames[1]
