"""Checks of the host, of the history's file and of the terminal."""

from __future__ import annotations

from cpugpu_tui.doctor.facts import Facts
from cpugpu_tui.doctor.finding import Finding, fail, ok, unknown, warn

_FLUSHING = ("x86_64", "amd64", "aarch64", "arm64")
"""Architectures whose processors flush denormals when torch asks them to."""

_OLD_POWERSAVE = ("intel_pstate", "amd-pstate", "amd-pstate-epp")
"""Drivers whose `powersave` follows the load; everywhere else it stays at the lowest clock."""


def threads(facts: Facts) -> Finding:
    """Judge the cgroup's quota against the cores that the affinity mask shows."""
    host = facts.host
    found = f"{_threads(host.threads)} on {host.physical_cores} cores"
    if host.quota_cores is None:
        return ok(f"{found}; no quota")
    found = f"{found}; the quota is {host.quota_cores:g} cores"
    if host.quota_cores >= host.physical_cores:
        return ok(found)
    return warn(
        found,
        "The CPU side stands for a share of this machine, and threads over the quota are stopped for parts of 0.1 s.",
        "Ask the container or the scheduler for more cores, or compare with other machines by this number of threads.",
    )


def _threads(count: int) -> str:
    return f"{count} thread" if count == 1 else f"{count} threads"


def variables(facts: Facts) -> Finding:
    """Judge variables with which launchers (Ray, Dask, torchrun) bind the CPU side to one thread."""
    if facts.agent.environment is None:
        return unknown("not judged: no agent came up to say what it inherits")
    inherited: dict[str, str] = facts.agent.environment.get("inherited") or {}
    if not inherited:
        return ok("no OMP or MKL variable is inherited")
    return warn(
        ", ".join(f"{name}={value}" for name, value in sorted(inherited.items())),
        "We set the number of threads ourselves, but places and pools of threads follow these.",
        f"Start without them: env {' '.join(f'-u {name}' for name in sorted(inherited))} cpugpu-tui",
    )


def smt(facts: Facts) -> Finding:
    """Say whether two hardware threads share a core: we use one of each core."""
    host = facts.host
    known = {True: "on: one thread a core is used", False: "off", None: "unknown"}
    return ok(f"SMT {known[host.smt]}; {host.logical_cores} logical CPUs, {host.physical_cores} cores")


def numa(facts: Facts) -> Finding:
    """Say over how many memory nodes the threads are spread."""
    nodes = facts.host.numa_nodes
    if len(nodes) <= 1:
        return ok("1 memory node" if nodes else "memory nodes unknown")
    # No warning: half of all servers have two, and results of a whole machine are results too.
    return ok(f"{len(nodes)} memory nodes in use; for one: numactl --cpunodebind=0 --membind=0 cpugpu-tui")


def denormals(facts: Facts) -> Finding:
    """Judge whether the processor can flush denormals to zero, as a run does unless its plan says otherwise."""
    architecture = facts.host.architecture
    if architecture.lower() in _FLUSHING:
        return ok(f"flushed to zero before the first parallel operation ({architecture})")
    return warn(
        f"torch may not flush denormals on {architecture or 'this processor'}.",
        "Sums that fade towards zero then take 16 times longer on the CPU (measured on x86_64).",
        "Read CPU times of long iterations with care.",
    )


def governor(facts: Facts) -> Finding:
    """Judge the clock governor."""
    host = facts.host
    clock = "" if host.frequency_mhz is None else f", fastest core at {host.frequency_mhz:.0f} MHz now"
    if host.governor is None:
        return ok(f"governor cannot be read (virtual machines have none){clock}")
    found = f"governor {host.governor}{f' of {host.frequency_driver}' if host.frequency_driver else ''}{clock}"
    if host.governor == "powersave" and host.frequency_driver not in _OLD_POWERSAVE:
        return warn(
            found,
            "It keeps the cores at their lowest clock.",
            "An administrator can change it: cpupower frequency-set -g performance.",
        )
    return ok(found)


def own_runs(facts: Facts) -> Finding:
    """Judge whether this program runs a second time here: two of our runs disturb each other."""
    if not facts.own_runs:
        return ok("no other cpugpu-tui on this machine, as far as can be seen from here")
    return warn(
        ", ".join(f"{run.user or '?'}: {run.command or '?'} (pid {run.pid})" for run in facts.own_runs),
        "Two of our runs at a time measure each other.",
        "End the other, or start yours when it is done.",
    )


# -------------------------------------------------------------------- history


_MAGIC = b"SQLite format 3\0"
_ELSEWHERE = "Name another file with --db, or save nothing with --no-save."

SCARCE_BYTES, NONE_LEFT_BYTES = 200 << 20, 4 << 20
"""Free space below which a run is warned of, and below which a large run (3 MB) is not saved."""


def history_file(facts: Facts) -> Finding:
    """Judge whether the database can be read and written."""
    history = facts.history
    if history.refusal is not None:
        return fail("The history has no place.", *history.refusal)
    if not history.exists:
        found = f"{history.path} will be made by the first run"
        return ok(found) if history.writable else _unwritable(f"{history.path} cannot be made.", history.why_not)
    version = header_number(history.header, 60)
    if not history.size_bytes:
        return (
            ok(f"{history.path}, empty")
            if history.writable
            else _unwritable(f"{history.path} is empty.", history.why_not)
        )
    if not history.header.startswith(_MAGIC) or version is None:
        return fail(f"{history.path} is no database.", "It does not begin as SQLite files do.", _ELSEWHERE)
    if header_number(history.header, 68) not in (0, history.application_id):
        return fail(f"{history.path} is another program's database.", "It carries another mark than ours.", _ELSEWHERE)
    found = f"{history.path}, version {version}, {_megabytes(history.size_bytes)}"
    if version > history.known_version:
        cause = f"A newer cpugpu-tui wrote it (known here: {history.known_version}); nothing can be saved to it."
        return fail(found, cause, "Update cpugpu-tui, or name another file with --db.")
    return ok(found) if history.writable else _unwritable(found, history.why_not)


def _unwritable(found: str, why_not: str) -> Finding:
    cause = f"No file can be made there ({why_not})" if why_not else "There is no permission to write there"
    return fail(found, f"{cause}, so runs are not saved.", _ELSEWHERE)


def header_number(header: bytes, offset: int) -> int | None:
    """Return a number of SQLite's header (fileformat2.html: user version at 60, application id at 68), or None."""
    return int.from_bytes(header[offset : offset + 4], "big") if len(header) >= offset + 4 else None


def history_place(facts: Facts) -> Finding:
    """Judge the file system under the database."""
    if not facts.history.network:
        return ok("local file system")
    return warn(
        "network file system",
        "Readers wait for writers there, and saving a case takes as long as the server does.",
        "Put it on a local disk: CPUGPU_DB=/local/path/results.db.",
    )


def history_space(facts: Facts) -> Finding:
    """Judge what is left on the disk."""
    free_bytes = facts.history.free_bytes
    if free_bytes is None:
        return unknown("not judged: this file system does not say what is left")
    found = f"{_megabytes(free_bytes)} free for the history"
    if free_bytes >= SCARCE_BYTES:
        return ok(found)
    remedy = "Free some space, or put the history elsewhere with CPUGPU_DB."
    if free_bytes < NONE_LEFT_BYTES:
        return fail(found, "The next run cannot be saved.", remedy)
    return warn(found, "Some of the next runs may not be saved.", remedy)


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"


# -------------------------------------------------------------------- terminal


LEAST_COLUMNS, LEAST_ROWS = 80, 24
"""The smallest terminal that shows every pane."""


def terminal_size(facts: Facts) -> Finding:
    """Judge whether the app can be drawn, and whether every pane fits."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("no terminal here; `cpugpu-tui run` prints text")
    found = f"{terminal.columns} x {terminal.rows}"
    if terminal.dumb:
        return warn(found, "TERM says that it cannot move its cursor.", "Use `cpugpu-tui run`, or set TERM rightly.")
    if terminal.columns < LEAST_COLUMNS or terminal.rows < LEAST_ROWS:
        return warn(found, f"Below {LEAST_COLUMNS} x {LEAST_ROWS} panes are left out.", "Make the window larger.")
    return ok(found)


def terminal_text(facts: Facts) -> Finding:
    """Judge whether block elements and arrows arrive as themselves."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("no terminal here")
    if terminal.utf8:
        return ok("UTF-8")
    return warn("ASCII", "Histories and marks are drawn with letters.", "Set a UTF-8 locale, like LANG=C.UTF-8.")


def terminal_colours(facts: Facts) -> Finding:
    """Say how many colours there are; nothing depends on them."""
    terminal = facts.terminal
    if terminal is None or not terminal.interactive:
        return ok("no terminal here")
    words = {"none": "none (NO_COLOR)", "16": "16", "256": "256", "truecolor": "24 bits"}
    return ok(words[terminal.colours])


def terminal_session(facts: Facts) -> Finding:
    """Say whether the session outlives its line."""
    inside = [name for name, variable in (("tmux", "TMUX"), ("screen", "STY")) if facts.environ.get(variable)]
    remote = bool(facts.environ.get("SSH_CONNECTION") or facts.environ.get("SSH_TTY"))
    if not remote:
        return ok(f"local, in {inside[0]}" if inside else "local")
    if inside:
        return ok(f"SSH, in {inside[0]}")
    return warn(
        "SSH, in neither tmux nor screen",
        "When the line breaks the run ends with it; its finished cases are kept.",
        "Start long runs in tmux or screen.",
    )
