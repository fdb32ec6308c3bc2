"""The command line: every command in the order of `--help`, each in a file of its own, imported when it is named.

The bodies import what they need: `--help` loads none of torch, textual, NVML, sqlite3 and msgspec.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from cpugpu_tui import __version__
from cpugpu_tui.cli import options as opt
from cpugpu_tui.errors import EXIT_INTERRUPTED, UsageError

COMMANDS = {
    "run": ("run", "Run presets or workloads and print a table."),
    "time": ("time", "Time your own code or command on CPU and GPU."),
    "survey": ("run", "Find the crossover of every workload, in at most 5 minutes."),
    "list": ("list", "List presets and workloads, including your own."),
    "devices": ("machine", "List the CPU and the GPUs that torch can use."),
    "machine": ("machine", "Print the machine card: peak rates and fixed overheads."),
    "claims": ("claims", "Compare the claims of five publications with your runs."),
    "telemetry": ("telemetry", "Print readings of the GPUs and the host, once a second."),
    "demo": ("demo", "Play recorded runs of a real GPU in the app."),
    "doctor": ("doctor", "Check driver, torch, GPUs, host, history and terminal."),
    "show": ("history", "Print the table of a saved run."),
    "rm": ("history", "Delete runs and their results from the history."),
    "tag": ("history", "Add tags to a run, or remove them."),
    "history": ("history", "List saved runs, newest first."),
    "compare": ("compare", "Compare two series of runs, case by case."),
    "baseline": ("compare", "Name a series of runs as a baseline, or list the baselines."),
    "gate": ("compare", "Run a series and fail if a case became slower."),
    "noise": ("compare", "Tell the smallest change that a comparison finds here."),
    "export": ("export", "Export runs as JSON, CSV, Markdown, HTML or pictures."),
    "import": ("export", "Import runs from json or ndjson exports."),
    "new-workload": ("list", "Write a template for a workload of your own."),
    "thresholds": ("thresholds.make thresholds.verify", "Make and verify a file by which programs choose a device."),
    "reference": ("running.reference", "Make a reference of this machine's GPU for --beside."),
    "config": ("config", "Show the settings and where each was set."),
    "fleet": ("fleet.run fleet.health", "Run on many hosts through ssh, Slurm or your own launcher."),
}
"""Name → its files and its first sentence, which `--help` lists without importing the files."""

GROUPS = {"thresholds": "See docs/in-your-program.md.", "reference": "", "fleet": "Nothing is installed on the hosts."}
"""Commands whose files hold what follows their name → the rest of their help."""

LIKE = 0.7
"""How much a word must resemble a command to be meant, for `difflib`: typer's 0.6 takes `themes` for `time`."""


NOT_RECORDED = (
    "Only the survey's workloads were recorded, so --beside is an option of run, survey, machine and fleet machine.",
    "To see how your own code runs on a GPU, run the same command without --beside on a machine that has one.",
)
"""Message and remedy if another command is to set its work beside a recorded GPU."""

MEANT = {"delete": "rm", "remove": "rm", "diff": "compare", "bench": "run", "benchmark": "run", "help": "--help"}
"""Words that people try first → what they mean."""


class _Loaded(Mapping[str, Any]):
    """Name → command, imported when it is asked for: typer takes 20 ms for the options of all commands."""

    def __getitem__(self, name: str) -> Any:
        return _load(name)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _load(name: str) -> Mapping[str, Any]:
    """Return the command of a name, and the others of its file.

    Raises:
        KeyError: there is no such command.
    """
    files, summary = COMMANDS[name]
    whole = part = typer.Typer(rich_markup_mode=None)
    if name in GROUPS:
        part = typer.Typer(help=f"{summary}\n\n{GROUPS[name]}")
        whole.add_typer(part, name=name)
    for file in files.split():
        part.add_typer(import_module(f"cpugpu_tui.cli.{file}").commands)
    return get_group(whole).commands


class _Commands(TyperGroup):
    """All commands. For an unknown one, suggest those of groups as well."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Loaded()})

    def format_commands(self, context: Any, formatter: Any) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        """Return the name of the command, the command, and the arguments after it. Give it its defaults."""
        word = arguments[0]
        if word.startswith("-") or context.resilient_parsing or word in self.commands:
            name, command, others = super().resolve_command(context, arguments)
            values = context.default_map or {}
            context.default_map = {**values, str(name): _for_each(command, values)}
            return name, command, others
        from difflib import get_close_matches  # only for an error

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
        return int(app(standalone_mode=False, default_map=defaults, obj=began_s) or 0)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except SystemExit as end:
        if end.code != 1:  # after a completion
            raise
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

    return set(below(get_command(app)))


OF_HOSTS = ("--host", "-w", "--hosts", "-H", "--launcher")
OF_DEVICES = ("--gpu", "--gpus", "--cuda", "--cpu")
"""Options that a command lacks, and that people try."""

HOSTS = "`cpugpu-tui fleet run` runs on other hosts, and `cpugpu-tui history --filter host:NAME` lists their runs."
DEVICES = "--device cpu, --device cuda for all GPUs, or --device cuda:0 for the first"
"""What to use."""

WITHOUT_NAMES = {
    "survey": "To name workloads, use --only.",
    "list": "`list` shows all workloads. To time one, use `cpugpu-tui run NAME`.",
}
"""Command that takes no names → what to use."""


def _usage_error(error: Any) -> UsageError:
    """Return an error of typer in the form of all others: the value, then the remedy."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if isinstance(error, opt.NotANumber) and context is not None and parameter is not None:
        source = context.get_parameter_source(parameter.name)
        is_variable = source is not None and source.name == "ENVIRONMENT"
        option = parameter.envvar if is_variable else max(parameter.opts, key=len)
        return UsageError(f"Invalid {option} {error.value!r}.", f"Use a {error.wanted}.")
    option = getattr(error, "option_name", "")
    if option == "--beside":
        return UsageError(*NOT_RECORDED)
    if option in OF_HOSTS:
        return UsageError(f"No such option: {option}.", HOSTS)
    if option in OF_DEVICES:
        has_it = context is not None and any("--device" in known.opts for known in context.command.params)
        remedy = f"Use {DEVICES}." if has_it else f"`run`, `time` and `survey` take {DEVICES}."
        return UsageError(f"No such option: {option}.", remedy)
    text = " ".join(error.format_message().split())
    command = context.command_path if context is not None else _typed_command()
    remedy = _with_two_dashes() or f"See `{command} --help`."
    if text.startswith("Got unexpected extra"):
        remedy = WITHOUT_NAMES.get(command.split()[-1], remedy)
    if unknown := re.match(r"No such command '([\w-]+)'", text):  # of a group
        known = MEANT.get(unknown[1], unknown[1])
        if known in COMMANDS:
            remedy = f"Did you mean `cpugpu-tui {known}`?"
    is_unknown_command = parameter is None and not hasattr(error, "option_name")  # typer has no class for it
    if command.endswith(" config") and is_unknown_command:
        from cpugpu_tui.config import config_path

        remedy = f"To change a setting, edit {config_path()}."
    return UsageError(text if text.endswith((".", "?")) else f"{text}.", remedy)


def _typed_command() -> str:
    """Return the command that was typed. An option without its value is an error of typer without a context."""
    command: Any = get_command(app)
    words = ["cpugpu-tui"]
    for word in sys.argv[1:]:
        if word not in getattr(command, "commands", ()):
            break
        command, words = command.commands[word], [*words, word]
    return " ".join(words)


def _defaults(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values of the config file as defaults for every command. Flags and environment override them.

    `--help`, `config` and shell completion do not read the file, so they work with a broken one.

    Raises:
        UsageError: the config is wrong.
    """
    is_completion = any(name.endswith("_COMPLETE") for name in os.environ)
    if arguments[:1] == ["config"] or {"-h", "--help", "--version"} & set(arguments) or is_completion:
        return {}
    from cpugpu_tui.config import load_config

    found = load_config()
    if found.keys:
        from cpugpu_tui.ui.keys import keymap_of

        keymap_of(found.keys)
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in found.values.items()}
    # `--python` of some is a list, and typer would split the variable at spaces, also within a path.
    python = os.environ.get("CPUGPU_PYTHON") or values.get("python")
    return {**values, "pythons": [python]} if python else values


def _for_each(command: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as a default map for a command and for those in it."""
    inner = {name: _for_each(each, values) for name, each in getattr(command, "commands", {}).items()}
    return {**values, **inner}
