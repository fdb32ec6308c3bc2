"""`cpugpu-tui fleet machine` and `fleet doctor`: what is slow or broken on many hosts, first; also as OpenMetrics."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json, tell
from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_OK
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import count_of

if TYPE_CHECKING:
    from cpugpu_tui.cli.fleet.running import Seen
    from cpugpu_tui.compare.cards import BesideCard
    from cpugpu_tui.doctor.collect import HostFinding
    from cpugpu_tui.model import Plan
    from cpugpu_tui.session.fleet_state import FleetState, HostState

MOST_EACH = 5
"""Most lines for one check with one verdict; further hosts are counted."""

commands = typer.Typer()


class HealthGiven(opt.Given):
    """The options of `fleet doctor`."""

    max_seconds: Annotated[float, opt.seconds(
        "Time limit of all hosts. A host without an answer by then is reported.", check=opt.in_range(1)
    )] = 600.0  # fmt: skip
    metrics: Annotated[Path | None, opt.file_of("Also write the results as OpenMetrics text.")] = None


class MachineGiven(HealthGiven):
    """The options of `fleet machine`."""

    recorded: Annotated[str, opt.option("NAME|FILE", "Recorded GPU: h100, h200 or a file.", "--beside")]


@opt.takes(
    commands.command(), MachineGiven,
    "hosts host_names launcher node_python recorded max_seconds start_timeout at_once metrics json simulate",
)  # fmt: skip
def machine(given: MachineGiven) -> None:
    """Set every GPU of every host beside a recorded one.

    Hosts that failed come first, then GPUs that are slower than cards of one model differ, then all others.
    Exit code: 0 nothing is slow, 1 a GPU is slow, 3 a host failed.
    """
    from cpugpu_tui.compare.cards import beside_card
    from cpugpu_tui.model import Plan
    from cpugpu_tui.state.reference import find_for

    reference = find_for(given.recorded, is_simulated=given.simulation is not None).reference
    seen = _run(given, Plan("machine", (), ("cuda",), calibrate=True, reads_driver=True, simulation=given.simulation))
    cards = [
        (host, beside_card(each, seen.readings(host).of(seen.uuid(host, each.device)), reference))
        for host, found in seen.ceilings.items() for each in found
    ]  # fmt: skip
    cards.sort(key=lambda pair: (not pair[1].slow, min((each.speed for each in pair[1].slow), default=1.0)))
    failed = seen.failed(without={host for host, _ in cards})
    _tell_failed(failed, given)
    if given.json:
        for host, card in cards:
            print_json({"host": host, "state": "done", **card.as_data()})
    else:
        for host, card in cards:
            _tell(f"{host} {card.device}: {card.problem or f'{card.label}, {_least(card)}'}.")
        slow = sum(bool(card.slow) for _, card in cards)
        _tell(f"{len(failed)} of {len(seen.state.hosts)} hosts failed. {slow} of {len(cards)} GPUs are slow.")
        if any(not card.is_same_model for _, card in cards):
            _tell(f"GPUs of another model than {reference.gpu} were not judged.")
    _write(given.metrics, machine_gauges(seen.state, cards))
    raise typer.Exit(seen.exit_code(is_bad=any(card.slow for _, card in cards), failed=failed))


def _least(card: BesideCard) -> str:
    """Return the slowest quantity of a GPU that is not slow."""
    if not card.is_same_model or not card.quantities:
        return "not judged"
    least = min(card.quantities, key=lambda each: each.speed)
    return f"at most {least.difference}: {least.name}" if least.speed < 1 else "nothing is slower"


@opt.takes(
    commands.command(), HealthGiven,
    "hosts host_names launcher node_python max_seconds start_timeout at_once metrics json simulate",
)  # fmt: skip
def doctor(given: HealthGiven) -> None:
    """Check driver, torch, GPUs and CPU of every host.

    Hosts that failed come first, then failed checks, then warnings; rare ones before common ones.
    Exit code: 0 no check failed, 1 a check failed, 3 a host failed.
    """
    from cpugpu_tui.doctor.collect import findings_of, worst_first
    from cpugpu_tui.model import Plan

    seen = _run(given, Plan("doctor", (), ("all",), check_clocks=True, reads_driver=True, simulation=given.simulation))
    answered = {name: each for name, each in seen.state.hosts.items() if each.run.devices}
    found = worst_first({name: findings_of(each.run, seen.read.get(name)) for name, each in answered.items()})
    failed = seen.failed(without=set(answered))
    _tell_failed(failed, given)
    if given.json:
        for host, finding in found:
            print_json({"host": host, **asdict(finding)})
    else:
        for line in finding_lines(found):
            _tell(line)
        troubled = len({host for host, finding in found if finding.verdict in ("fail", "warn")})
        _tell(_summary(len(failed), len(answered), troubled))
    _write(given.metrics, doctor_gauges(seen.state, found))
    is_bad = any(each.finding.verdict == "fail" for each in found)
    raise typer.Exit(seen.exit_code(is_bad=is_bad, failed=failed))


def _summary(failed: int, answered: int, troubled: int) -> str:
    """Return how many hosts failed, and on how many of the others a check did."""
    count = failed + answered
    hosts = f"{failed} of {count} hosts failed." if failed else f"{count_of(count, 'host')} answered."
    others = f"{'the other ' if failed else ''}{answered}"
    checks = f"Checks failed or warned on {troubled} of {others}." if troubled else "No check failed or warned."
    return f"{hosts} {checks}" if answered else hosts


def finding_lines(found: Iterable[HostFinding]) -> list[str]:
    """Return a line for each failure and warning in this order; of those that many hosts share, the first few."""
    lines: list[str] = []
    more: dict[tuple[str, str], int] = {}
    for host, finding in found:
        key = finding.check, finding.verdict
        if finding.verdict not in ("fail", "warn"):
            continue
        more[key] = more.get(key, 0) + 1
        if more[key] <= MOST_EACH:
            says = f"{finding.found.rstrip('.')}. {finding.cause} {finding.remedy}".strip()
            lines.append(f"{finding.verdict} {host}: {finding.check}: {says}")
    return lines + [
        f"{verdict} {check}: {count - MOST_EACH} more hosts."
        for (check, verdict), count in more.items() if count > MOST_EACH
    ]  # fmt: skip


# ------------------------------------------------------------------ running


def _run(given: HealthGiven, plan: Plan) -> Seen:
    """Run a plan on every host, at most for the time limit."""
    from cpugpu_tui.cli.fleet.running import Seen, fleet_plan, run_to_the_end
    from cpugpu_tui.export import target
    from cpugpu_tui.session.fleet_running import Fleet
    from cpugpu_tui.session.fleet_state import FleetState

    if given.metrics is not None:
        target.check_file(given.metrics)
    asked = fleet_plan(given, plan)
    fleet, seen = Fleet(asked), Seen(FleetState.of(asked.hosts))
    limit = threading.Timer(given.max_seconds, fleet.kill)
    limit.daemon = True
    limit.start()
    run_to_the_end(fleet, seen)
    is_asked = fleet.stopping and limit.is_alive()
    limit.cancel()
    seen.signal_exit = fleet.signal_exit or (EXIT_INTERRUPTED if is_asked else EXIT_OK)
    return seen


def _tell_failed(failed: Iterable[HostState], given: HealthGiven) -> None:
    """Tell whether all of it is simulated, and which hosts failed."""
    from cpugpu_tui.render.gpus import SIMULATED

    if given.simulation is not None and not given.json:
        tell(SIMULATED)
    silent = "It did not answer in time. Raise --max-seconds, or look for a hung driver."
    for each in failed:
        host, why = each.host.host, each.why if each.in_trouble else silent
        if given.json:
            print_json({"host": host, "state": each.state, "message": why, "remedy": each.remedy or None})
        else:
            _tell(f"fail {host}: {each.state}: {why}")


def _tell(line: str) -> None:
    from cpugpu_tui.cli.fleet.running import LONGEST_LINE

    tell(plain(printable(line, LONGEST_LINE)))


# ------------------------------------------------------------------ metrics


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\""})


class Gauge(NamedTuple):
    """A metric of OpenMetrics, which Prometheus and its node exporter read: a value for each set of labels."""

    name: str
    """Ends with its unit, if it has one."""
    meaning: str
    unit: str
    """In words of the format, such as `seconds`; empty for none."""
    values: tuple[tuple[Mapping[str, str], float], ...]


def metrics_text(gauges: Iterable[Gauge]) -> str:
    """Return the gauges that have values, as OpenMetrics text."""
    lines: list[str] = []
    for each in gauges:
        if not each.values:
            continue
        lines += [f"# HELP {each.name} {each.meaning}", f"# TYPE {each.name} gauge"]
        lines += [f"# UNIT {each.name} {each.unit}"] if each.unit else []
        for labels, value in each.values:
            pairs = ",".join(f'{name}="{printable(label).translate(_ESCAPES)}"' for name, label in labels.items())
            lines.append(f"{each.name}{{{pairs}}} {value!r}")
    return "\n".join([*lines, "# EOF", ""])


def _write(path: Path | None, gauges: list[Gauge]) -> None:
    from cpugpu_tui.export import target

    if path is not None:
        target.write(path, [metrics_text(gauges).encode()])


def _up(state: FleetState) -> Gauge:
    values = tuple(({"host": name}, 0.0 if each.in_trouble else 1.0) for name, each in state.hosts.items())
    return Gauge("cpugpu_host_up", "Whether an agent of cpugpu-tui worked on the host.", "", values)


def machine_gauges(state: FleetState, cards: Iterable[tuple[str, BesideCard]]) -> list[Gauge]:
    """Return the measured rates and overheads of all GPUs, and their speed beside the recorded GPU."""
    rates: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    speeds: list[tuple[Mapping[str, str], float]] = []
    slow: list[tuple[Mapping[str, str], float]] = []
    for host, card in cards:
        gpu = {"host": host, "device": card.device, "gpu": card.label}
        slow.append((gpu, float(bool(card.slow))))
        for each in card.quantities:
            labels = {**gpu, "quantity": each.key}
            rates.setdefault(each.unit, []).append((labels, each.here / 1e9 if each.unit == "ns" else each.here))
            speeds.append(({**labels, "recorded_on": card.recorded}, each.speed))
    return [
        _up(state),
        Gauge("cpugpu_gpu_slow", "Whether a rate is lower than cards of one model differ.", "", tuple(slow)),
        Gauge("cpugpu_flops_per_second", "Peak rate of a matrix product.", "", tuple(rates.get("FLOP/s", ()))),
        Gauge("cpugpu_bytes_per_second", "Rate of a copy.", "", tuple(rates.get("B/s", ()))),
        Gauge("cpugpu_overhead_seconds", "Fixed time of a call.", "seconds", tuple(rates.get("ns", ()))),
        Gauge("cpugpu_speed_ratio", "Speed as a share of that of the recorded GPU.", "ratio", tuple(speeds)),
    ]


def doctor_gauges(state: FleetState, found: Iterable[HostFinding]) -> list[Gauge]:
    """Return the verdict of each check on each host."""
    from cpugpu_tui.doctor.facts import WORST_FIRST

    values = tuple(
        ({"host": host, "check": finding.check, "verdict": verdict}, float(finding.verdict == verdict))
        for host, finding in found for verdict in WORST_FIRST
    )  # fmt: skip
    return [_up(state), Gauge("cpugpu_check", "1 for the verdict of a check on a host, 0 for others.", "", values)]
