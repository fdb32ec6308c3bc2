"""`cpugpu-tui time`: time a person's own expression on CPU and GPU."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from cpugpu_tui import model
from cpugpu_tui.cli import options as opt
from cpugpu_tui.errors import UsageError, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.cli.running.options import RunOptions

commands = typer.Typer()

COMMAND = "cpugpu_tui.command"
"""Key of the words after `--` in the context's table."""


class TimeCommand(TyperCommand):
    """Takes the words after `--` as a command, whose options are not ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what stands before the first `--`."""
        before = args[: args.index("--")] if "--" in args else args
        ctx.meta[COMMAND] = args[len(before) + 1 :] if "--" in args else None
        ctx.allow_extra_args = True  # to name what was meant
        extra = super().parse_args(ctx, before)
        if extra and not ctx.resilient_parsing:
            words = [str(ctx.params["statement"]), *extra]
            if shutil.which(words[0]):
                remedy, line = "Write -- before a command", f"-- {shlex.join(words)}"
            elif any(" " in word for word in words):
                remedy, line = "To compare two codes, use --against", shlex.join([words[0], "--against", words[1]])
            else:
                remedy, line = "Quote code that has spaces", shlex.quote(" ".join(words))
            raise UsageError(f"Unexpected argument {extra[0]!r}.", f"{remedy}: `cpugpu-tui time {line}`.")
        return extra


class TimeGiven(opt.Given):
    """The options of `time`."""

    statement: Annotated[str | None, opt.argument(
        "STATEMENT | -- COMMAND",
        "What to time: Python code such as 'x @ x', a function as FILE.py:FUNCTION, or `--` and then a command.", False,
    )] = None  # fmt: skip
    startup: Annotated[str | None, opt.option(
        "COMMAND", "A second command that does only the start-up part of the timed command. Its time is shown as "
        "start-up time. For a Python command, the default is a command that only imports torch.",
    )] = None  # fmt: skip
    against: Annotated[str | None, opt.option(
        "CODE", "Compare with this other code, for example the old version. Both are timed in turn on each device, and "
        "their results are compared. If a command is timed, CODE is a command, too.",
    )] = None  # fmt: skip
    against_setup: Annotated[list[str] | None, opt.option(
        "CODE", "Compare with this other set-up, of the same code or of that in --against. Repeat for more lines.",
        usual="that of --setup",
    )] = None  # fmt: skip
    against_variant: Annotated[str | None, opt.option(
        "NAME", "Compare with this other variant, default or compiled.", usual="that of --variant"
    )] = None  # fmt: skip
    on_cpu: Annotated[str | None, opt.option(
        "CODE", "What to time on the CPU: an expression or a function, which may use NumPy or any other library. It "
        "needs --on-gpu, and takes the place of STATEMENT.",
    )] = None  # fmt: skip
    on_gpu: Annotated[str | None, opt.option(
        "CODE", "The other implementation, for the GPU: with torch, CuPy, JAX, Triton or an extension of your own."
    )] = None  # fmt: skip
    gpu_setup: Annotated[list[str] | None, opt.option(
        "CODE", "More set-up for the code in --on-gpu, after --setup, for example y = cupy.asarray(x). Repeatable."
    )] = None  # fmt: skip
    rev: Annotated[str | None, opt.option(
        "REVISION", "Compare FILE.py:FUNCTION with what it was in this revision of its git repository, for example "
        "HEAD. Files beside it are those of the revision, too.",
    )] = None  # fmt: skip
    dtype: Annotated[str | None, opt.dtype_of(opt.DTYPES, usual="float32")] = None
    threads: Annotated[str | None, opt.threads_of(usual="all")] = None
    variant: Annotated[str | None, opt.option(
        "NAME", "default, compiled (by torch.compile), or both: default,compiled.", usual="default"
    )] = None  # fmt: skip

    @property
    def other_side(self) -> str:
        """The first option that names what to compare with; empty without one."""
        options = {"--against": self.against, "--rev": self.rev, "--against-setup": self.against_setup,
                   "--against-variant": self.against_variant}  # fmt: skip
        return next((option for option, value in options.items() if value is not None), "")


@opt.takes(
    commands.command(cls=TimeCommand), TimeGiven,
    "statement against rev setup against_setup against_variant on_cpu on_gpu gpu_setup n let in_place startup device "
    "parallel dtype threads variant find_crossover full rounds starts repeat max_seconds case_timeout energy cache "
    "explain json database no_save worker pythons hosts host_names launcher start_timeout band simulate export "
    "ceilings",
)  # fmt: skip
def time(given: TimeGiven) -> None:
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
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.compare.in_turn import Side, code_sides
    from cpugpu_tui.session.own_workloads import OwnWorkloads
    from cpugpu_tui.session.typed_code import check_use_of_lets, with_names_of_both

    check_pair(given)
    words = given.context.meta[COMMAND]
    if words is not None:
        if given.several:
            raise UsageError("A command is not timed by several --python.",
                             "Write the interpreter into it: --let python=A,B -- {python} FILE.")  # fmt: skip
        pythonic = {
            "STATEMENT": given.statement, "--setup": given.setup, "--in-place": given.in_place,
            "--dtype": given.dtype, "--variant": given.variant, "--against-setup": given.against_setup,
            "--against-variant": given.against_variant, "--on-cpu": given.on_cpu, "--on-gpu": given.on_gpu,
        }  # fmt: skip
        unfit = [name for name, value in pythonic.items() if value]
        check_place_of_options(given, words)
        codes = typed_commands(words, given.let or (), given.startup, unfit)
    elif given.on_cpu is not None:
        codes = codes_of_both(given)
    else:
        setup = "\n".join(given.setup or ())
        codes = typed_codes(given.statement, setup, given.let or (), given.startup, in_place=given.in_place)
    with nullcontext("") if given.rev is None else TemporaryDirectory(prefix="cpugpu-tui-revision-") as folder:
        commit = None
        if given.rev is None:
            old = other_codes(given, is_command=words is not None)
        else:
            old, commit = codes_of_revision(given, folder)
        if given.against_setup is not None:
            old = tuple(replace(code, setup_option="--against-setup") for code in old)
        if words is None:
            check_use_of_lets((codes[0], *old[:1]))
        if given.against_variant is not None:
            codes, old = (tuple(replace(code, is_compiled=name == model.COMPILED) for code in each)
                          for each, name in ((codes, given.variant), (old, given.against_variant)))  # fmt: skip
        pair = told_pair(given, codes, old, commit) if old else ()
        codes, old = with_names_of_both(codes, old) if old else (codes, old)
        request = given.request(
            names=tuple(code.name for code in codes), starts=given.number_of_starts(), own=OwnWorkloads(codes=codes),
            pair=pair, variant=given.variant if given.against_variant is None else None,
        )  # fmt: skip
        options = given.run_options(ceilings=given.ceilings and words is None)
        if given.host_names or given.hosts:
            options = on_host(given, options, (*codes, *old))
        elif given.launcher is not None:
            raise UsageError(f"--launcher {given.launcher} needs --host.", "Name the machine with --host.")
        outputs = Outputs.of(given)
        if old or given.several:
            interpreters = [Side(python, python) for python in given.several]
            sides = code_sides(codes, old, options.python) if old else interpreters
            raise typer.Exit(run_in_turn(request, options, sides, outputs, as_json=given.json, band=given.band))
        raise typer.Exit(run_headless(request, options, as_json=given.json, outputs=outputs))


def on_host(given: TimeGiven, options: RunOptions, codes: Sequence[model.OwnCode]) -> RunOptions:
    """Return the options of a run on another machine. Say which files are sent there.

    Raises:
        UsageError: several machines are named, the code cannot be sent, or an option does not apply there.
        UnfitError: Slurm did not report the resources of its nodes.
    """
    from cpugpu_tui.cli.fleet.running import named_hosts
    from cpugpu_tui.session.code_files import announced
    from cpugpu_tui.transport.interpreter_search import AUTO

    if given.worker == "thread":
        raise UsageError("--worker thread runs in this process.", "Leave out --worker thread or --host.")
    # A variable of this machine does not name the Python of another one.
    python = given.pythons[0] if given.pythons and "pythons" in opt.typed(given.context) else None
    if python == AUTO:
        raise UsageError("--python auto searches this machine.", "Give the path of the Python on the other one.")
    hosts = named_hosts(given, python)
    if len(hosts) > 1:
        raise UsageError(f"time runs on one other machine, not on {len(hosts)}.", "Use fleet run with the same code.")
    if hosts[0].launcher == "srun" and (given.other_side or given.several):
        raise UsageError("A comparison runs three processes at the same time, and srun gives the node to one.",
                         "Run this program there: srun --pty cpugpu-tui time …")  # fmt: skip
    files = announced(codes, hosts, print_notice)
    return options._replace(python=python, host=hosts[0], files=files, hello_limit_s=given.start_timeout)


def check_pair(given: TimeGiven) -> None:
    """Check that the options of a comparison belong together.

    Raises:
        UsageError: one of them needs another, or excludes it.
    """

    if (given.on_cpu is None) != (given.on_gpu is None):
        missing, there = ("--on-gpu", "--on-cpu") if given.on_gpu is None else ("--on-cpu", "--on-gpu")
        raise UsageError(f"{there} needs {missing}.", f"Name the other implementation with {missing}.")
    if given.gpu_setup and given.on_gpu is None:
        raise UsageError("--gpu-setup works only with --on-gpu.", "Add --on-cpu and --on-gpu, or use --setup.")
    if given.against is not None and given.rev is not None:
        raise UsageError("--against cannot be combined with --rev.", "Name the other code with one of them.")
    if not (option := given.other_side):
        if not given.several and "band" in opt.typed(given.context):
            raise UsageError("--band needs two sides to compare.", "Add --against CODE, or repeat --python.")
    elif given.several:
        raise UsageError(f"{option} cannot be combined with several --python.",
                         f"Repeat the command for each --python, or leave out {option} to compare them.")  # fmt: skip
    if given.against_variant is not None:
        for name in (given.against_variant, given.variant or "default"):
            if name not in ("default", model.COMPILED):
                raise UsageError(f"Invalid variant {name!r} of one side.", f"Use default or {model.COMPILED}.")


def codes_of_both(given: TimeGiven) -> tuple[model.OwnCode, ...]:
    """Return the code of --on-cpu with that of --on-gpu, once for each combination of parameters.

    Raises:
        UsageError: one of them is no Python, or an option does not apply to two implementations.
    """
    from cpugpu_tui.workloads.own_code import two_sides

    unfit = {"STATEMENT": given.statement, "--in-place": given.in_place, "--startup": given.startup,
             "--variant": given.variant, given.other_side: given.other_side}  # fmt: skip
    for name, value in unfit.items():
        if value:
            raise UsageError(f"{name} cannot be combined with --on-cpu.", "Leave it out.")
    setup = "\n".join(given.setup or ())
    both = (typed_codes(code, "\n".join([*filter(None, [setup]), *more]), given.let or (), None, in_place=False)
            for code, more in ((given.on_cpu, ()), (given.on_gpu, given.gpu_setup or ())))  # fmt: skip
    return tuple(two_sides(cpu, gpu) for cpu, gpu in zip(*both, strict=True))


def other_codes(given: TimeGiven, *, is_command: bool) -> tuple[model.OwnCode, ...]:
    """Return the code of the other side, once for each combination of parameters; empty without one.

    Raises:
        UsageError: it is no Python, or no command that can be run.
    """
    if not given.other_side:
        return ()
    if not is_command:
        setup = "\n".join(given.against_setup or given.setup or ())
        statement = given.statement if given.against is None else given.against
        return typed_codes(statement, setup, given.let or (), None, in_place=given.in_place)
    try:
        words = shlex.split(given.against or "")
    except ValueError as error:
        raise UsageError(f"Invalid --against {given.against!r}: {error}.", "Write a command, as in a shell.") from None
    return typed_commands(words, given.let or (), given.startup, ())


def codes_of_revision(given: TimeGiven, folder: str) -> tuple[tuple[model.OwnCode, ...], str]:
    """Return the function of --rev, once for each combination of parameters, and the commit.

    All files of the commit are written to `folder`.

    Raises:
        UsageError: no function of a file is timed, or the revision does not have it.
    """
    from cpugpu_tui.session.code_files import file_of_revision
    from cpugpu_tui.workloads.code_target import parse_target

    file, name = parse_target(given.statement or "") or ("", "")
    if not file.endswith(".py") or given.rev is None:
        raise UsageError(
            f"--rev {given.rev} needs FILE.py:FUNCTION, whose file is in git.", "Name the other code with --against."
        )
    path, commit = file_of_revision(file, given.rev, Path(folder))
    setup = "\n".join(given.against_setup or given.setup or ())
    try:
        codes = typed_codes(f"{path}:{name}", setup, given.let or (), None, in_place=given.in_place)
    except UsageError as error:
        raise UsageError(error.message.replace(f"{folder}/", f"{commit}:"), error.remedy) from None
    return tuple(replace(code, statement=f"{file}:{name} of {commit}") for code in codes), commit


def told_pair(
    given: TimeGiven, new: Sequence[model.OwnCode], old: Sequence[model.OwnCode], commit: str | None
) -> tuple[str, ...]:
    """Return `time` and the words that name both codes. Say if they are equal."""
    from cpugpu_tui.session.repeat import pair_words

    if given.rev is not None and new[0].sha256 == old[0].sha256 and new[0].setup == old[0].setup:
        print_notice(f"{new[0].target[0]} is the same in {given.rev}: only files that it imports can differ.")
    if [replace(code, name="") for code in new] == [replace(code, name="") for code in old]:
        what = f", sha256 {new[0].sha256[:12]}" if new[0].sha256 else ""
        print_notice(f"NEW and OLD are the same code{what}: this shows what the machine can tell apart.")
    more = {"--against": given.against, "--rev": commit, "--against-setup": given.against_setup,
            "--variant": given.variant if given.against_variant is not None else None,
            "--against-variant": given.against_variant, "--max-seconds": given.max_seconds}  # fmt: skip
    return pair_words(new, old, more)


def typed_codes(
    statement: str | None, setup: str, let: Sequence[str], startup: str | None, *, in_place: bool
) -> tuple[model.OwnCode, ...]:
    """Return a statement as data, once for each combination of parameters.

    Raises:
        UsageError: it is missing, or no Python.
    """
    from cpugpu_tui.session.typed_code import parameters
    from cpugpu_tui.workloads.own_code import own_code

    if statement is None:
        raise UsageError("Missing STATEMENT or command.", "Give one, for example 'x @ x', or -- and a command.")
    if startup is not None:
        raise UsageError("--startup works only with a command.", "Write the command after --.")
    return tuple(own_code(statement, setup, lets, in_place=in_place) for lets in parameters(let))


def check_place_of_options(given: TimeGiven, words: Sequence[str]) -> None:
    """Check that sizes and parameters of a command that uses {n} or {k} do not stand among its own words.

    Other options there, such as --against, may be the command's own.

    Raises:
        UsageError: they do, so there are none.
    """
    text, typed = " ".join(words), {let.partition("=")[0] for let in given.let or ()}
    options = {word.partition("=")[0] for word in words if given.n is None and "{n}" in text}
    lets = {let.partition("=")[0]: let for option, let in pairwise(words) if option == "--let"}
    found = [(option, "16,64") for option in sorted(options & {"--n", "--size"})]
    found += [("--let", let) for name, let in lets.items() if name not in typed and f"{{{name}}}" in text]
    for option, value in found:
        remedy = f"Write options of `time` before --, for example: {option} {value} -- {words[0]} …"
        raise UsageError(f"{option} stands after --, so it is part of the command.", remedy)


def typed_commands(
    words: Sequence[str], let: Sequence[str], startup: str | None, unfit: Sequence[str]
) -> tuple[model.OwnCode, ...]:
    """Return a command as data, once for each combination of parameters. `unfit` names options that do not apply.

    Raises:
        UsageError: it is missing, cannot be run, or has options that do not apply.
    """
    from cpugpu_tui.session.typed_code import parameters
    from cpugpu_tui.workloads.own_code import own_command

    if not words:
        raise UsageError("Missing command after --.", "Write it, for example -- python train.py --device {device}.")
    if unfit:
        raise UsageError(f"{unfit[0]} does not apply to a command.", f"Remove {unfit[0]}.")
    return tuple(own_command(tuple(words), lets, startup) for lets in parameters(let, is_python=False))
