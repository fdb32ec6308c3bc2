"""README and docs say what the program does, as the program says it, and README is short."""

import re
import shlex
from signal import SIGHUP, SIGPIPE, SIGQUIT, SIGTERM

import pytest
import tomllib
from tests.readme.blocks import PAGES, ROOT, renewed
from tests.readme.commands import commands
from typer.main import get_group

from cpugpu_tui import errors
from cpugpu_tui.cli.commands import app

README = ROOT / "README.md"
COMMANDS = ROOT / "docs" / "commands.md"

CONFIGURATION = ROOT / "docs" / "configuration.md"

by_name = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@by_name
def test_outputs_figures_and_keys_are_what_the_program_says_now(page):
    text = page.read_text()
    assert renewed(text) == text, "run `make readme`, and look at what changed"


def test_the_readme_is_short_and_begins_with_figures_of_its_table():
    data, text = README.read_bytes(), README.read_text()
    clock, call = re.search(r"clock shows (.+?) that way .+ takes (.+?)\. This", text).groups()
    assert f"| {call} at n = 9,951. The paper's clock shows {clock}, because" in text
    assert len(data) <= 10_000
    assert data.count(b"\n") <= 120


@by_name
def test_every_link_leads_somewhere(page):
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not heading or heading in anchors(file), f"{target}#{heading}"


def anchors(page):
    """Return the names by which links reach the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_chinese_readme_has_the_same_headings_code_and_figures():
    ours, theirs = (page.read_text() for page in (README, ROOT / "docs" / "README.zh.md"))
    assert re.findall(r"^```[\s\S]*?^```", ours, flags=re.MULTILINE) == re.findall(
        r"^```[\s\S]*?^```", theirs, flags=re.MULTILINE
    )
    assert re.findall(r"^#+ ", ours, flags=re.MULTILINE) == re.findall(r"^#+ ", theirs, flags=re.MULTILINE)
    for section, translated in zip(
        re.split(r"^## ", ours, flags=re.MULTILINE), re.split(r"^## ", theirs, flags=re.MULTILINE), strict=True
    ):
        for what in (r"`[^`\n]+`", r"\d+(?:[.,]\d+)*"):
            assert set(re.findall(what, translated)) == set(re.findall(what, section)), section.splitlines()[0]


def test_readme_leads_to_every_page():
    linked = set(re.findall(r"\]\((docs/[^)#]+\.md)\)", README.read_text()))
    assert {str(page.relative_to(ROOT)) for page in PAGES if page != README} <= linked


@by_name
def test_commands_that_are_named_exist(page):
    known = set(get_group(app).commands)
    used = set(re.findall(r"^(?:\$ )?cpugpu-tui ([a-z][a-z-]*)", page.read_text(), flags=re.MULTILINE))
    assert used <= known


def test_every_command_is_explained():
    headings = set(re.findall(r"^## (.+)$", COMMANDS.read_text(), flags=re.MULTILINE))
    assert {name.removeprefix("cpugpu-tui ") for name, _ in commands(get_group(app), "cpugpu-tui")} - {
        "cpugpu-tui"
    } <= headings


def test_every_option_is_in_the_reference():
    text = COMMANDS.read_text()
    options = {
        option
        for _, command in commands(get_group(app), "cpugpu-tui")
        for each in command.params
        for option in each.opts
        if option.startswith("--") and option != "--help" and not each.hidden
    }
    assert len(options) > 40
    assert {option for option in options if f"{option}" not in text} == set()


def test_what_the_program_is_said_to_print_is_in_its_sources():
    """Troubleshooting is searched for the words on the screen."""
    table = CONFIGURATION.read_text().partition("## Troubleshooting")[2]
    quoted = [
        words
        for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
        for words in re.findall(r"`(.*?)`", row)
    ]
    sources = "\n".join(path.read_text() for path in (ROOT / "tui").rglob("*.py"))
    assert len(quoted) >= 10
    assert [words for words in quoted if words not in sources] == []


def test_exit_codes_are_those_of_the_program():
    rows = re.findall(r"^\| ([\d, ]+) \|", COMMANDS.read_text(), flags=re.MULTILINE)
    ours = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    by_signal = {128 + number for number in (SIGHUP, SIGPIPE, SIGQUIT, SIGTERM)}
    assert {int(code) for row in rows for code in row.split(",")} == ours | by_signal


def test_the_installation_without_torch_names_all_other_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    install = (ROOT / "docs" / "quickstart.md").read_text()
    (packages,) = re.findall(r"^\S+/pip install (\".*)$", install, flags=re.MULTILINE)
    assert sorted(shlex.split(packages)) == sorted(
        each for each in project["dependencies"] if not each.startswith("torch")
    )
