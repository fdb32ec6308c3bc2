"""Pictures of a finished run in each theme."""

import pytest
from tests.helpers.app.fake_run import done_run, new_app

from cpugpu_tui.ui import themes


@pytest.mark.parametrize("theme", sorted(themes.shipped()))
def test_theme(snap_compare, theme):
    assert snap_compare(new_app(theme=theme), terminal_size=(80, 24), run_before=done_run)
