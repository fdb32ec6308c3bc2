"""`cpugpu-tui reference make`: time the survey's work on this machine's GPU, for people who have none."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui import __version__, model
from cpugpu_tui.cli import options as opt
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, print_notice
from cpugpu_tui.model.quantities import count_of

if TYPE_CHECKING:
    from cpugpu_tui.state.state import RunState
    from cpugpu_tui.transport.agent_pool import Agents

commands = typer.Typer()

STARTS = 3
"""Starts of the process, so that their spread is in the file."""

USUAL_S = 540.0

SPARE_S = 8.0
"""Part of the time limit in which processes end and the file is written, seconds."""

FIRST_SHARE = 0.5
"""Share of the time for the first start, which also checks results and warms up for longer."""

ROUNDS, BLOCKS = 5, 3
"""Rounds of a case in each start, and blocks of a round."""

BUDGET_S = 1.2
"""Time for a case in a start, as in a survey."""

CASE_TIMEOUT_S = 60.0
"""A case without progress for so long fails."""


class ReferenceGiven(opt.Given):
    """The options of `reference make`."""

    out: Annotated[Path, opt.file_of("File to write, at most 300 kB.", "--out", "-o")]
    max_seconds: Annotated[float, opt.seconds(
        "Time limit from the start of the program. What matters least is then left out.", check=opt.in_range(20)
    )] = USUAL_S  # fmt: skip


@opt.takes(commands.command(), ReferenceGiven, "out max_seconds python simulate")
def make(given: ReferenceGiven) -> None:
    """Time 20 workloads on this GPU, for --beside on machines without one.

    Every size is timed with its inputs on the GPU and with copies, in three starts of the process, within 10 minutes.
    Peak rates come first, then each workload at a few sizes, then the sizes between. The file is written after each
    start. It holds the models of GPU and CPU, versions and times, but no names of hosts or people.

    Exit code: 0 written, 3 a case or the peak rates are missing, 4 no GPU.
    """
    from cpugpu_tui.cli.machine import measured
    from cpugpu_tui.cli.running.options import RunOptions, found_python
    from cpugpu_tui.compare.cards import DriverReadings
    from cpugpu_tui.export import target
    from cpugpu_tui.state.reference import packed, recorded
    from cpugpu_tui.transport.agent_pool import Agents

    target.check_file(given.out)
    ends_s = float(given.context.obj) + given.max_seconds - SPARE_S
    python = found_python(given.python, simulation=given.simulation)
    options = RunOptions(python=python, save=False)
    driver = DriverReadings()
    peaks, state, code = measured(options, ("cuda:0",), given.simulation, driver.see)
    if not state.devices:  # no GPU; `measured` has printed why
        raise typer.Exit(code)
    ceilings = next((each for each in peaks if each.device != "cpu"), None)
    readings = driver.of(state.gpu.uuid if state.gpu is not None else None)
    states: list[RunState] = []
    with closing(Agents(python, simulated=given.simulation is not None)) as agents:
        for state in _starts(plan_of(given.simulation), agents, ends_s):
            if not any(row.status == "ok" for row in state.rows.values()):
                break
            states.append(state)
            target.write(given.out, [packed(recorded(states, ceilings, readings, made_by()))])
    raise typer.Exit(_say(states, ceilings, given.out) or code)


def plan_of(simulation: model.Simulation | None) -> model.Plan:
    """Return the plan of a start: a few sizes of every workload first, then those between."""
    from cpugpu_tui.decide.next_size import fine_grid
    from cpugpu_tui.workloads import PRESETS, catalogue
    from cpugpu_tui.workloads.presets import SURVEY

    first = {info.name: info.variants[0] for info in catalogue()}
    sweeps = [
        [model.Case(part.workload, size, variant=first[part.workload] if variant == "default" else variant)
         for size in spread_out(fine_grid(*part.sizes)) for variant in part.variants]
        for part in PRESETS[SURVEY].parts
    ]  # fmt: skip
    cases: Iterator[model.Case | None] = chain.from_iterable(zip_longest(*sweeps))
    return model.Plan(
        "reference", tuple(case for case in cases if case is not None), ("cuda:0",),
        metrics=(model.LATENCY, model.DEVICE, model.END_TO_END), rounds=ROUNDS, max_rounds=ROUNDS, blocks=BLOCKS,
        budget_s=BUDGET_S, simulation=simulation,
    )  # fmt: skip


def spread_out(sizes: Sequence[int]) -> list[int]:
    """Return sizes in the order in which they matter: both ends, the middle, then what halves the gaps."""
    halves = (sizes[at] for step in (64, 32, 16, 8, 4, 2, 1) for at in range(0, len(sizes), step))
    return list(dict.fromkeys([sizes[0], sizes[-1], *halves]))


def _starts(plan: model.Plan, agents: Agents, ends_s: float) -> Iterator[RunState]:
    """Run a plan in each start, and yield their states. Later ones time only what the first one has timed."""
    from cpugpu_tui.cli.running.one_run import controller_facts, say_why, watched
    from cpugpu_tui.session.planning import nth_plan
    from cpugpu_tui.session.session import Session

    for number in range(1, STARTS + 1):
        left_s = ends_s - time.monotonic()
        share = FIRST_SHARE if number == 1 else 1 / (STARTS + 1 - number)
        if left_s <= 0 or not plan.cases:
            return
        limited = replace(nth_plan(plan, number), max_seconds=left_s * share)
        session = Session(limited, agents, case_timeout_s=CASE_TIMEOUT_S, facts=controller_facts())
        # Whatever hangs, the file must be written in time.
        timer = threading.Timer(left_s + SPARE_S / 2, session.kill)
        timer.daemon = True
        timer.start()
        print_notice(f"Start {number} of {STARTS}: {len(plan.cases)} sizes, at most {left_s * share:.0f} s.")
        state, finished = watched(session, agents, limited, lambda _state, _event: None)
        timer.cancel()
        say_why(finished)
        yield state
        if session.stopping:
            return
        cases = tuple(row.case for row in state.rows.values() if row.status == "ok")
        plan = replace(plan, cases=cases, is_repeat=True, clocks=tuple(state.clocks.values()))


def made_by() -> str:
    """Return the version of this program, and the last commit of its source if it runs from a checkout."""
    commit = ""
    with suppress(OSError, subprocess.SubprocessError):
        # Empty in an environment inside another project's checkout.
        words = ["git", "-C", str(Path(__file__).parents[2]), "log", "-1", "--abbrev=12", "--format=%h", "--", "."]
        commit = subprocess.run(words, capture_output=True, text=True, timeout=5, check=True).stdout
    return f"{__version__} {commit}".strip()


def _say(states: Sequence[RunState], ceilings: model.Ceilings | None, out: Path) -> int:
    """Print what was written and what is missing, and return the exit code."""
    from cpugpu_tui.cli.output.printing import plain, tell
    from cpugpu_tui.render.gpus import SIMULATED

    if not states:
        print_notice("Nothing was timed, so no file was written. Allow more time with --max-seconds.")
        return EXIT_CASES_FAILED
    planned, sizes = len(states[0].rows), states[0].done
    lacking = [f"{planned - sizes} of {planned} sizes"] if sizes < planned else []
    lacking += ["the peak rates"] if ceilings is None else []
    lacking += [f"{count_of(STARTS - len(states), 'start')} of {STARTS}"] if len(states) < STARTS else []
    fewer = sum(row.status != "ok" for state in states[1:] for row in state.rows.values())
    lacking += [f"{count_of(fewer, 'size')} in a later start"] if fewer else []
    if states[0].simulated:
        tell(SIMULATED)
    tell(plain(f"{out}: {count_of(sizes, 'size')} in {count_of(len(states), 'start')}, {out.stat().st_size:,} bytes."))
    if lacking:
        print_notice(f"Missing: {', '.join(lacking)}.")
    for row in states[0].rows.values():
        if row.failure is not None and row.failure.kind != "skipped":
            print_notice(f"{row.case.key}: {row.failure.message}")
    return EXIT_CASES_FAILED if ceilings is None or any(state.failed for state in states) else EXIT_OK
