"""What the app opens where its history lies: a new one, one that cannot be written, none."""

from contextlib import closing

import pytest
from tests.rooms.store.test_store_open import STARTED, without_root

from cpugpu_tui.errors import StoreError
from cpugpu_tui.model import RunFinished
from cpugpu_tui.store import Store
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.live.backend import Backend
from cpugpu_tui.ui.live.saved_runs import NO_HISTORY


def one_run(path):
    with closing(Store.open(path)) as store:
        store.begin_run(STARTED)
        store.finish_run(STARTED.run_id, RunFinished(status="done"))


@pytest.fixture
def folder(tmp_path):
    # What is imported on first use must be there before: an interpreter in root's home is closed to others.
    one_run(tmp_path / "results.db")
    with closing(opened(tmp_path / "results.db").history.store) as store:
        store.load(STARTED.run_id)
    with without_root() as found:
        yield found


def opened(path):
    backend = Backend(AppOptions(database=path))
    backend.outbox = Outbox(backend._open_store, backend._open_store(5.0))
    return backend


def test_a_history_that_cannot_be_written_is_read_and_says_why_nothing_is_saved(folder):
    path = folder / "results.db"
    one_run(path)
    path.chmod(0o400)
    folder.chmod(0o500)
    backend = opened(path)
    with closing(backend.history.store):
        assert "read-only" in (backend.store_notice or "")
        assert [run.status for run in backend.history.newest()] == ["done"]
        assert backend.history.open(1).run.status == "done"
        with pytest.raises(StoreError, match="read-only"):
            backend.history.store.delete(backend.history.summary(1).run_id)


def test_without_a_history_everything_says_so():
    saved = Backend(AppOptions(save=False)).history
    for ask in (saved.newest, lambda: list(saved.pages()), lambda: saved.open(1), saved.bury):
        with pytest.raises(StoreError, match="--no-save"):
            ask()  # type: ignore[operator]
    assert NO_HISTORY.__traceback__ is None, "it would keep the frames of whoever asked last, and their run"
