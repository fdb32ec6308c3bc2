"""`cpugpu-tui time`: time a person's own expression on CPU and GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from cpugpu_tui.cli import options as opt

if TYPE_CHECKING:
    from cpugpu_tui.model import OwnCode

commands = typer.Typer()

COMMAND = "cpugpu_tui.command"
"""Key of the words after `--` in the context's table."""


class TimeCommand(TyperCommand):
    """Takes the words after `--` as a command, whose options are not ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what stands before the first `--`."""
        before = args[: args.index("--")] if "--" in args else args
        ctx.meta[COMMAND] = args[len(before) + 1 :] if "--" in args else None
        return super().parse_args(ctx, before)


Statement = Annotated[
    str | None,
    typer.Argument(
        metavar="STATEMENT | -- COMMAND",
        show_default=False,
        help="What to time: Python code such as 'x @ x', a function as FILE.py:FUNCTION, or `--` and then a command.",
    ),
]
Setup = Annotated[
    list[str] | None,
    typer.Option(
        "--setup", "-s", metavar="CODE",
        help="Python code that makes the inputs of a size. Repeat for more lines.",
    ),
]  # fmt: skip
CodeSizes = Annotated[
    str | None,
    typer.Option(
        "--n", "--size", metavar="SIZES",
        help="Sizes: one (512), several (16,64,256), a search (16:4096) or steps (16:4096:16).",
    ),
]  # fmt: skip
Lets = Annotated[
    list[str] | None,
    typer.Option("--let", metavar="NAME=VALUE", help="Further parameter. With k=1,2 each value is timed in turn."),
]
Startup = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="A second command that does only the start-up part of the timed command. Its time is shown as "
        "start-up time. For a Python command, the default is a command that only imports torch.",
    ),
]
CodeDtype = Annotated[str | None, typer.Option("--dtype", metavar="DTYPE", help=opt.DTYPE_HELP, show_default="float32")]
CodeVariant = Annotated[
    str | None,
    typer.Option(
        "--variant", metavar="NAME", show_default="default",
        help="default, compiled (by torch.compile), or both: default,compiled.",
    ),
]  # fmt: skip
CodeRepeat = Annotated[int, typer.Option("--repeat", parser=opt.whole_number, metavar="COUNT", help=opt.REPEAT_HELP)]
InPlace = Annotated[
    bool,
    typer.Option("--in-place", help="Allow the statement to change its inputs. They are restored before each call."),
]


@commands.command(cls=TimeCommand)
def time(
    context: typer.Context,
    statement: Statement = None,
    setup: Setup = None,
    n: CodeSizes = None,
    let: Lets = None,
    in_place: InPlace = False,
    startup: Startup = None,
    device: opt.DeviceNames = None,
    parallel: opt.Parallel = False,
    dtype: CodeDtype = None,
    threads: opt.ThreadsOrAll = None,
    variant: CodeVariant = None,
    find_crossover: opt.FindCrossover = False,
    full: opt.Full = False,
    rounds: opt.Rounds = None,
    starts: opt.Starts = None,
    repeat: CodeRepeat = 1,
    max_seconds: opt.MaxSeconds = None,
    case_timeout: opt.CaseTimeout = None,
    energy: opt.Energy = False,
    cache: opt.Cache = "cold",
    explain: opt.Explain = False,
    json: opt.Json = False,
    database: opt.Database = None,
    no_save: opt.NoSave = False,
    worker: opt.Worker = "process",
    python: opt.Pythons = None,
    simulate: opt.Simulate = None,
    export: opt.Exports = None,
    ceilings: opt.TakeCeilings = True,
) -> None:
    """Time your own code or command on CPU and GPU.

    The code can use torch, F, math, n (the size), device (the name of the device) and, if NumPy is installed, np.
    Setup runs on the CPU.
    Its tensors are then copied to each device. FILE.py:FUNCTION is called with the size as argument n, the device
    as argument device, and each --let NAME=VALUE as argument NAME. If FUNCTION has further arguments, define a
    function `inputs(n)` in the same file that returns their values as a tuple or a dictionary.

    A command is timed from start to exit. Before it starts, {device} is replaced by cpu or cuda:0, {n} by the
    size, and {k} by the value of --let k=VALUE. The output of the command is kept in a temporary folder,
    cpugpu-tui-output-*.
    """
    from cpugpu_tui.cli.running.modes import run_headless, run_in_turn
    from cpugpu_tui.cli.running.options import run_options, simulation
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.errors import UsageError
    from cpugpu_tui.session.own_workloads import OwnWorkloads
    from cpugpu_tui.session.planning import PlanRequest

    words = context.meta[COMMAND]
    several = tuple(python) if python and len(python) > 1 else ()
    if words is not None:
        if several:
            raise UsageError("A command is not timed by several --python.",
                             "Write the interpreter into it: --let python=A,B -- {python} FILE.")  # fmt: skip
        pythonic = {
            "STATEMENT": statement, "--setup": setup, "--in-place": in_place, "--dtype": dtype, "--variant": variant,
        }  # fmt: skip
        codes = typed_commands(words, let or (), startup, [name for name, value in pythonic.items() if value])
    else:
        codes = typed_codes(statement, "\n".join(setup or ()), let or (), startup, in_place=in_place)
    request = PlanRequest(
        names=tuple(code.name for code in codes), sizes=n, dtype=dtype, threads=threads, variant=variant,
        devices=tuple(device or ["auto"]), rounds=rounds, max_seconds=max_seconds, case_timeout_s=case_timeout,
        repeat=repeat, cache=cache, simulation=simulation(simulate), starts=opt.starts_of(context, starts),
        find_crossover=find_crossover, full=full, parallel=parallel, energy=energy, own=OwnWorkloads(codes=codes),
    )  # fmt: skip
    options = run_options(
        worker=worker, python=python[0] if python and not several else None, simulation=request.simulation,
        database=database, no_save=no_save, ceilings=ceilings and words is None,
    )  # fmt: skip
    outputs = Outputs(export or (), in_full=explain)
    if several:
        raise typer.Exit(run_in_turn(request, options, several, outputs, as_json=json, band=None))
    raise typer.Exit(run_headless(request, options, as_json=json, outputs=outputs))


def typed_codes(
    statement: str | None, setup: str, let: Sequence[str], startup: str | None, *, in_place: bool
) -> tuple[OwnCode, ...]:
    """Return a statement as data, once for each combination of parameters.

    Raises:
        UsageError: it is missing, or no Python.
    """
    from cpugpu_tui.errors import UsageError
    from cpugpu_tui.session.typed_code import parameters
    from cpugpu_tui.workloads.own_code import own_code

    if statement is None:
        raise UsageError("Missing STATEMENT or command.", "Give one, for example 'x @ x', or -- and a command.")
    if startup is not None:
        raise UsageError("--startup works only with a command.", "Write the command after --.")
    return tuple(own_code(statement, setup, lets, in_place=in_place) for lets in parameters(let))


def typed_commands(
    words: Sequence[str], let: Sequence[str], startup: str | None, unfit: Sequence[str]
) -> tuple[OwnCode, ...]:
    """Return a command as data, once for each combination of parameters. `unfit` names options that do not apply.

    Raises:
        UsageError: it is missing, cannot be run, or has options that do not apply.
    """
    from cpugpu_tui.errors import UsageError
    from cpugpu_tui.session.typed_code import parameters
    from cpugpu_tui.workloads.own_command import own_command

    if not words:
        raise UsageError("Missing command after --.", "Write it, for example -- python train.py --device {device}.")
    if unfit:
        raise UsageError(f"{unfit[0]} does not apply to a command.", f"Remove {unfit[0]}.")
    return tuple(own_command(tuple(words), lets, startup) for lets in parameters(let, is_python=False))
