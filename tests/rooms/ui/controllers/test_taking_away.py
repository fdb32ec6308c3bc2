"""`e` writes the run to a file, `y` sends the row to the clipboard."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.app.fake_run import FakeBackend, new_app, opened, settled, start_run
from tests.helpers.app.looking import reads, table_of, text_of
from tests.helpers.app.several_gpus import events_of
from textual.widgets import Input

from cpugpu_tui.model import METRICS, Case, RunFinished, RunStarted
from cpugpu_tui.thresholds import load
from cpugpu_tui.ui.live.saved_runs import SavedRuns
from cpugpu_tui.ui.screens.form import ExportForm


class SavingBackend(FakeBackend):
    """Has a history."""

    def __init__(self, store):
        super().__init__()
        self.store = store

    @property
    def history(self):
        return SavedRuns(self.store)


async def ask(pilot, path):
    """Press e, write a name, press enter."""
    await pilot.press("e")
    pilot.app.screen.query_one(Input).value = str(path)
    await pilot.press("enter")


def hint(pilot):
    """What the box says of the name, on however many lines."""
    return " ".join(text_of(pilot, "#hint").split())


def keep_run(store, pilot):
    """Save what is on the screen."""
    started: RunStarted = pilot.app.state.run.run
    store.import_run([replace(started, number=None), RunFinished(status="done", seq=2)])


async def test_y_copies_the_row_under_the_cursor():
    async with opened(ran=True) as pilot:
        table_of(pilot).focus()
        await pilot.press("home", "j")
        await settled(pilot, lambda: "/50/" in (pilot.app.state.cursor or ""))
        await pilot.press("y")
        head, rule, row = pilot.app.clipboard.splitlines()
        assert head.split()[1:6:2] == ["size", "CPU", "GPU"]
        assert rule.startswith("| ---: |")
        assert row.startswith("| 50 | ")
        assert "clipboard" in text_of(pilot, "#status")


async def test_a_new_run_ends_what_an_earlier_key_came_to():
    """It stood where the progress of the run does, for six seconds."""
    async with opened(ran=True) as pilot:
        await pilot.press("y")
        assert "clipboard" in text_of(pilot, "#status")
        await pilot.press("r")
        await settled(pilot, lambda: pilot.app.state.situation.live)
        assert "clipboard" not in text_of(pilot, "#status")


@pytest.mark.parametrize("columns", [60, 80, 120])
async def test_every_ending_of_a_file_stands_in_the_box(columns):
    async with opened(size=(columns, 24), ran=True) as pilot:
        await pilot.press("e")
        await settled(pilot, lambda: bool(hint(pilot)))
        await reads(pilot, ".json", ".ndjson", ".csv", ".md", ".html")


async def test_e_writes_the_run_to_a_file(store, tmp_path):
    async with opened(new_app(backend=SavingBackend(store)), ran=True) as pilot:
        keep_run(store, pilot)
        await ask(pilot, tmp_path / "x.json")
        await settled(pilot, lambda: "Wrote" in text_of(pilot, "#status"))
        assert json.loads((tmp_path / "x.json").read_text())["runs"][0]["name"] == "quick"


def keep_search(store, pilot, sizes, workload):
    """Save a simulated run under the id of the run on the screen."""
    started, *events = events_of(1, cases=tuple(Case(workload, size) for size in sizes), metrics=METRICS)
    assert isinstance(started, RunStarted)
    store.import_run([replace(started, run_id=pilot.app.state.run.run.run_id, number=None), *events])


async def test_e_on_a_search_writes_thresholds_and_adds_to_those_of_other_operations(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for workload in ("matmul", "softmax"):
        async with opened(new_app(backend=SavingBackend(store)), ran=True) as pilot:
            keep_search(store, pilot, (16, 64, 256, 1024), workload)
            await ask(pilot, Path("thresholds.json"))
            if workload == "softmax":
                assert "add to it" in hint(pilot)
                await pilot.press("enter")
            await settled(pilot, lambda: "Wrote" in text_of(pilot, "#status"))
            await settled(pilot, lambda: pilot.app.state.thresholds is not None)
    found = load("thresholds.json", {})
    assert [each.operation for each in found.entries] == ["matmul", "matmul", "softmax", "softmax"]


async def test_a_file_that_is_there_is_asked_for_twice(store, tmp_path):
    (tmp_path / "x.md").write_text(old := '{"event":"older"}')
    async with opened(new_app(backend=SavingBackend(store)), ran=True) as pilot:
        keep_run(store, pilot)
        await ask(pilot, f"{tmp_path}/new.md/")
        assert "does not exist" in hint(pilot)
        await pilot.press("escape")
        await ask(pilot, tmp_path / "x.md")
        assert "press enter again" in hint(pilot).lower()
        assert (tmp_path / "x.md").read_text() == old
        await pilot.press("enter")
        await settled(pilot, lambda: "Wrote" in text_of(pilot, "#status"))
        assert (tmp_path / "x.md").read_text().startswith("## quick")


async def test_nothing_is_written_during_a_run():
    async with opened() as pilot:
        await start_run(pilot)
        await pilot.press("e")
        assert not isinstance(pilot.app.screen, ExportForm)
