"""Options and arguments that several commands share, as typer reads them. Every command imports this: keep it light."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# A default in words (`show_default`) is shown in the same place as a value: `[default: (no limit)]`.

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="PRESET|WORKLOAD", help="Presets or workloads to run.", show_default="quick"),
]
Sizes = Annotated[
    str | None,
    typer.Option(
        "--size", metavar="SIZES", help="Sizes: 16,32,64 or start:stop:step such as 1:10000:50.",
        show_default="the workload's",
    ),
]  # fmt: skip
Dtype = Annotated[
    str | None,
    typer.Option(metavar="DTYPE", help="float64, float32, tf32, bfloat16 or float16.", show_default="the preset's"),
]
Threads = Annotated[
    str | None,
    typer.Option(
        metavar="COUNT", help="CPU threads: all, a number, or several such as 1,all.", show_default="the preset's"
    ),
]
Variant = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Variant of the workload. `cpugpu-tui list` shows them.", show_default="the preset's"
    ),
]
DeviceNames = Annotated[
    list[str] | None,
    typer.Option(
        "--device", metavar="DEVICE", envvar="CPUGPU_DEVICE", help="cpu, cuda (every GPU) or cuda:N. Repeatable.",
        show_default="the CPU and the first GPU",
    ),
]  # fmt: skip
Parallel = Annotated[
    bool,
    typer.Option("--parallel", help="Run all GPUs at the same time. They then share power, PCIe and CPU cores."),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        metavar="COUNT", help="Exact number of rounds per case.",
        show_default="8 to 40, until the interval is narrow",
    ),
]  # fmt: skip
FindCrossover = Annotated[
    bool,
    typer.Option(
        "--find-crossover",
        help="Choose sizes during the run to narrow down the crossover. Of --size only the ends are used.",
    ),
]
MaxSize = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Largest size that --find-crossover tries.", show_default="the workload's"),
]
Full = Annotated[
    bool,
    typer.Option("--full", help="With --find-crossover: also time the CPU at sizes where it is certain to lose."),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Finish a run that was interrupted: the one named, or the newest unfinished one."),
]
Repeat = Annotated[
    int | None,
    typer.Option(
        metavar="COUNT", help="Number of runs in the series.", show_default="1; with several --python: 5 of each"
    ),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", help="Time limit of the whole run. Cases that it does not reach are skipped.",
        show_default="no limit",
    ),
]  # fmt: skip
CaseTimeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", envvar="CPUGPU_CASE_TIMEOUT",
        help="Fail a case that sends nothing for this long.", show_default="no limit",
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
        show_default="digits drawn by the program",
    ),
]  # fmt: skip
Cache = Annotated[
    str, typer.Option(metavar="STATE", help="GPU caches for the kernel time: cold (emptied first) or warm.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
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
        help="Measure peak rates after the first run on a machine, once, in at most 3 s. `limited by` needs them.",
    ),
]  # fmt: skip
Worker = Annotated[
    str,
    typer.Option(
        metavar="MODE", envvar="CPUGPU_WORKER",
        help="Where kernels run: process (separate) or thread (inside this program).",
    ),
]  # fmt: skip
Python = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", envvar="CPUGPU_PYTHON",
        help="Interpreter with torch that runs the kernels. auto: search for one whose torch can use the GPU.",
        show_default="this one",
    ),
]  # fmt: skip
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python", metavar="PATH",
        help="Interpreter with torch that runs the kernels. auto: search for one whose torch can use the GPU. "
        "Repeat the option to run several in turn and compare them.  [env var: CPUGPU_PYTHON]",
        show_default="this one",
    ),
]  # fmt: skip
Simulate = Annotated[
    str | None,
    typer.Option(
        metavar="SETTINGS", envvar="CPUGPU_SIMULATE",
        help="Use a simulated CPU and GPU: default, or settings such as noise=0.02,gpus=2.",
    ),
]  # fmt: skip
Replay = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Show a recording of `telemetry --record` instead of this machine, at its own pace."
    ),
]
Theme = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", envvar="CPUGPU_THEME", help="Theme of the app. `cpugpu-tui config themes` lists them.",
        show_default="slate",
    ),
]  # fmt: skip
RunName = Annotated[str, typer.Argument(metavar="RUN", help="Run number, latest, or the start of a run id.")]
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
        help="Write the run to a file that ends in .json, .ndjson, .csv, .md or .html. Repeatable.",
    ),
]  # fmt: skip
Tensorboard = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write TensorBoard files to this folder during the run.")
]

# ------------------------------------------------------------------ compare and gate

SIDE = "run number, latest, start of a run id, tag, baseline, or FILE:RUN of another database"


MaxSlowdown = Annotated[str, typer.Option(metavar="PERCENT", help="How much slower than the baseline a case may be.")]
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
        help="Hosts by name, such as n[1-4],gpu7. With --hosts: use only these of the file. Repeatable.",
    ),
]  # fmt: skip
LauncherName = Annotated[
    str | None,
    typer.Option(
        "--launcher", metavar="NAME", help="How to reach hosts whose inventory does not say: ssh, srun or local.",
        show_default="ssh",
    ),
]  # fmt: skip
NodePython = Annotated[
    str | None,
    typer.Option(
        "--python", metavar="PATH", help="Interpreter with torch on the hosts.",
        show_default="python3; with --launcher local: this one",
    ),
]  # fmt: skip
StartTimeout = Annotated[
    float,
    typer.Option(
        min=1.0, metavar="SECONDS", help="Time for a host to start its agent, without the wait in Slurm's queue."
    ),
]
AtOnce = Annotated[
    int, typer.Option(min=1, max=1024, metavar="COUNT", help="Number of hosts that run at the same time.")
]
