"""The command that repeats a run: its words are made from the request, saved in the plan, and printed with the run."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.config.sizes import sizes_text
from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.session.request import STARTS
from cpugpu_tui.state.folding import Remaining
from cpugpu_tui.workloads import PRESETS
from cpugpu_tui.workloads.caller_code import CALLER

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary, Store


# ------------------------------------------------------------------ words of a plan


def case_words(cases: Sequence[model.Case], codes: Sequence[model.OwnCode] = ()) -> tuple[str, ...]:
    """Return the words that time exactly these cases; empty if one command with fixed sizes cannot."""
    names = dict.fromkeys(case.workload for case in cases)
    sizes, variants = dict.fromkeys(case.size for case in cases), dict.fromkeys(case.variant for case in cases)
    dtypes, threads = dict.fromkeys(case.dtype for case in cases), dict.fromkeys(case.threads for case in cases)
    every = {model.Case(*each) for each in product(names, sizes, dtypes, threads, variants)}
    own, presets = names.keys() & {code.name for code in codes}, [PRESETS[name] for name in names if name in PRESETS]
    if not cases or len(dtypes) > 1 or every != set(cases) or (len(names) > 1 and own != names.keys()):
        return ()
    if any(part.workload not in names for preset in presets for part in preset.parts):
        return ()  # the preset of this name would also run others
    counts = ",".join(str(count or "all") for count in threads)
    return (
        *(("time",) if own else ("run", *names)),
        *option_words({
            "--size": sizes_text(list(sizes)),
            "--variant": ",".join(variants) if presets or list(variants) != ["default"] else None,
            "--dtype": next((dtype for dtype in dtypes if presets or dtype != "float32"), None),
            "--threads": counts if presets or list(threads) != [0] else None,
        }),
    )  # fmt: skip


def option_words(options: Mapping[str, object]) -> list[str]:
    """Return the words of options: a list repeats its option, a flag has no value, and nothing leaves it out."""
    words: list[str] = []
    for name, given in options.items():
        for value in given if isinstance(given, list) else [given] if given else []:
            words += [name] if value is True else [name, f"{value:g}" if isinstance(value, float) else str(value)]
    return words


# ------------------------------------------------------------------ commands of a run


def repeat_text(run: model.RunStarted) -> str:
    """Return the commands that repeat a run in one line, separated by semicolons."""
    return "; ".join(repeat_commands(run))


def repeat_commands(run: model.RunStarted) -> tuple[str, ...]:
    """Return the commands that repeat a run: one, or one for each statement if it times several.

    Empty if there is none, see `why_no_command`.
    """
    plan, words = run.plan, _saved_words(run.plan)
    if plan.is_of_two_codes and words:
        return (_command(run, words, ()),)
    if not words or run.environment.get(model.DUET) or _is_of_caller(plan):
        return ()
    named = {case.workload for case in plan.cases}
    codes = [code for code in plan.codes if code.name in named or not named]
    of_workloads = [_command(run, words, ())] if words[0] != "time" else []
    options = words[next((index for index, word in enumerate(words) if word.startswith("--")), len(words)) :]
    return (*of_workloads, *(_command(run, ("time", *options), each) for each in _by_statement(codes)))


def why_no_command(run: model.RunStarted) -> str:
    """Return why no command repeats a run; empty if one does."""
    if run.environment.get(model.DUET) and not run.plan.is_of_two_codes:
        return "No command repeats this run alone: it is one side of a duet."
    if _is_of_caller(run.plan):
        return "No command repeats this run: its code existed only in a Python process."
    return "" if _saved_words(run.plan) else "No command repeats this run: none was saved with it."


def _is_of_caller(plan: model.Plan) -> bool:
    return any(code.target[:1] == (CALLER,) for code in plan.codes)


def _saved_words(plan: model.Plan) -> tuple[str, ...]:
    """Return the words of a plan; without any, as in an older version, those of its fixed sizes."""
    return plan.words or (case_words(plan.cases, plan.codes) if plan.search is None else ())


def _by_statement(codes: Iterable[model.OwnCode]) -> list[list[model.OwnCode]]:
    """Return the codes that one command times: they differ in their parameters only."""
    found: dict[object, list[model.OwnCode]] = {}
    for code in codes:
        found.setdefault((code.statement, code.setup, code.in_place, code.argv, code.startup), []).append(code)
    return list(found.values())


def _command(run: model.RunStarted, words: Sequence[str], codes: Sequence[model.OwnCode]) -> str:
    """Return the command of these words, with the settings that plan and environment hold."""
    plan, facts = run.plan, run.environment
    usual = model.Plan("", ())
    fleet = facts.get("fleet_host") is not None
    end = words.index("--") if "--" in words else len(words)  # before the words of a command, in a duet of two
    (command, *rest), argv = words[:end], (*words[end + 1 :], *(codes[0].argv if codes else ()))
    # Other settings of the host in the inventory are not part of the record.
    where = ["-w", str(facts["fleet_host"]), "--launcher", str(facts.get("launcher") or "ssh")] if fleet else []
    has_starts = not fleet and command != "survey" and not argv and not plan.is_of_two_codes
    simulation = plan.simulation
    if simulation is not None and plan.is_of_two_codes:  # the planted difference is that of one side
        simulation = replace(simulation, slow_factor=model.Simulation().slow_factor)
    has_rounds = plan.max_rounds == plan.rounds and not plan.is_of_two_codes
    line = ["cpugpu-tui", *(["fleet", "run", *where] if fleet else [command])]
    line += code_words(codes) if codes else []
    line += ["--n" if codes and word == "--size" else word for word in rest]
    line += option_words({
        "--workloads": [file.path for file in plan.own_files] if not codes else [],
        "--device": [device for device in plan.devices if device != ("all" if fleet else "auto") and not plan.beside],
        "--parallel": plan.parallel, "--scale": plan.scale if plan.scale != usual.scale else None,
        "--mnist": plan.mnist, "--rounds": plan.rounds if has_rounds else None,
        "--starts": plan.starts if plan.starts != STARTS and has_starts else None,
        "--energy": model.ENERGY in plan.metrics, "--cache": plan.cache if plan.cache != usual.cache else None,
        "--max-seconds": plan.max_seconds, "--case-timeout": facts.get("case_timeout_s"),
        "--worker": "thread" if facts.get("worker") == "thread" else None, "--python": facts.get("python_option"),
        "--simulate": simulation_text(simulation) if simulation is not None else None,
    })  # fmt: skip
    return shlex.join([*line, *(["--", *argv] if argv else [])])


def code_words(codes: Sequence[model.OwnCode]) -> list[str]:
    """Return the words after `time` that name typed code: its statement, setup and parameters.

    The words of a command come last, after all options.
    """
    first = codes[0]
    cpu, gpu = first.sides or (None, None)
    sides = {} if cpu is None or gpu is None else {
        "--on-cpu": cpu.statement, "--on-gpu": gpu.statement, "--gpu-setup": list(gpu.setup[len(cpu.setup):]),
    }  # fmt: skip
    return [
        *option_words({"--startup": shlex.join(first.startup), **sides}),
        *([] if first.argv or sides else [first.statement]),
        *option_words({"--setup": list(first.setup), "--let": let_texts(codes), "--in-place": first.in_place}),
    ]  # fmt: skip


def let_texts(codes: Sequence[model.OwnCode]) -> list[str]:
    """Return the parameters of typed code with all their values, `k=1,2,4`."""
    values: dict[str, dict[str, None]] = {}
    for name, value in (each for code in codes for each in code.lets):
        values.setdefault(name, {})[value] = None
    return [f"{name}={','.join(found)}" for name, found in values.items()]


def code_sizes(plan: model.Plan) -> str | None:
    """Return the sizes of a plan of typed code, as `--n` takes them; None if the code does not use n."""
    from cpugpu_tui.workloads.own_code import compiled

    sizes = list(dict.fromkeys(case.size for case in plan.cases))
    if not sizes or not any(compiled(code).uses_size for code in plan.codes):
        return None
    return f"{min(sizes)}:{max(sizes)}" if plan.search is not None else sizes_text(sizes)


def simulation_text(simulation: model.Simulation) -> str:
    """Return the value of `--simulate` for this simulated machine."""
    usual = to_plain(model.Simulation())
    return ",".join(f"{k}={v}" for k, v in to_plain(simulation).items() if v != usual[k]) or "default"


LOOKED_AT = 50
"""Number of newest runs that are searched for an unfinished one."""

PASSING = ("argv", "torch_import_s", "worker", "python_option", "case_timeout_s", "face", "fleet")
"""Facts that may differ between starts and do not change times."""

SAYS_ALL = 6
"""Most differences that an error lists."""


@dataclass(frozen=True)
class Unfinished:
    """A saved run with missing cases."""

    events: tuple[model.Event, ...]
    """Its events, without skipped cases and without the end."""
    summary: RunSummary

    @property
    def started(self) -> model.RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, model.RunStarted)
        return first


def unfinished(store: Store, name: str | None, preset: str | None = None) -> Unfinished:
    """Return the named run or, without a name, this machine's newest run with missing cases, of `preset` if given.

    Raises:
        UsageError: the run does not exist, is complete, is still running, or belongs to a fleet or a duet.
    """
    if name is not None:
        run = store.summary(store.find(name))
        if run.status == "running":
            raise UsageError(f"Run {run.number} is still running.", "Wait until it ends, or stop it.")
        found = _what_is_missing(store, run)
        if found is not None and (host := found.started.environment.get("fleet_host")):
            raise UsageError(
                f"Cannot resume run {run.number}: a fleet measured it on {printable(str(host))}.",
                f"Run it again on that host: `{repeat_text(found.started)}`.",
            )
        if found is not None and found.started.environment.get(model.DUET):
            raise UsageError(f"Cannot resume run {run.number}: it is one side of a duet.", "Run both sides again.")
        if found is None:
            raise UsageError(f"Run {run.number} is complete.", f"`cpugpu-tui show {run.number}` shows it.")
        return found
    here = socket.gethostname()
    for run in store.runs(LOOKED_AT):
        if run.hostname != here or preset not in (None, run.name):
            continue  # imported, or merged from another machine; or of another preset
        if (run.status != "running" and run.status != "done") or run.cases_skipped:
            found = _what_is_missing(store, run)
            if found is not None and not {"fleet_host", model.DUET} & found.started.environment.keys():
                return found
    what = "run" if preset is None else preset
    raise UsageError(f"No unfinished {what} of this machine found.", "`cpugpu-tui history` lists all runs.")


def _what_is_missing(store: Store, run: RunSummary) -> Unfinished | None:
    events = store.load(run.run_id)
    kept = tuple(event for event in events if not _is_void(event))
    left = Remaining(model.Plan("", ()))
    for event in kept:
        left.note(event)
    started = kept[0]
    assert isinstance(started, model.RunStarted)
    # A search that was broken off would have chosen further cases.
    searching = started.plan.search is not None and run.status != "done"
    plan_cases = set(started.plan.cases) | set(left.cases)
    missing = any(case.key not in left.settled for case in plan_cases)
    return Unfinished(kept, run) if missing or searching else None


def _is_void(event: model.Event) -> bool:
    return isinstance(event, model.RunFinished) or (isinstance(event, model.CaseFailed) and event.kind == "skipped")


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences of two environments, as `torch 2.6.0, now 2.7.0`; empty if their times can be mixed.

    A fact that only one version of this program reports is not a difference.
    """
    return [
        f"{name.replace('_', ' ')} {_shown(then[name])}, now {_shown(now[name])}"
        for name in then
        if name in now and name not in PASSING and then[name] != now[name]
    ]


def require_environment(run: Unfinished, hello: model.Hello) -> None:
    """Check that an agent's environment is that of a saved run.

    Raises:
        UnfitError: it differs.
    """
    _require_same(run, differences(run.started.environment, hello.environment))


def require_devices(run: Unfinished, found: model.DevicesFound) -> bool:
    """Check that an agent's devices are those of a saved run; return whether the run has devices.

    Raises:
        UnfitError: they differ.
    """
    known = next((event for event in run.events if isinstance(event, model.DevicesFound)), None)
    if known is not None:
        _require_same(run, device_differences(known, found))
    return known is not None


def device_differences(then: model.DevicesFound, now: model.DevicesFound) -> list[str]:
    """Return the difference between two lists of devices; empty if they are the same."""
    before, after = ([(d.name, d.label, d.uuid) for d in found.devices] for found in (then, now))
    return [] if before == after else [f"devices {_names(then)}, now {_names(now)}"]


def _names(found: model.DevicesFound) -> str:
    return " and ".join(f"{d.label} ({d.uuid})" if d.uuid else d.label for d in found.devices) or "none"


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _require_same(run: Unfinished, differing: Sequence[str]) -> None:
    if differing:
        more = f"; and {len(differing) - SAYS_ALL} more" if len(differing) > SAYS_ALL else ""
        raise UnfitError(
            f"Run {run.summary.number} was measured in another environment: {'; '.join(differing[:SAYS_ALL])}{more}.",
            "Start a new run: times of two environments do not belong in one table.",
        )
