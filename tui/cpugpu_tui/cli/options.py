"""Options and arguments that several commands share, as typer reads them. Nothing heavy: every command imports this."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Names = Annotated[list[str] | None, typer.Argument(metavar="[PRESET|WORKLOAD]...", help="What to run; quick if empty.")]
Sizes = Annotated[str | None, typer.Option("--size", help="16,32,64 or start:stop:step, like 1:10000:50.")]
Dtype = Annotated[str | None, typer.Option(help="float64, float32, tf32, bfloat16 or float16.")]
Threads = Annotated[str | None, typer.Option(help="CPU threads: all, a number, or several like 1,all.")]
Variant = Annotated[str | None, typer.Option(help="Variant of the workload, see `list`.")]
DeviceNames = Annotated[
    list[str] | None,
    typer.Option("--device", envvar="CPUGPU_DEVICE", help="cpu, cuda (every GPU) or cuda:N; repeatable."),
]
Parallel = Annotated[
    bool,
    typer.Option("--parallel", help="An agent for each GPU, all at the same time: they share power, PCIe and cores."),
]
Rounds = Annotated[
    int | None, typer.Option(help="Rounds per case, exactly (default 8 to 40, until the interval is narrow).")
]
FindCrossover = Annotated[
    bool,
    typer.Option(
        "--find-crossover", help="Choose sizes as it goes, to narrow where the lead changes; of --size the ends count."
    ),
]
MaxSize = Annotated[str | None, typer.Option(help="Largest size of --find-crossover (default: the workload's).")]
Full = Annotated[bool, typer.Option("--full", help="Time the CPU also where --find-crossover finds it hopeless.")]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with what is missing in the run that is named, or the newest unfinished."),
]
Repeat = Annotated[
    int | None,
    typer.Option(help="Runs of one series (default: 1; with several --python 5 of each).", show_default=False),
]
MaxSeconds = Annotated[float | None, typer.Option(help="Time for the whole run; cases not reached are skipped.")]
CaseTimeout = Annotated[
    float | None,
    typer.Option(envvar="CPUGPU_CASE_TIMEOUT", help="Seconds a case may go without an answer before it fails."),
]
Energy = Annotated[
    bool, typer.Option("--energy", help="Measure the joules of a call too: 2 s more for each case and device.")
]
Scale = Annotated[str, typer.Option(help="full, or small: seconds on two cores, and it says what it scaled.")]
Mnist = Annotated[
    Path | None, typer.Option(envvar="CPUGPU_MNIST", help="Folder of your own MNIST idx files (default: drawn digits).")
]
Cache = Annotated[str, typer.Option(help="cold or warm caches for the device metric.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Database = Annotated[
    Path | None, typer.Option("--db", envvar="CPUGPU_DB", help="Database of the history (default: in the data folder).")
]
NoSave = Annotated[bool, typer.Option("--no-save", help="Do not write to the history.")]
TakeCeilings = Annotated[
    bool,
    typer.Option(
        "--ceilings/--no-ceilings", envvar="CPUGPU_CEILINGS",
        help="Measure peak rates for `limited by` after the first run on a machine (at most 3 s, once).",
    ),
]  # fmt: skip
Worker = Annotated[
    str, typer.Option(envvar="CPUGPU_WORKER", help="process, or thread: kernels inside this very process.")
]
Python = Annotated[
    str | None,
    typer.Option(
        envvar="CPUGPU_PYTHON",
        help="Interpreter with torch that runs the kernels (default: this one); auto: find one whose torch can use the "
        "GPU.",
    ),
]
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        help="Interpreter with torch that runs the kernels; auto: find one whose torch can use the GPU. Two, each with "
        "--python, run in turn and are compared. "
        "[env var: CPUGPU_PYTHON]",
    ),
]
Simulate = Annotated[
    str | None,
    typer.Option(envvar="CPUGPU_SIMULATE", help="A made-up CPU and GPU: default, or noise=0.02,pace=1,…"),
]
Replay = Annotated[
    Path | None, typer.Option(help="Show a trace of `telemetry --record` in place of this machine, at its own pace.")
]
Theme = Annotated[str | None, typer.Option(envvar="CPUGPU_THEME", help="Theme of the app, by name.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="Number, latest, or the beginning of an id.")]
Workloads = Annotated[
    list[Path] | None,
    typer.Option("--workloads", envvar="CPUGPU_WORKLOADS", help="Python file of your own workloads; repeatable."),
]
Exports = Annotated[
    list[Path] | None,
    typer.Option("--export", help="Write the run to a file: .json, .ndjson, .csv, .md or .html; repeatable."),
]
Tensorboard = Annotated[Path | None, typer.Option(help="Folder for TensorBoard files, written while the run goes on.")]

# ------------------------------------------------------------------ compare and gate

SIDE = "run number, latest, the beginning of an id, a tag, a baseline, or FILE:RUN of another database"


MaxSlowdown = Annotated[str, typer.Option(help="How much slower a case may be, in percent.")]
Summary = Annotated[Path | None, typer.Option(help="Write a Markdown summary to this file.")]

# ------------------------------------------------------------------ fleet

HostsFile = Annotated[
    Path | None, typer.Option("--hosts", "-H", help="Hosts: an inventory in TOML, or a file with a name a line.")
]
HostNames = Annotated[
    list[str] | None, typer.Option("--host", "-w", help="Hosts by name, n[1-4],gpu7; of the file if there is one.")
]
LauncherName = Annotated[
    str | None, typer.Option("--launcher", help="ssh (default), srun or local, of hosts that do not say it.")
]
NodePython = Annotated[
    str | None,
    typer.Option("--python", help="Interpreter with torch on the hosts (default: python3; local: this one)."),
]
StartTimeout = Annotated[
    float, typer.Option(min=1.0, help="Seconds that a host may take to have its agent ready; Slurm's queue apart.")
]
AtOnce = Annotated[int, typer.Option(min=1, max=1024, help="Hosts that work at the same time.")]
