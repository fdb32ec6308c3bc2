"""The README says what the program does, and says it as the program says it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import tomllib

from cpugpu_tui.ui.commands import markdown
from cpugpu_tui.workloads import PRESETS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_keys_are_those_of_the_registry() -> None:
    assert markdown() in README


@pytest.mark.parametrize(
    "text", [README, (ROOT / "docs" / "contributing.md").read_text()], ids=["readme", "contributing"]
)
def test_no_place_is_left_to_fill_in(text: str) -> None:
    assert not re.search(r"\b[A-Z]+_TABLE\b|TODO|FIXME", text)


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_commands_that_are_named_exist() -> None:
    from typer.main import get_group

    from cpugpu_tui.command_line import app

    known = set(get_group(app).commands)
    used = set(re.findall(r"^cpugpu-tui ([a-z][a-z-]*)", README, flags=re.MULTILINE))
    assert used <= known
    assert set(PRESETS) >= {"quick", "matmul-sweep", "vector-dot"}


def test_the_installation_without_torch_names_all_other_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    install = (ROOT / "docs" / "install.md").read_text()
    (packages,) = re.findall(r"^\S+/pip install (\".*)$", install, flags=re.MULTILINE)
    assert sorted(shlex.split(packages)) == sorted(
        each for each in project["dependencies"] if not each.startswith("torch")
    )
