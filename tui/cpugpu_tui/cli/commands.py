"""The command line: every command in the order of `--help`, each in a file of its own.

The bodies import what they need: `--help` loads none of torch, textual, NVML, sqlite3 and msgspec.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from copy import copy
from difflib import get_close_matches
from types import ModuleType
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo, TyperInfo

from cpugpu_tui import __version__
from cpugpu_tui.cli import claims, config, demo, doctor, export, history, machine, run, telemetry, time
from cpugpu_tui.cli import list as list_
from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.compare import compare
from cpugpu_tui.cli.fleet import gate as fleet_gate
from cpugpu_tui.cli.fleet import health
from cpugpu_tui.cli.fleet import run as fleet_run
from cpugpu_tui.cli.running import reference
from cpugpu_tui.cli.thresholds import make, verify
from cpugpu_tui.errors import EXIT_INTERRUPTED, UsageError

LIKE = 0.7
"""How much a word must resemble a command to be meant, for `difflib`: typer's 0.6 takes `themes` for `time`."""


NOT_RECORDED = (
    "Only the survey's workloads were recorded, so --beside is an option of run, survey, machine and fleet machine.",
    "To see how your own code runs on a GPU, run the same command without --beside on a machine that has one.",
)
"""Message and remedy if another command is to set its work beside a recorded GPU."""

MEANT = {"delete": "rm", "remove": "rm", "diff": "compare", "bench": "run", "benchmark": "run", "help": "--help"}
"""Words that people try first → what they mean."""


class _Commands(TyperGroup):
    """All commands. For an unknown one, suggest those of groups as well."""

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        """Return the name of the command, the command, and the arguments after it."""
        word = arguments[0]
        if word.startswith("-") or context.resilient_parsing or self.get_command(context, word) is not None:
            return super().resolve_command(context, arguments)
        names = {name: name for name in self.commands}
        for option in (max(parameter.opts, key=len) for parameter in self.params):
            names.setdefault(option.removeprefix("--"), option)
        for group, command in self.commands.items():
            for name in getattr(command, "commands", ()):
                names.setdefault(name, f"{group} {name}")
        names.update(MEANT)
        near = [word] if word in names else get_close_matches(word, names, 3, LIKE)
        meant = f" Did you mean {' or '.join(repr(names[each]) for each in near)}?" if near else ""
        for parameter in self.params:
            value = context.params.get(parameter.name or "")
            if isinstance(value, str) and value in self.commands:
                option = max(parameter.opts, key=len)
                meant = f" {value!r} before it was taken for the value of {option}."
        from cpugpu_tui.workloads import PRESETS  # only for an error

        meant = meant or (f" Did you mean 'run {word}'?" if word in PRESETS else "")
        raise UsageError(f"No such command {word!r}.{meant}", f"See `{context.command_path} --help`.")


app = typer.Typer(
    name="cpugpu-tui",
    cls=_Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Registered = TypeVar("Registered", CommandInfo, TyperInfo)

thresholds = typer.Typer(
    help="Make and verify a file by which programs choose a device.\n\nSee docs/in-your-program.md."
)
references = typer.Typer(help="Make a reference of this machine's GPU for --beside.")
fleet = typer.Typer(
    help="Run on many hosts through ssh, Slurm or your own launcher.\n\nNothing is installed on the hosts."
)


def _collect(into: typer.Typer, *groups: ModuleType | typer.Typer) -> typer.Typer:
    """Add commands, or those of modules, to `into`, on its own level and in this order."""
    for group in groups:
        into.add_typer(group.commands if isinstance(group, ModuleType) else group)
    return into


_collect(app, run, time, run.survey_commands, list_, machine, claims, telemetry, demo, doctor, history.run_commands)
app.add_typer(history.commands, name="history")
_collect(app, compare, export, list_.template_commands)
app.add_typer(_collect(thresholds, make, verify), name="thresholds")
app.add_typer(_collect(references, reference), name="reference")
app.add_typer(config.commands, name="config")
app.add_typer(_collect(fleet, fleet_run, fleet_gate, health), name="fleet")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cpugpu-tui {__version__}")
        raise typer.Exit


class AppGiven(opt.Given):
    """The options of the app."""

    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False


@opt.takes(
    app.callback(invoke_without_command=True), AppGiven,
    "python worker database no_save theme mouse simulate replay workloads ceilings version",
)  # fmt: skip
def without_command(given: AppGiven) -> None:
    """Time the same torch work on CPU and GPU: which is faster, from which size, and by how much?

    Without a command, open the app with these options.
    """
    _refuse_options_before_command(given.context)
    if given.context.invoked_subcommand is None:
        from cpugpu_tui.cli.open_app import open_app
        from cpugpu_tui.cli.running.options import RunOptions

        options = RunOptions(
            worker=given.worker, python=given.python, database=given.database, save=not given.no_save,
            workloads=tuple(map(str, given.workloads or ())), ceilings=given.ceilings,
        )  # fmt: skip
        raise typer.Exit(
            open_app(options, theme=given.theme, mouse=given.mouse, simulate=given.simulate, replay=given.replay)
        )


def _refuse_options_before_command(context: typer.Context) -> None:
    """Refuse options between `cpugpu-tui` and a command: only the app reads them.

    Without this, `cpugpu-tui --no-save run` would save, and `cpugpu-tui --simulate default run` would measure.

    Raises:
        UsageError: an option stands before a command.
    """
    command = context.invoked_subcommand
    for parameter in context.command.params if command is not None else ():
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            names = parameter.opts if context.params[parameter.name or ""] else parameter.secondary_opts
            raise UsageError(
                f"{max(names or parameter.opts, key=len)} before '{command}' would have no effect.",
                f"Put the options of a command after its name; see `cpugpu-tui {command} --help`.",
            )


def run_command(began_s: float) -> int:
    """Run the command that `sys.argv` holds and return its exit code. The program began at `began_s` (monotonic).

    Raises:
        BrokenPipeError: the reader of stdout has gone (`| head`).
        UsageError: typer refused the command line.
        CpuGpuError, OSError, KeyboardInterrupt: raised by the command.
    """
    try:
        defaults = _defaults(sys.argv[1:])
        return int(needed(sys.argv[1:])(standalone_mode=False, default_map=defaults, obj=began_s) or 0)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except SystemExit:
        # typer turns a broken pipe into exit code 1, which means "a check failed".
        raise BrokenPipeError from None
    except UsageError as error:
        error.remedy = _with_two_dashes() or error.remedy
        raise
    except Exception as error:
        # The class of typer's errors is private to typer.
        if not hasattr(error, "format_message"):
            raise
        raise _usage_error(error) from None


def _with_two_dashes() -> str:
    """Return the remedy for a long option with one dash: `-setup CODE` is read as `-s etup` and an argument."""
    words = sys.argv[1:]
    words = words[: words.index("--")] if "--" in words else words
    found = next((word for word in words if re.fullmatch("-[a-z][a-z-]+", word) and words[0] != "tag"), "")
    return f"Did you mean -{found} in place of {found}?" if found and f"-{found}" in _long_options() else ""


def _long_options() -> set[str]:
    """Return the options of all commands."""

    def below(command: Any) -> Iterator[str]:
        for parameter in command.params:
            yield from parameter.opts
        for each in getattr(command, "commands", {}).values():
            yield from below(each)

    return set(below(typer.main.get_command(app)))


def needed(arguments: Sequence[str]) -> typer.Typer:
    """Return the part of the app that these arguments need: typer takes 20 ms for the options of all commands."""
    part = copy(app)
    if arguments in (["-h"], ["--help"]):
        part.registered_groups = [_named_only(group) for group in app.registered_groups]
    else:
        named = [group for group in app.registered_groups if arguments and arguments[0] in _names(group)]
        part.registered_groups = named or app.registered_groups
    return part


def _names(group: TyperInfo) -> Sequence[str]:
    """Return the name of a group, or those of the commands in a file of commands."""
    if isinstance(group.name, str) or group.typer_instance is None:
        return [str(group.name)]
    return [_name(command) for command in group.typer_instance.registered_commands]


def _name(command: CommandInfo) -> str:
    return command.name or (command.callback.__name__.replace("_", "-") if command.callback is not None else "")


def _named_only(group: TyperInfo) -> TyperInfo:
    """Return a group whose commands have names and help, but no options."""
    found, part = copy(group), copy(group.typer_instance)
    if part is None:
        return found
    found.typer_instance = part
    part.registered_groups = []  # of a group with a name, such as `fleet`
    part.registered_commands = [_without_options(command) for command in part.registered_commands]
    if part.registered_callback is not None:
        part.registered_callback = _without_options(part.registered_callback)
    return found


def _without_options(command: Registered) -> Registered:
    """Return a command, or the callback of a group, that takes no options and does nothing."""

    def bare() -> None:
        pass

    found = copy(command)
    if command.callback is not None:
        bare.__name__, bare.__doc__, found.callback = command.callback.__name__, command.callback.__doc__, bare
    return found


def _usage_error(error: Any) -> UsageError:
    """Return an error of typer in the form of all others: the value, then the remedy."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if isinstance(error, opt.NotANumber) and context is not None and parameter is not None:
        source = context.get_parameter_source(parameter.name)
        is_variable = source is not None and source.name == "ENVIRONMENT"
        option = parameter.envvar if is_variable else max(parameter.opts, key=len)
        return UsageError(f"Invalid {option} {error.value!r}.", f"Use a {error.wanted}.")
    if getattr(error, "option_name", "") == "--beside":
        return UsageError(*NOT_RECORDED)
    text = " ".join(error.format_message().split())
    command = context.command_path if context is not None else "cpugpu-tui"
    remedy = _with_two_dashes() or f"See `{command} --help`."
    if command.endswith(" survey") and text.startswith("Got unexpected extra"):
        remedy = "To name workloads, use --only."
    if unknown := re.match(r"No such command '([\w-]+)'", text):  # of a group
        known = MEANT.get(unknown[1], unknown[1])
        if any(known in _names(group) for group in app.registered_groups):
            remedy = f"Did you mean `cpugpu-tui {known}`?"
    is_unknown_command = parameter is None and not hasattr(error, "option_name")  # typer has no class for it
    if command.endswith(" config") and is_unknown_command:
        from cpugpu_tui.config import config

        remedy = f"To change a setting, edit {config.path()}."
    return UsageError(text if text.endswith((".", "?")) else f"{text}.", remedy)


def _defaults(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values of the config file as defaults for every command. Flags and environment override them.

    `--help`, `config` and shell completion do not read the file, so they work with a broken one.

    Raises:
        UsageError: the config is wrong.
    """
    is_completion = any(name.endswith("_COMPLETE") for name in os.environ)
    if arguments[:1] == ["config"] or {"-h", "--help", "--version"} & set(arguments) or is_completion:
        return {}
    from cpugpu_tui.config.config import load

    found = load()
    if found.keys:
        from cpugpu_tui.ui.keys import keymap_of

        keymap_of(found.keys)
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in found.values.items()}
    defaults = _for_each(app, values) if values else {}
    # `--python` of these is a list, and typer would split the variable at spaces, also within a path.
    python = os.environ.get("CPUGPU_PYTHON") or values.get("python")
    duets = {command: {**values, "pythons": [python]} for command in ("run", "time")}
    return {**defaults, **duets} if python else defaults


def _for_each(part: typer.Typer, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values as a default map for every command of a group and of its subgroups."""
    found = dict(values)
    for command in part.registered_commands:
        found[_name(command)] = values
    for group in part.registered_groups:
        if group.typer_instance is not None:
            inner = _for_each(group.typer_instance, values)
            found.update({group.name: inner} if isinstance(group.name, str) else inner)
    return found
