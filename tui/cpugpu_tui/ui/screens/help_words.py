"""The words of each pane and page: its columns and signs, and the terms of docs/glossary.md that it uses."""

from __future__ import annotations

from cpugpu_tui.render.columns import COLUMNS, Key

EXPLAINED = (Key.SPEEDUP, Key.PLUS_MINUS, Key.VERDICT, Key.KERNEL, Key.MOVED, Key.LIMIT, Key.WRITTEN)
"""Columns of the timings that are explained by their headings."""

WORDS: dict[str, tuple[tuple[str, str], ...]] = {
    "workload": (
        ("list", "Presets and workloads. A preset of a publication shows its claim below."),
        ("P1 ... P5", "The five publications; {claims} lists their claims."),
    ),
    "timings": (
        ("CPU, GPU", COLUMNS[Key.CPU].meaning),
        ("cuda:0, cuda:1", COLUMNS[Key.GPUS].meaning),
        *((COLUMNS[key].heading, COLUMNS[key].meaning) for key in EXPLAINED),
        ("change", COLUMNS[Key.CHANGE].meaning),
        ("min-max", COLUMNS[Key.SPREAD].meaning),
        (COLUMNS[Key.ROUNDS].heading, COLUMNS[Key.ROUNDS].meaning),
        ("*", "Before a case: not saved in the history yet. The app tries again; the status line says why."),
    ),
    "telemetry": (
        ("kernel-active", "Share of the last sample time in which some kernel ran. It does not tell how much of the GPU"
         " the kernel used."),
        ("power, clock", "Beside the power limit in force and the highest clock."),
        ("throttle", "Why the clock is lowered, and in what share of the time since the last reading."),
        ("! and !!", "! too hot. !! the hardware brakes; do not use times taken now. An arrow down means power-capped,"
         " which is normal under load."),
        ("PCIe", "Generation and lanes. A slower link than the slot allows is a warning only under load."),
        ("processes", "Other processes on the GPU slow measurements down. outside namespace: not visible from this"
         " container."),
        ("cuda:0 ... NVML 3", "Names of one GPU: torch's number, NVML's number (nvidia-smi), UUID, PCI address."),
        ("dimmed", "A value older than two readings. A dash: no value; the reason stands beside it."),
    ),
    "chart": (
        ("curves", "Latency on the CPU and on the GPU, one point per size."),
        ("what-if", "The crossover under other costs, such as with copies, beside the measured one."
         " {what-if} goes to the next."),
    ),
    "history": (
        ("{filter}", "Type a name, a status, a device, a date or #tag."),
    ),
    "compare": (
        ("change", "The new median against the old one, with its 95 % interval."),
        ("verdict", "slower or faster only where the interval excludes no change; otherwise more runs are needed."),
    ),
    "claims": (
        ("holds", "The result here agrees with the claim."),
        ("depends on size", "The claim holds at some sizes only."),
    ),
    "fleet": (
        ("state", "connecting, starting (the interpreter loads torch), running, done."),
        ("~", "Before a time: it was disturbed. The lines below the list tell how."),
    ),
    "machine": (
        ("bars", "The peak that this machine reached, not the data sheet's. `limited by` refers to it."),
    ),
    "detail": (
        ("~", "Before a time or mark: the result is less certain."),
        ("resident", "One call with the inputs on the GPU, split into launch, kernels and wait."),
        ("p90, p99", "90 % and 99 % of the calls were at least this fast. They need 200 single calls."),
    ),
}  # fmt: skip
"""Topic → (word, explanation); ids in braces stand for the keys in force."""

WORDS |= {"gpu": WORDS["telemetry"], "host": WORDS["fleet"]}

TERMS: dict[str, tuple[str, ...]] = {
    "workload": ("workload", "preset", "size", "variant", "case", "series", "crossover"),
    "timings": ("case", "round", "latency", "interval, `±`", "crossover", "bracket", "paper's clock"),
    "telemetry": ("reading", "utilisation", "throttling"),
    "gpu": ("reading", "utilisation", "throttling"),
    "chart": ("latency", "crossover", "bracket"),
    "history": ("run", "series", "baseline", "simulated"),
    "compare": ("series", "baseline", "verdict", "interval, `±`"),
    "claims": ("claim", "paper's clock", "paper's error"),
    "fleet": ("fleet", "host", "agent"),
    "host": ("fleet", "host", "case"),
    "machine": ("machine card", "peak rate", "launch overhead", "synchronise"),
    "detail": ("latency", "kernel time", "with copies", "throughput", "outlier", "mark"),
}
"""Topic → terms of the glossary that its screen uses."""

GLOSSARY: dict[str, str] = {
    "workload": "A piece of torch work that can be timed at several sizes, such as `matmul`.",
    "preset": "A workload with chosen sizes and options, such as `quick`.",
    "size": "The number that makes the work larger. Each workload names its axis: `n`, `batch`, `width`.",
    "variant": "One way to write the same work, such as `loop` and `vectorized`.",
    "case": "A workload at one size, with one variant, dtype and number of CPU threads. One row of the table.",
    "run": "All cases of a plan, timed once. The history stores runs.",
    "series": "Runs of the same plan that belong together.",
    "baseline": "A named series to compare later runs with.",
    "simulated": "Timed on a simulated machine. Its times say nothing about yours.",
    "round": "One visit to each device: CPU, then GPU, or the other way round. Half a round is one visit.",
    "latency": "Time from the start of a call until the device has finished it. Columns `CPU` and `GPU`.",
    "kernel time": "Time that the GPU itself works in a call, without launch and wait. Column `cold kernels`"
    " (caches emptied before) or `warm kernels`.",
    "with copies": "End-to-end latency: inputs start in host memory, and the result ends there.",
    "launch overhead": "Time that the host needs to start work on the GPU.",
    "synchronise": "To wait until the GPU has finished.",
    "throughput": "Calls per second when many calls are queued and the host waits once.",
    "paper's clock": "The timing code of the publication, run unchanged.",
    "paper's error": "How many times longer the same work takes when the paper's clock waits for the GPU.",
    "interval, `±`": "The 95 % confidence interval of the value beside it.",
    "crossover": "The size from which the GPU wins.",
    "bracket": "The largest size at which the CPU clearly wins, and the smallest at which the GPU does.",
    "peak rate": "The most that this machine reached in its own calibration, in FLOP/s or bytes per second.",
    "machine card": "The screen and table of peak rates and fixed overheads.",
    "mark": "A short word for what disturbed a row, such as `throttled`.",
    "outlier": "A sample that lies far from the median.",
    "claim": "A sentence of a publication. Outcomes: `holds`, `does not hold here`, `depends on size`, `not"
    " measured yet`.",
    "verdict": "The word for a change between two series: `faster`, `slower`, `same`, `unclear`.",
    "agent": "The process that times. It runs in the interpreter, here or on another host.",
    "host": 'A machine of a fleet; in "host memory", the CPU\'s side of one machine.',
    "fleet": "The same run on many hosts.",
    "reading": "One telemetry value: utilisation, power, temperature, clock, memory.",
    "utilisation": "The share of time in which some kernel ran on the GPU.",
    "throttling": "The GPU lowers its clocks because of heat or power.",
}
"""Term → meaning, as in docs/glossary.md, which is not installed."""
