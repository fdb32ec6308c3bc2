"""Checks of the host, the history file and the terminal."""

from __future__ import annotations

from cpugpu_tui.doctor.facts import Facts, Finding, fail, ok, unknown, warn
from cpugpu_tui.model.quantities import count_of, megabytes

_FLUSHING = ("x86_64", "amd64", "aarch64", "arm64")
"""Architectures on which torch can flush denormals to zero."""

_OLD_POWERSAVE = ("intel_pstate", "amd-pstate", "amd-pstate-epp")
"""Frequency drivers whose `powersave` follows the load; with others the clock stays at its lowest."""


def threads(facts: Facts) -> Finding:
    """Compare the cgroup's CPU quota with the cores in the affinity mask."""
    host = facts.host
    found = f"{count_of(host.threads, 'thread')} on {count_of(host.physical_cores, 'core')}"
    if host.quota_cores is None:
        return ok(f"{found}; no CPU quota")
    found = f"{found}; the CPU quota is {count_of(host.quota_cores, 'core')}"
    if host.quota_cores >= host.physical_cores:
        return ok(found)
    return warn(
        found,
        "CPU times are those of a part of this machine, and the kernel pauses threads above the quota.",
        "Request more cores from the container or scheduler, or compare at this number of threads.",
    )


def variables(facts: Facts) -> Finding:
    """Judge the variables with which launchers (Ray, Dask, torchrun) limit the CPU to one thread."""
    if facts.agent.environment is None:
        return unknown("not judged: the agent did not start")
    inherited: dict[str, str] = facts.agent.environment.get("inherited") or {}
    if not inherited:
        return ok("no OMP or MKL variable is set")
    return warn(
        ", ".join(f"{name}={value}" for name, value in sorted(inherited.items())),
        "Runs set the number of threads themselves, but these variables still change where threads run.",
        f"Unset them: env {' '.join(f'-u {name}' for name in sorted(inherited))} cpugpu-tui",
    )


def smt(facts: Facts) -> Finding:
    """Report whether two hardware threads share a core; runs use one thread a core."""
    host = facts.host
    known = {True: "on (runs use one thread per core)", False: "off", None: "unknown"}
    cpus, cores = count_of(host.logical_cores, "logical CPU"), count_of(host.physical_cores, "core")
    return ok(f"SMT {known[host.smt]}; {cpus}, {cores}")


def numa(facts: Facts) -> Finding:
    """Report how many NUMA nodes the threads use."""
    nodes = facts.host.numa_nodes
    if len(nodes) <= 1:
        return ok("1 NUMA node" if nodes else "NUMA nodes unknown")
    # Not a warning: many servers have two, and times of the whole machine are valid.
    return ok(f"{len(nodes)} NUMA nodes; to use one: numactl --cpunodebind=0 --membind=0 cpugpu-tui")


def denormals(facts: Facts) -> Finding:
    """Judge whether the processor can flush denormals to zero, as runs do by default."""
    architecture = facts.host.architecture
    if architecture.lower() in _FLUSHING:
        return ok(f"runs flush denormals to zero ({architecture})")
    return warn(
        f"torch may not flush denormals to zero on {architecture or 'this processor'}.",
        "Values close to zero can make the CPU 16 times slower (measured on x86_64).",
        "Distrust CPU times of workloads whose values fade towards zero.",
    )


def governor(facts: Facts) -> Finding:
    """Judge the CPU frequency governor."""
    host = facts.host
    clock = "" if host.frequency_mhz is None else f", fastest core at {host.frequency_mhz:.0f} MHz now"
    if host.governor is None:
        return ok(f"no frequency governor can be read, as in most virtual machines{clock}")
    found = f"governor {host.governor}{f' of {host.frequency_driver}' if host.frequency_driver else ''}{clock}"
    if host.governor == "powersave" and host.frequency_driver not in _OLD_POWERSAVE:
        return warn(
            found,
            "It keeps the cores at their lowest clock.",
            "Change it as root: cpupower frequency-set -g performance.",
        )
    return ok(found)


def own_runs(facts: Facts) -> Finding:
    """Judge whether cpugpu-tui runs a second time here, because concurrent runs slow each other."""
    if not facts.own_runs:
        return ok("no other cpugpu-tui is visible on this machine")
    return warn(
        ", ".join(f"{run.user or '?'}: {run.command or '?'} (pid {run.pid})" for run in facts.own_runs),
        "Concurrent runs distort each other.",
        "End the other one, or wait until it is done.",
    )


# -------------------------------------------------------------------- history


_MAGIC = b"SQLite format 3\0"
_ELSEWHERE = "Choose another file with --db, or run with --no-save."

SCARCE_BYTES, NONE_LEFT_BYTES = 200 << 20, 4 << 20
"""Free disk space below which a check warns, and below which a large run (3 MB) may not fit."""


def history_file(facts: Facts) -> Finding:
    """Judge whether the database can be read and written."""
    history = facts.history
    if history.refusal is not None:
        return fail(f"{history.path} cannot be the history.", *history.refusal)
    if not history.exists:
        found = f"{history.path} does not exist yet; the first run creates it"
        return ok(found) if history.writable else _unwritable(f"{history.path} cannot be created.", history.why_not)
    version = header_number(history.header, 60)
    if not history.size_bytes:
        return (
            ok(f"{history.path}, empty")
            if history.writable
            else _unwritable(f"{history.path} is empty.", history.why_not)
        )
    if not history.header.startswith(_MAGIC) or version is None:
        return fail(f"{history.path} is not a database.", "It does not start like an SQLite file.", _ELSEWHERE)
    if header_number(history.header, 68) not in (0, history.application_id):
        return fail(f"{history.path} belongs to another program.", "Its application id differs from ours.", _ELSEWHERE)
    found = f"{history.path}, version {version}, {megabytes(history.size_bytes)}"
    if version > history.known_version:
        cause = f"A newer cpugpu-tui wrote this database. Yours reads up to version {history.known_version}."
        return fail(found, cause, "Update cpugpu-tui, or choose another file with --db.")
    return ok(found) if history.writable else _unwritable(found, history.why_not)


def _unwritable(found: str, why_not: str) -> Finding:
    cause = f"Its folder rejects new files ({why_not})" if why_not else "You may not write to it"
    return fail(found, f"{cause}, so runs cannot be saved.", _ELSEWHERE)


def header_number(header: bytes, offset: int) -> int | None:
    """Return a number of SQLite's header (user version at 60, application id at 68); None if it is too short."""
    return int.from_bytes(header[offset : offset + 4], "big") if len(header) >= offset + 4 else None


def history_place(facts: Facts) -> Finding:
    """Judge the file system of the database."""
    if not facts.history.network:
        return ok("the history is on a local file system")
    return warn(
        "the history is on a network file system",
        "Saving a case waits for the server, and reading waits for writing.",
        "Move it to a local disk: CPUGPU_DB=/local/path/results.db.",
    )


def history_space(facts: Facts) -> Finding:
    """Judge the free disk space."""
    free_bytes = facts.history.free_bytes
    if free_bytes is None:
        return unknown("not judged: the file system does not report its free space")
    found = f"{megabytes(free_bytes)} of disk space free for the history"
    if free_bytes >= SCARCE_BYTES:
        return ok(found)
    remedy = "Free some disk space, or choose another place with CPUGPU_DB."
    if free_bytes < NONE_LEFT_BYTES:
        return fail(found, "The disk is full, so the next run cannot be saved.", remedy)
    return warn(found, "The disk is nearly full, so later runs may not be saved.", remedy)


# -------------------------------------------------------------------- terminal


LEAST_COLUMNS, LEAST_ROWS = 80, 24
"""The smallest terminal that shows every pane."""


def terminal_size(facts: Facts) -> Finding:
    """Judge whether the terminal can draw the app, and whether every pane fits."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("not a terminal; `cpugpu-tui run` prints text")
    found = f"{terminal.columns}×{terminal.rows}"
    if terminal.dumb:
        return warn(found, "TERM names a terminal that cannot draw the app.", "Use `cpugpu-tui run`, or correct TERM.")
    if terminal.columns < LEAST_COLUMNS or terminal.rows < LEAST_ROWS:
        return warn(found, f"Below {LEAST_COLUMNS}×{LEAST_ROWS} some panes are hidden.", "Enlarge the window.")
    return ok(found)


def terminal_text(facts: Facts) -> Finding:
    """Judge whether the terminal shows block elements and arrows."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("not a terminal")
    if terminal.utf8:
        return ok("UTF-8")
    return warn("ASCII", "Charts and marks are drawn with ASCII characters.", "Set a UTF-8 locale: LANG=C.UTF-8.")


def terminal_colours(facts: Facts) -> Finding:
    """Report the number of colours; no information depends on them."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("not a terminal")
    words = {"none": "none (NO_COLOR)", "16": "16", "256": "256", "truecolor": "24 bits"}
    return ok(words[terminal.colours])


def terminal_session(facts: Facts) -> Finding:
    """Judge whether the session survives a lost connection."""
    inside = [name for name, variable in (("tmux", "TMUX"), ("screen", "STY")) if facts.environ.get(variable)]
    remote = bool(facts.environ.get("SSH_CONNECTION") or facts.environ.get("SSH_TTY"))
    if not remote:
        return ok(f"local, in {inside[0]}" if inside else "local")
    if inside:
        return ok(f"SSH, in {inside[0]}")
    return warn(
        "SSH, without tmux or screen",
        "A lost connection ends the run; finished cases are saved.",
        "Start long runs in tmux or screen.",
    )
