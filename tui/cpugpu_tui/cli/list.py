"""`cpugpu-tui list` and `new-workload`: presets and workloads, and a template for a workload of your own."""

from __future__ import annotations

import re
import shlex
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import print_json, tell
from cpugpu_tui.errors import EXIT_OK, EXIT_USAGE, UsageError, named_file
from cpugpu_tui.machine.text import printable

if TYPE_CHECKING:
    from cpugpu_tui.session.own_workloads import OwnWorkloads


commands = typer.Typer()


@opt.takes(commands.command("list"), opt.Given, "json workloads python")
def list_workloads(given: opt.Given) -> None:
    """List presets and workloads, including your own."""
    import msgspec

    from cpugpu_tui.cli.running.options import all_own, say
    from cpugpu_tui.session.own_workloads import has_installed_workloads
    from cpugpu_tui.workloads import PRESETS

    own, refused = all_own(map(str, given.workloads or ()), given.python, installed=has_installed_workloads())
    if given.json:
        for preset in (*PRESETS.values(), *own.presets):
            print_json({"kind": "preset", **_plain(preset)})
        for info in own.infos().values():
            print_json({"kind": "workload", **msgspec.to_builtins(info)})
    else:
        _print_tables(own)
    say(refused)
    raise typer.Exit(EXIT_USAGE if refused else EXIT_OK)


def _plain(value: Any) -> Any:
    """Return named tuples as JSON objects; msgspec makes lists of them."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [*map(_plain, value)] if isinstance(value, tuple) else value


def _print_tables(own: OwnWorkloads) -> None:
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.workloads import PRESETS

    presets = [(preset.name, preset.summary, preset.claim or "–") for preset in (*PRESETS.values(), *own.presets)]
    workloads = [
        (info.name, info.summary, info.axis, ", ".join(info.variants), info.source or "built in")
        for info in own.infos().values()
    ]
    shown = 5 if own.workloads else 4
    out = console()
    out.print(table_of(("preset", "runs", "claimed"), presets))
    out.print(table_of(("workload", "what", "size is", "variants", "from")[:shown], (row[:shown] for row in workloads)))


class NewGiven(opt.Given):
    """The options of `new-workload`."""

    name: Annotated[str, opt.argument("NAME", "Name of the workload.")]
    out: Annotated[Path | None, opt.option(
        "PATH", "File or folder to write to.", parser=named_file, usual="NAME.py here"
    )] = None  # fmt: skip


@opt.takes(commands.command("new-workload"), NewGiven, "name out")
def new_workload(given: NewGiven) -> None:
    """Write a template for a workload of your own.

    The template runs without changes.
    """
    from cpugpu_tui.export.target import sentence_for
    from cpugpu_tui.workloads import PRESETS, catalogue
    from cpugpu_tui.workloads.own_files import NAME

    name = given.name.removesuffix(".py")
    if not NAME.fullmatch(name):
        raise UsageError(
            f"Invalid workload name {printable(name)!r}.", "Use at most 40 letters, digits, dots and dashes."
        )
    if name in PRESETS or name in {info.name for info in catalogue()}:
        raise UsageError(f"{name!r} is the name of a built-in preset or workload.", "Choose another name.")
    path = given.out if given.out is not None else Path()
    try:
        if path.is_dir():
            path = path / f"{name}.py"
        with path.open("x", encoding="utf-8") as file:
            try:
                file.write(source(name))
                file.flush()
            except OSError:  # an empty file would have to be deleted before the next try
                path.unlink(missing_ok=True)
                raise
    except FileExistsError:
        raise UsageError(
            f"{path} already exists.", "Choose another file with --out, or delete the existing one."
        ) from None
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise UsageError(
                f"Cannot write {path}: the folder '{path.parent}' does not exist.",
                "Create it, or choose another place with --out.",
            ) from None
        raise sentence_for(error, path) from error
    tell(f"Written to {path}. Check it with:")
    tell(f"  {shlex.join(['cpugpu-tui', 'run', name, '--workloads', str(path), '--scale', 'small'])}")


TEMPLATE = "workload_template.txt"
"""File beside this module."""


_TAKEN = ("None", "True", "False", "Workload")
"""Capitalised words that already have a meaning in Python or in the template."""


def class_name(name: str) -> str:
    """Return a Python class name for a workload's name: `my-gelu` → `MyGelu`, `none` → `OwnNone`."""
    words = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9A-Za-z]+", name))
    return words if words[:1].isalpha() and words not in _TAKEN else f"Own{words}"


def source(name: str) -> str:
    """Return the text of a workload file for a name that `own_files.NAME` allows."""
    text = resources.files("cpugpu_tui.cli").joinpath(TEMPLATE).read_text("utf-8")
    return text.replace("@NAME@", name).replace("@CLASS@", class_name(name))
