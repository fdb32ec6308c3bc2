"""The command reference in docs/commands.md, written from the commands themselves."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from typer.main import get_group

from cpugpu_tui.cli.commands import app

PROGRAM = "cpugpu-tui"

_EXTRA = re.compile(r"\s*\[(?=env var: |default: |required\]|[\dx<>=.]+\]).*\]$")
"""What typer appends to the help of a parameter, as in `[env var: CPUGPU_DB; default: (in the data folder)]`."""

_NO_TYPE = re.compile(r" <.*>$")
"""The type that typer adds to the name of an argument."""

_PARTS = (
    (r"\[(required)\]", "Required."),
    (r"default: (?:\((.*?)\)|([^;\]]*))[;\]]", "Default: {}."),
    (r"[\[ ]([\d.<=]*x[\d.<>=]+)\]", "Allowed: `{}`."),
    (r"env var: (\w+)", "Environment variable: `{}`."),
)


def reference() -> str:
    """Return a section for the app and for each command, with usage, arguments and options."""
    return "\n\n".join(_sections(get_group(app), PROGRAM))


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and the command of a group and of everything in it, in the order of `--help`."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        if not command.hidden:
            yield from commands(command, f"{path} {name}")


def _sections(group: Any, path: str) -> Iterator[str]:
    for name, command in commands(group, path):
        context = command.context_class(command, info_name=name)
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        yield f"## {name.removeprefix(PROGRAM).strip() or 'The app'}\n\n```\n{usage}\n```\n\n{command.help}"
        records = [each.get_help_record(context) for each in command.params if each.name != "help"]
        rows = [(f"`{_NO_TYPE.sub('', names)}`", _described(text)) for names, text in filter(None, records)]
        if rows:
            yield _table(rows)


def _described(text: str) -> str:
    """Return the help of a parameter with what typer appends to it as sentences."""
    found = _EXTRA.search(text)
    if found is None:
        return text
    parts = ((re.search(pattern, found[0]), sentence) for pattern, sentence in _PARTS)
    sentences = [sentence.format(next(filter(None, part.groups()))) for part, sentence in parts if part is not None]
    return " ".join([text[: found.start()], *sentences]).strip()


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = [("argument or option", "meaning"), ("---", "---"), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)
