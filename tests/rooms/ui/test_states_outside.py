"""States of terminal, config and files, caused before the app opens or as it does, on a pseudo-terminal of 80×24.

The list of all states is in test_states.py.
"""

import re
import sys

import pytest
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.app.states import joined, state

SMALL = (80, 24)
COMMAND = (sys.executable, "-m", "cpugpu_tui", "--simulate", "default")


def start(folder, *arguments, size=SMALL, **env):
    """Start the app with a config of this test."""
    own = {
        "XDG_CONFIG_HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "CPUGPU_DB": str(folder / "results.db"),
        **env,
    }
    return PtyApp([*COMMAND, *arguments], columns=size[0], rows=size[1], env=own)


def config_file(folder, name, text):
    path = folder / "cpugpu-tui" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("_name", [state("broken-config", "")])
def test_what_is_wrong_with_a_file_is_said_before_the_screen_changes(tmp_path, _name):
    config_file(tmp_path, "config.toml", "colour = 'red'\n")
    with start(tmp_path) as app:
        assert app.exit_code() == 2
        said = joined(app.lines)
        for sentence in ("config.toml", "line 1", "colour"):
            assert sentence in said, said
        assert "Traceback" not in said
        assert b"\x1b[?1049h" not in app.output, "the app's screen never came"


@pytest.mark.parametrize("_name", [state("broken-theme", "")])
def test_a_broken_theme_of_ones_own_is_a_sentence_and_the_app_opens(tmp_path, _name):
    config_file(tmp_path, "themes/mine.toml", 'name = "mine"\nprimary = "reddish"\n')
    with start(tmp_path) as app:
        app.until_text("ready")
        app.until(lambda app: "mine.toml" in joined(app.lines) and "reddish" in joined(app.lines))
        app.quit()


@pytest.mark.parametrize("_name", [state("term-dumb", "")])
def test_a_dumb_terminal_is_refused_with_what_to_do_in_place(tmp_path, _name):
    with start(tmp_path, TERM="dumb") as app:
        assert app.exit_code() == 4
        assert "cpugpu-tui run" in joined(app.lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [
        state("no-utf8", {"LC_ALL": "C", "PYTHONUTF8": "0"}),
        state("sixteen-colours", {"TERM": "xterm", "COLORTERM": ""}),
        state("no-color", {"NO_COLOR": "1"}),
    ],
)
def test_a_poor_terminal_loses_no_meaning(tmp_path, env):
    """The winner has a word and a sign, the focus has a mark, and no character is a question mark."""
    with start(tmp_path, **env) as app:
        app.until_text("Press r")
        app.send("r")
        app.until(lambda app: re.search(r"done, \d+ cases", app.text) is not None)
        app.until(lambda app: "GPU wins" in joined(app.lines))
        app.until(lambda app: re.search(r"\S GPU", app.text) is not None)
        if "LC_ALL" in env:
            assert app.text.isascii(), [line for line in app.lines if not line.isascii()]
        app.quit()
