"""Options and arguments that several commands share, as typer reads them. Every command imports this: keep it light."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.errors import UsageError


class NotANumber(typer.BadParameter):
    """The value of an option or variable cannot be read as a number."""

    def __init__(self, value: object, wanted: str) -> None:
        super().__init__(f"{value!r} is not a {wanted}.")
        self.value, self.wanted = str(value), wanted


def whole_number(text: str) -> int:
    """Return the whole number in a text. A parser of our own, because the errors of typer's differ by version.

    Raises:
        NotANumber: it cannot be read as one.
    """
    try:
        return int(text)
    except ValueError:
        raise NotANumber(text, "whole number") from None


def number(text: str) -> float:
    """Return the number in a text.

    Raises:
        NotANumber: it cannot be read as one.
    """
    try:
        return float(text)
    except ValueError:
        raise NotANumber(text, "number") from None


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


def typed(context: typer.Context) -> dict[str, str]:
    """Return the parameters that stand on the command line: name → the option or argument as people write it."""
    sources = {each: context.get_parameter_source(each.name or "") for each in context.command.params}
    return {
        each.name or "": each.opts[0] if each.opts[0].startswith("-") else str(each.metavar)
        for each, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    }


def starts_of(context: typer.Context, starts: int | None) -> int:
    """Return the number of starts of a run.

    Raises:
        UsageError: it is typed beside what has one start.
    """
    from cpugpu_tui.session.search_limits import STARTS

    beside = typed(context)
    several = (
        len(context.params.get("python") or ()) > 1 if not isinstance(context.params.get("python"), str) else False
    )
    has_one = {
        "--repeat": (context.params.get("repeat") or 1) > 1, "several interpreters": several,
        "--worker thread": context.params.get("worker") == "thread",
    }  # fmt: skip
    for option, is_given in has_one.items():
        if is_given and "starts" in beside and starts != 1:
            raise UsageError(
                f"--starts cannot be combined with {option}.", "Leave one out: each of these runs has one start."
            )
    return STARTS if starts is None else starts


def refuse_beside(
    context: typer.Context, flag: str, is_refused: Callable[[str], bool], remedy: str = "Leave one of them out."
) -> None:
    """Refuse parameters on the command line that have no meaning beside `flag`; `is_refused` takes their names.

    Raises:
        UsageError: one of them is given.
    """
    for name, option in typed(context).items():
        if is_refused(name):
            raise UsageError(f"{option} cannot be combined with {flag}.", remedy)


# A default in words (`show_default`) is shown in the same place as a value: `[default: (no limit)]`.

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="PRESET|WORKLOAD", help="Presets or workloads to run.", show_default="quick"),
]
Sizes = Annotated[
    str | None,
    typer.Option(
        "--size", metavar="SIZES", help="Sizes: 16,32,64, steps such as 1:10000:50, or a search such as 16:10M.",
        show_default="the workload's",
    ),
]  # fmt: skip
DTYPE_HELP = "float64, float32, tf32, bfloat16, float16, or an alias such as bf16 or half."
Dtype = Annotated[
    str | None, typer.Option(metavar="DTYPE", help=DTYPE_HELP, show_default="float32, if the preset sets none")
]
THREADS_HELP = "CPU threads: all, a number, or several such as 1,all."
Threads = Annotated[
    str | None, typer.Option(metavar="COUNT", help=THREADS_HELP, show_default="all, if the preset sets none")
]
ThreadsOrAll = Annotated[str | None, typer.Option("--threads", metavar="COUNT", help=THREADS_HELP, show_default="all")]
Variant = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="the preset's",
        help="Variant of the workload, or several, separated by commas. `cpugpu-tui list` shows them.",
    ),
]
DeviceNames = Annotated[
    list[str] | None,
    typer.Option(
        "--device", metavar="DEVICE", envvar="CPUGPU_DEVICE", show_default="auto",
        help="auto (the CPU and the first GPU), cpu, cuda (every GPU) or cuda:N. Repeatable.",
    ),
]  # fmt: skip
Parallel = Annotated[
    bool,
    typer.Option("--parallel", help="Run all GPUs at the same time. They then share power, PCIe and CPU cores."),
]
Rounds = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="COUNT", help="Exact number of rounds per case.",
        show_default="8 to 40, in a search 6 to 24",
    ),
]  # fmt: skip
Starts = Annotated[
    int | None,
    typer.Option(
        "--starts", parser=whole_number, metavar="COUNT", envvar="CPUGPU_STARTS", show_default="5",
        help="Starts of the process to time in, because times differ from start to start. With 1, intervals hold"
        " within it. Fewer are used if the time or the memory is short.",
    ),
]  # fmt: skip
FindCrossover = Annotated[
    bool,
    typer.Option(
        "--find-crossover",
        help="Search for the crossover. --size gives the ends of the search; the program chooses the sizes between.",
    ),
]
MaxSize = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Upper end of the search, in place of the largest size in --size.",
        show_default="the workload's",
    ),
]
Full = Annotated[
    bool,
    typer.Option("--full", help="In a search: also time the CPU at sizes where it is certain to lose."),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Finish an interrupted run: `run --resume NUMBER`. Without NUMBER, finish the newest one.",
    ),
]
REPEAT_HELP = "Repeat the whole run this many times."
Repeat = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="COUNT", help=REPEAT_HELP, show_default="1"),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(parser=number, metavar="SECONDS",
        help="Time limit of the whole run. Cases not started by then are skipped.",
        show_default="no limit",
    ),
]  # fmt: skip
CaseTimeout = Annotated[
    float | None,
    typer.Option(parser=number, metavar="SECONDS", envvar="CPUGPU_CASE_TIMEOUT",
        help="Fail a case that makes no progress for this long.", show_default="no limit",
    ),
]  # fmt: skip
Energy = Annotated[
    bool,
    typer.Option("--energy", help="Also measure the energy of a call in joules. Adds 2 s for each case and device."),
]
Scale = Annotated[
    str, typer.Option(metavar="SCALE", help="full, or small: fewer and smaller cases that run in seconds.")
]
Mnist = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", envvar="CPUGPU_MNIST", help="Folder with your own MNIST idx files.",
        show_default="artificial digits",
    ),
]  # fmt: skip
Cache = Annotated[
    str,
    typer.Option(
        metavar="STATE", help="State of the caches when kernel time is measured: cold (emptied first) or warm."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Below the table, also print the causes, what-ifs, and what ran where.")
]
Database = Annotated[
    Path | None,
    typer.Option(
        "--db", metavar="FILE", envvar="CPUGPU_DB", help="Database of the history.", show_default="in the data folder"
    ),
]
NoSave = Annotated[bool, typer.Option("--no-save", help="Do not write to the history.")]
TakeCeilings = Annotated[
    bool,
    typer.Option(
        "--ceilings/--no-ceilings", envvar="CPUGPU_CEILINGS",
        help="After the first run on a machine, measure its peak rates. This happens once and takes at most 3 s. "
        "The column `limited by` needs the rates.",
    ),
]  # fmt: skip
Worker = Annotated[
    str,
    typer.Option(
        metavar="MODE", envvar="CPUGPU_WORKER",
        help="Run the timed code in a `process` of its own or in a `thread` of this program.",
    ),
]  # fmt: skip
Python = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", envvar="CPUGPU_PYTHON",
        help="Python that runs the timed code; it needs torch. With `auto`, search for a Python that can use the GPU.",
        show_default="the Python of cpugpu-tui",
    ),
]  # fmt: skip
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python", metavar="PATH",
        help="Python that runs the timed code; it needs torch. With `auto`, search for a Python that can use the GPU. "
        "Repeat the option to compare several: they are timed in turn.  [env var: CPUGPU_PYTHON]",
        show_default="the Python of cpugpu-tui",
    ),
]  # fmt: skip
Band = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT", envvar="CPUGPU_BAND",
        help="When runs are compared, differences up to this size get the verdict SAME. A single value such as 2% is "
        "used for both latency and kernel time.",
        show_default="latency=2%,kernel-time=0.5%; between Pythons latency=0.7%",
    ),
]  # fmt: skip
Simulate = Annotated[
    str | None,
    typer.Option(
        metavar="SETTINGS", envvar="CPUGPU_SIMULATE",
        help="Use a simulated CPU and GPU. SETTINGS is `default`, or for example noise=0.02,gpus=2.",
    ),
]  # fmt: skip
Replay = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Play back readings saved by `telemetry --record`, at their original speed, instead of reading "
        "this machine.",
    ),
]
Theme = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", envvar="CPUGPU_THEME", help="Theme of the app. `cpugpu-tui config themes` lists them.",
        show_default="slate",
    ),
]  # fmt: skip
Mouse = Annotated[
    bool,
    typer.Option(
        "--mouse/--no-mouse", envvar="CPUGPU_MOUSE",
        help="Use the mouse in the app. With --no-mouse, the mouse selects text for copying, as usual.",
    ),
]  # fmt: skip
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="Run number, `latest`, or the first characters of a run id.")
]
Workloads = Annotated[
    list[Path] | None,
    typer.Option(
        "--workloads", metavar="FILE", envvar="CPUGPU_WORKLOADS",
        help="Python file with workloads of your own. Repeatable.",
    ),
]  # fmt: skip
Exports = Annotated[
    list[Path] | None,
    typer.Option(
        "--export", metavar="FILE",
        help="Write the run to a file that ends in .json, .ndjson, .csv, .md, .html, .svg or .png. Repeatable.",
    ),
]  # fmt: skip
Tensorboard = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write TensorBoard files to this folder during the run.")
]

# ------------------------------------------------------------------ compare and gate

SERIES = (
    "A series is all runs of one command such as `run --repeat 5`. Give a tag, the name of a baseline, or one "
    "run of the series: its number, the first characters of its id, or `latest`. FILE:RUN is a run in another "
    "database."
)


MaxSlowdown = Annotated[
    str,
    typer.Option(
        metavar="PERCENT",
        help="How much slower than the baseline a case may be: one limit such as 5%, or two limits, "
        "latency=5%,kernel-time=1%.",
    ),
]
Summary = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a summary in Markdown to this file.")]

# ------------------------------------------------------------------ fleet

HostsFile = Annotated[
    Path | None,
    typer.Option("--hosts", "-H", metavar="FILE", help="File of hosts: an inventory in TOML, or one name per line."),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option(
        "--host", "-w", metavar="HOSTS",
        help="Hosts by name, such as n[1-4],gpu7. With --hosts, use only these hosts from the file. Repeatable.",
    ),
]  # fmt: skip
LauncherName = Annotated[
    str | None,
    typer.Option(
        "--launcher", metavar="NAME", show_default="ssh",
        help="ssh, srun or local. A launcher in a host's inventory entry takes precedence.",
    ),
]  # fmt: skip
NodePython = Annotated[
    str | None,
    typer.Option(
        "--python", metavar="PATH", help="Python that runs the kernels on the hosts; it needs torch.",
        show_default="python3; if --launcher is local, the Python of cpugpu-tui",
    ),
]  # fmt: skip
StartTimeout = Annotated[
    float,
    typer.Option(
        parser=number,
        callback=in_range(1),
        metavar="SECONDS",
        help="Time limit for a host to start, at least 1 s, not counting the wait in Slurm's queue.",
    ),
]
AtOnce = Annotated[
    int,
    typer.Option(
        parser=whole_number,
        callback=in_range(1, 1024),
        metavar="COUNT",
        help="Number of hosts that run at the same time, 1 to 1,024.",
    ),
]
