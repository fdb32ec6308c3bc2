"""Options and arguments of the commands, as typer reads them. Every command imports this: keep it light."""

import inspect
import os
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast

import typer

from cpugpu_tui.errors import UsageError, named_file

if TYPE_CHECKING:
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.model import Simulation
    from cpugpu_tui.session.request import PlanRequest


class NotANumber(typer.BadParameter):
    """The value of an option or variable is not a number."""

    def __init__(self, value: str, wanted: str) -> None:
        super().__init__(f"{value!r} is not a {wanted}.")
        self.value, self.wanted = value, wanted


def reader(convert: Callable[[str], float], wanted: str) -> Callable[[str], float]:
    """Return a parser of numbers, which raises `NotANumber`. The errors of typer's own differ by version."""

    def read(text: str) -> float:
        try:
            return convert(text)
        except ValueError:
            raise NotANumber(text, wanted) from None

    return read


def in_range(low: int, high: int | None = None) -> Callable[..., float | None]:
    """Return a callback that refuses numbers out of a range. typer's own `min` puts `x>=1` into the help.

    Raises:
        UsageError: from the callback.
    """

    def check(parameter: typer.CallbackParam, value: float | None) -> float | None:
        if value is not None and not low <= value <= (high or value):
            wanted = f"from {low} to {high:,}" if high else f"of at least {low}"
            raise UsageError(f"Invalid {max(parameter.opts, key=len)} '{value:g}'.", f"Use a number {wanted}.")
        return value

    return check


def typed(context: typer.Context, source: str = "COMMANDLINE") -> dict[str, str]:
    """Return the parameters of the command line, or of the ENVIRONMENT: name → as people write it."""
    found = [(each, context.get_parameter_source(each.name or "")) for each in context.command.params]
    given = [each for each, given_by in found if given_by is not None and given_by.name == source]
    return {each.name or "": _written(each) if source == "COMMANDLINE" else str(each.envvar) for each in given}


def _written(parameter: Any) -> str:
    return max(parameter.opts, key=len) if parameter.opts[0].startswith("-") else str(parameter.metavar)


def refuse_beside(
    context: typer.Context, flag: str, is_refused: Callable[[str], bool], remedy: str = "Leave one of them out."
) -> None:
    """Refuse parameters that have no meaning beside `flag` (UsageError); `is_refused` takes their names."""
    for name, option in typed(context).items():
        if is_refused(name):
            raise UsageError(f"{option} cannot be combined with {flag}.", remedy)


# ------------------------------------------------------------------ kinds of options


def option(
    metavar: str, text: str, *names: str, usual: str | bool = True, env: str | None = None,
    parser: Callable[[str], object] | None = None, check: Callable[..., object] | None = None,
) -> Any:  # fmt: skip
    """Return an option. `usual` is its default in words, shown in the place of a value: `[default: (no limit)]`."""
    return typer.Option(
        *names, metavar=metavar, help=text, show_default=usual, envvar=env, parser=parser, callback=check
    )


def argument(metavar: str, text: str, usual: str | bool = True) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=text, show_default=usual)


def flag(name: str, text: str, env: str | None = None) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=text, envvar=env)


count_of = partial(option, "COUNT", parser=reader(int, "whole number"))
file_of = partial(option, "FILE", parser=named_file)
seconds = partial(option, "SECONDS", parser=reader(float, "number"))
names_of = partial(argument, "PRESET|WORKLOAD", "Presets or workloads to run.")
dtype_of = partial(option, "DTYPE")
DTYPES = "float64, float32, tf32, bfloat16, float16, or an alias such as bf16 or half."
threads_of = partial(option, "COUNT", "CPU threads: all, a number, or several such as 1,all.", "--threads")
SUBJECT = "WORKLOAD|FILE:FUNCTION|EXPRESSION"
RUN_NAME = "Run number, `latest`, or the first characters of a run id."
RUN_NAMES = "Run numbers, `latest`, or the first characters of run ids."
PYTHON = "Python that runs the timed code; it needs torch. With `auto`, search for a Python that can use the GPU."
SERIES = (
    "A series is all runs of one command such as `run --repeat 5`. Give a tag, the name of a baseline, or one run of "
    "the series: its number, the first characters of its id, or `latest`. FILE:RUN is a run in another database."
)


class Given:
    """What a command was given: the options that several commands share. One that a command lacks has its default.

    A command with others, or with other words for some, has a class of its own.
    """

    known: ClassVar[Mapping[str, Any]]
    """Name of an option → its annotation."""

    def __init__(self, context: typer.Context, values: Mapping[str, Any]) -> None:
        self.context = context
        vars(self).update(values)

    def __init_subclass__(cls) -> None:
        cls.known = {**cls.known, **inspect.get_annotations(cls, eval_str=True)}

    # ------------------------------------------------------------------ plan

    names: Annotated[list[str] | None, names_of("quick")] = None
    size: Annotated[str | None, option(
        "SIZES", "Sizes: 16,32,64, steps: 1:10000:50 (without the stop), or a search: 16:10M.", "--size", "--n",
        usual="the workload's",
    )] = None  # fmt: skip
    dtype: Annotated[str | None, dtype_of(DTYPES, usual="float32, if the preset sets none")] = None
    threads: Annotated[str | None, threads_of(usual="all, if the preset sets none")] = None
    variant: Annotated[str | None, option(
        "NAME", "Variant of the workload, or several, separated by commas. `cpugpu-tui list` shows them.",
        usual="the preset's",
    )] = None  # fmt: skip
    device: Annotated[list[str] | None, option(
        "DEVICE", "auto (the CPU and the first GPU), cpu, cuda (every GPU) or cuda:N. Repeatable.",
        usual="auto", env="CPUGPU_DEVICE",
    )] = None  # fmt: skip
    parallel: Annotated[bool, flag(
        "--parallel", "Run all GPUs at the same time. They then share power, PCIe and CPU cores."
    )] = False  # fmt: skip
    rounds: Annotated[int | None, count_of(
        "Exact number of rounds per case.", usual="8 to 40, in a search 6 to 24"
    )] = None  # fmt: skip
    starts: Annotated[int | None, count_of(
        "Starts of the process to time in, because times differ from start to start. With 1, intervals hold"
        " within it. Fewer are used if the time or the memory is short.",
        usual="CPUGPU_STARTS or 5, and 1 in each run of --repeat",
    )] = None  # fmt: skip
    find_crossover: Annotated[bool, flag(
        "--find-crossover",
        "Search for the crossover. --size gives the ends of the search; the program chooses the sizes between.",
    )] = False  # fmt: skip
    max_size: Annotated[str | None, option(
        "SIZE", "Upper end of the search, in place of the largest size in --size.", usual="the workload's"
    )] = None  # fmt: skip
    full: Annotated[bool, flag("--full", "In a search: also time the CPU where it is certain to lose.")] = False
    resume: Annotated[bool, flag(
        "--resume", "Finish an interrupted run: `run --resume NUMBER`, the newest one without NUMBER. "
        "--max-seconds gives it another time limit."
    )] = False  # fmt: skip
    repeat: Annotated[int, count_of("Repeat the whole run this many times.")] = 1
    max_seconds: Annotated[float | None, seconds(
        "Time limit since the program began; runs of --repeat share it. Other cases are skipped.", usual="no limit"
    )] = None  # fmt: skip
    case_timeout: Annotated[float | None, seconds(
        "Fail a case that makes no progress for this long.", usual="no limit", env="CPUGPU_CASE_TIMEOUT"
    )] = None  # fmt: skip
    energy: Annotated[bool, flag(
        "--energy", "Also measure the energy of a call in joules. Adds 2 s for each case and device."
    )] = False  # fmt: skip
    beside: Annotated[str | None, option(
        "NAME|FILE", "Time the CPU alone, and set it beside the recorded times of a GPU: h100, h200 or a file."
    )] = None  # fmt: skip
    cache: Annotated[str, option(
        "STATE", "State of the caches when kernel time is measured: cold (emptied first) or warm."
    )] = "cold"  # fmt: skip
    scale: Annotated[str, option("SCALE", "full, or small: fewer and smaller cases that run in seconds.")] = "full"
    mnist: Annotated[Path | None, option(
        "DIR", "Folder with your own MNIST idx files.", usual="artificial digits", env="CPUGPU_MNIST"
    )] = None  # fmt: skip

    # ------------------------------------------------------------------ code

    setup: Annotated[list[str] | None, option(
        "CODE", "Python code that makes the inputs of a size. Repeat for more lines.", "--setup", "-s"
    )] = None  # fmt: skip
    n: Annotated[str | None, option(
        "SIZES", "Sizes: one (512), several (16,64,256), a search (16:4096) or steps (16:4096:16, without the stop).",
        "--n", "--size",
    )] = None  # fmt: skip
    let: Annotated[list[str] | None, option(
        "NAME=VALUE", "Further parameter. With k=1,2 each value is timed in turn."
    )] = None  # fmt: skip
    in_place: Annotated[bool, flag(
        "--in-place", "Allow the statement to change its inputs. They are restored before each call."
    )] = False  # fmt: skip

    # ------------------------------------------------------------------ history and output

    explain: Annotated[bool, flag(
        "--explain", "Below the table, also print the causes, what-ifs, and what ran where."
    )] = False  # fmt: skip
    json: Annotated[bool, flag("--json", "Print JSON, one object per line.")] = False
    database: Annotated[Path | None, file_of(
        "Database of the history.", "--db", usual="in the data folder", env="CPUGPU_DB"
    )] = None  # fmt: skip
    no_save: Annotated[bool, flag("--no-save", "Do not write to the history.")] = False
    export: Annotated[list[Path] | None, file_of(
        "Write the run to a file that ends in .json, .ndjson, .csv, .md, .html, .svg or .png. Repeatable."
    )] = None  # fmt: skip
    tensorboard: Annotated[Path | None, option("DIR", "Write TensorBoard files to this folder during the run.")] = None
    summary: Annotated[Path | None, file_of("Write a summary in Markdown to this file.")] = None
    run_name: Annotated[str, argument("RUN", RUN_NAME)] = "latest"
    band: Annotated[str | None, option(
        "PERCENT", "When runs are compared, differences up to this size get the verdict SAME. A single value such as "
        "2% is used for both latency and kernel time.", env="CPUGPU_BAND",
        usual="latency=2%,kernel-time=0.5%; between two codes or Pythons timed in turn latency=0.7%",
    )] = None  # fmt: skip
    max_slowdown: Annotated[str, option(
        "PERCENT", "How much slower than the baseline a case may be: one limit such as 5%, or two limits, "
        "latency=5%,kernel-time=1%.",
    )] = "5%"  # fmt: skip

    # ------------------------------------------------------------------ machine and app

    worker: Annotated[str, option(
        "MODE", "Run the timed code in a `process` of its own or in a `thread` of this program.", env="CPUGPU_WORKER"
    )] = "process"  # fmt: skip
    python: Annotated[str | None, option("PATH", PYTHON, usual="the Python of cpugpu-tui", env="CPUGPU_PYTHON")] = None
    pythons: Annotated[list[str] | None, option(
        "PATH", f"{PYTHON} Repeat the option to compare several: they are timed in turn.  [env var: CPUGPU_PYTHON]",
        "--python", usual="the Python of cpugpu-tui",
    )] = None  # fmt: skip
    simulate: Annotated[str | None, option(
        "SETTINGS", "Use a simulated CPU and GPU. SETTINGS is `default`, or for example noise=0.02,gpus=2.",
        env="CPUGPU_SIMULATE",
    )] = None  # fmt: skip
    workloads: Annotated[list[Path] | None, file_of(
        "Python file with workloads of your own. Repeatable.", env="CPUGPU_WORKLOADS"
    )] = None  # fmt: skip
    ceilings: Annotated[bool, flag(
        "--ceilings/--no-ceilings", "After the first run on a machine, measure its peak rates. This happens once and "
        "takes at most 3 s. The column `limited by` needs the rates.", env="CPUGPU_CEILINGS",
    )] = True  # fmt: skip
    replay: Annotated[Path | None, file_of(
        "Play back readings saved by `telemetry --record`, at their original speed, instead of reading "
        "this machine.",
    )] = None  # fmt: skip
    theme: Annotated[str | None, option(
        "NAME", "Theme of the app. `cpugpu-tui config themes` lists them.", usual="slate", env="CPUGPU_THEME"
    )] = None  # fmt: skip
    mouse: Annotated[bool, flag(
        "--mouse/--no-mouse", "Use the mouse in the app. With --no-mouse, the mouse selects text for copying, as "
        "usual.", env="CPUGPU_MOUSE",
    )] = True  # fmt: skip

    # ------------------------------------------------------------------ fleet

    hosts: Annotated[Path | None, file_of(
        "File of hosts: an inventory in TOML, or one name per line.", "--hosts", "-H"
    )] = None  # fmt: skip
    host_names: Annotated[list[str] | None, option(
        "HOSTS", "Hosts by name, such as n[1-4],gpu7. With --hosts, use only these hosts from the file. Repeatable.",
        "--host", "-w",
    )] = None  # fmt: skip
    launcher: Annotated[str | None, option(
        "NAME", "ssh, srun or local. A launcher in a host's inventory entry takes precedence.", "--launcher",
        usual="ssh",
    )] = None  # fmt: skip
    node_python: Annotated[str | None, option(
        "PATH", "Python that runs the kernels on the hosts; it needs torch.", "--python",
        usual="python3; if --launcher is local, the Python of cpugpu-tui",
    )] = None  # fmt: skip
    start_timeout: Annotated[float, seconds(
        "Time limit for a host to start, at least 1 s, not counting the wait in Slurm's queue.", check=in_range(1)
    )] = 120.0  # fmt: skip
    at_once: Annotated[int, count_of(
        "Number of hosts that run at the same time, 1 to 1,024.", check=in_range(1, 1024)
    )] = 128  # fmt: skip

    # ------------------------------------------------------------------ what commands make of them

    @property
    def simulation(self) -> "Simulation | None":
        """The simulated machine, or None for this one."""
        from cpugpu_tui.config.parsing import parse_simulation

        return None if self.simulate is None else parse_simulation(self.simulate)

    @property
    def several(self) -> tuple[str, ...]:
        """The interpreters to compare; empty without several."""
        return tuple(self.pythons) if self.pythons and len(self.pythons) > 1 else ()

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices to time."""
        return tuple(self.device or ["auto"])

    def number_of_starts(self) -> int:
        """Return the number of starts of a run.

        Raises:
            UsageError: it is typed beside what has one start, or the environment names no number of starts.
        """
        from cpugpu_tui.session.request import usual_starts

        has_one = {
            "--repeat": self.repeat > 1, "several interpreters": bool(self.several),
            (other := getattr(self, "other_side", "")): bool(other), "--worker thread": self.worker == "thread",
        }  # fmt: skip
        for name, is_given in has_one.items():
            if is_given and "starts" in typed(self.context) and self.starts != 1:
                raise UsageError(f"--starts cannot be combined with {name}.",
                                 "Leave one out: each of these runs has one start.")  # fmt: skip
        return usual_starts(os.environ) if self.starts is None else self.starts

    def request(self, **more: Any) -> "PlanRequest":
        """Return what to run, in one start; `more` are further fields, or other values for some."""

        from cpugpu_tui.cli.running.options import mnist_folder
        from cpugpu_tui.session.request import PlanRequest

        request = PlanRequest(
            sizes=self.size if self.n is None else self.n, dtype=self.dtype, threads=self.threads, variant=self.variant,
            devices=self.devices, rounds=self.rounds, max_seconds=self.max_seconds, case_timeout_s=self.case_timeout,
            repeat=self.repeat, cache=self.cache, scale=self.scale, simulation=self.simulation,
            mnist=mnist_folder(self.mnist, is_typed="mnist" in typed(self.context)), find_crossover=self.find_crossover,
            max_size=self.max_size, full=self.full, parallel=self.parallel, energy=self.energy, beside=self.beside,
        )  # fmt: skip
        return request._replace(**more)

    def run_options(self, **more: Any) -> "RunOptions":
        """Return how to run it, with the interpreter that `--python` names or finds; `more` as in `request`.

        Raises:
            UsageError: the worker is neither `process` nor `thread`.
        """
        from cpugpu_tui.cli.running.options import RunOptions, found_python

        fields: dict[str, Any] = {
            "worker": self.worker, "database": self.database, "save": not self.no_save, "began_s": self.context.obj,
            "python": self.python if self.several or not self.pythons else self.pythons[0],
            "workloads": tuple(map(str, self.workloads or ())), "ceilings": self.ceilings, **more,
        }  # fmt: skip
        return RunOptions(**fields | {"python": found_python(fields["python"], self.worker, self.simulation)})


G = TypeVar("G", bound=Given)
Given.known = inspect.get_annotations(Given)


def takes(
    register: Callable[[Callable[..., None]], object], kind: type[G], words: str
) -> Callable[[Callable[[G], None]], Callable[[G], None]]:
    """Register a function as a command with the options of these names, in this order."""

    def decorate(body: Callable[[G], None]) -> Callable[[G], None]:
        def command(context: typer.Context, **values: Any) -> None:
            from cpugpu_tui.config import parsing, paths

            parsing.refuse_same_file({_written(each): values.get(each.name or "") for each in context.command.params})
            if context.invoked_subcommand is None:
                parsing.check_variables(typed(context, "ENVIRONMENT"), values)
            with paths.named(values["database"] if "database" in typed(context) else None):
                body(kind(context, values))

        empty, by_name = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter("context", by_name, annotation=typer.Context)]
        parameters += [
            inspect.Parameter(name, by_name, default=getattr(kind, name, empty), annotation=kind.known[name])
            for name in words.split()
        ]
        update_wrapper(command, body).__annotations__ = {}
        cast(Any, command).__signature__ = inspect.Signature(parameters)
        register(command)
        return body

    return decorate
