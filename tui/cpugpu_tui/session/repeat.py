"""The command that repeats a run, made from the words saved in its plan, or from its cases if none were saved."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile, product

from cpugpu_tui import model
from cpugpu_tui.config import paths
from cpugpu_tui.config.sizes import sizes_text
from cpugpu_tui.session.request import STARTS
from cpugpu_tui.workloads.code_target import CALLER
from cpugpu_tui.workloads.presets import PRESETS

HOST, PLACE, LEFT_OUT, CODE = "host", "<path>", "<left out>", "..."
"""What an anonymized export has in place of host names, paths, other private texts, and code."""

# ------------------------------------------------------------------ words of a plan


def case_words(cases: Sequence[model.Case], codes: Sequence[model.OwnCode] = ()) -> tuple[str, ...]:
    """Return the words that time exactly these cases; empty if one command with fixed sizes cannot."""
    names = dict.fromkeys(case.workload for case in cases)
    sizes, variants = dict.fromkeys(case.size for case in cases), dict.fromkeys(case.variant for case in cases)
    dtypes, threads = dict.fromkeys(case.dtype for case in cases), dict.fromkeys(case.threads for case in cases)
    grid = {model.Case(*each) for each in product(names, sizes, dtypes, threads, variants)}
    own = names.keys() & {code.name for code in codes}
    presets = [PRESETS[name] for name in names if name in PRESETS]
    if set(cases) != grid or len(dtypes) != 1:
        return ()
    if len(names) > 1 and own != names.keys():
        return ()
    if any(part.workload not in names for preset in presets for part in preset.parts):
        return ()  # the preset of this name would also run others
    counts = ",".join(str(count or "all") for count in threads)
    # The defaults of a preset are its own, so all options are written for it.
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
    """Return the words of options. A list repeats its option, True is a flag, and empty values and 0 are left out."""
    words: list[str] = []
    for name, given in options.items():
        if not given:
            continue
        for value in given if isinstance(given, list) else [given]:
            words.append(name)
            if value is not True:
                words.append(f"{value:g}" if isinstance(value, float) else str(value))
    return words


# ------------------------------------------------------------------ commands of a run


def repeat_text(run: model.RunStarted) -> str:
    """Return the commands that repeat a run in one line, separated by semicolons."""
    return "; ".join(repeat_commands(run))


def repeat_commands(run: model.RunStarted, repeat: int = 1) -> tuple[str, ...]:
    """Return the commands that repeat a run, or the series of which it is the last: one for each statement.

    Empty if there is none, see `why_no_command`.
    """
    plan, words = run.plan, _saved_words(run.plan)
    if why_no_command(run):
        return ()
    if plan.is_of_two_codes or words[0] == "thresholds":
        return (_command(run, words),)
    named = {case.workload for case in plan.cases}
    codes = [code for code in plan.codes if code.name in named or not named]
    of_workloads = [_command(run, words, repeat=repeat)] if words[0] != "time" else []
    options = dropwhile(lambda word: not word.startswith("--"), words)
    time_words = ("time", *options)
    return (*of_workloads, *(_command(run, time_words, each, repeat) for each in _by_statement(codes)))


def measure_command(run: model.RunStarted) -> str:
    """Return the command that measures and saves the peak rates that a run on this machine lacked."""
    simulation = run.plan.simulation
    return shlex.join(["cpugpu-tui", "machine", "--measure", *option_words({
        "--python": run.environment.get("python_option"),
        "--simulate": simulation_text(simulation) if simulation is not None else None, "--db": paths.typed_database,
    })])  # fmt: skip


def why_no_command(run: model.RunStarted) -> str:
    """Return why no command repeats a run; empty if one does."""
    if run.environment.get(model.DUET) and not run.plan.is_of_two_codes:
        return "No command repeats this run alone: it is one side of a duet."
    if _is_of_caller(run.plan):
        return "No command repeats this run: its code existed only in a Python process."
    if _is_anonymized(run):
        return "No command repeats this run: its code or names were left out of an anonymized export."
    return "" if _saved_words(run.plan) else "No command repeats this run: none was saved with it."


def _is_anonymized(run: model.RunStarted) -> bool:
    """Whether words of the command were left out."""
    plan, facts = run.plan, run.environment
    own_files = (file.path for file in plan.own_files)
    places = (plan.mnist, facts.get("python_option"), facts.get("hosts_file"), *own_files)
    left_out = {CODE, PLACE, LEFT_OUT} & {*plan.words, *(code.statement for code in plan.codes), *map(str, places)}
    return bool(left_out) or facts.get("fleet_host") == HOST


def _is_of_caller(plan: model.Plan) -> bool:
    return any(code.target[:1] == (CALLER,) for code in plan.codes)


def _saved_words(plan: model.Plan) -> tuple[str, ...]:
    """Return the words of a plan. Older versions saved none: then those of its cases, unless a search chose them."""
    return plan.words or (case_words(plan.cases, plan.codes) if plan.search is None else ())


def _by_statement(codes: Iterable[model.OwnCode]) -> list[list[model.OwnCode]]:
    """Return the codes that one command times: they differ in their parameters only."""
    found: dict[object, list[model.OwnCode]] = {}
    for code in codes:
        found.setdefault((code.statement, code.setup, code.in_place, code.argv, code.startup), []).append(code)
    return list(found.values())


def _command(
    run: model.RunStarted, words: Sequence[str], codes: Sequence[model.OwnCode] = (), repeat: int = 1
) -> str:  # fmt: skip
    """Return the command of these words, with the settings that plan and environment hold."""
    plan, facts = run.plan, run.environment
    defaults = model.Plan("", ())
    on_fleet = facts.get("fleet_host") is not None
    end = words.index("--") if "--" in words else len(words)  # after it, a duet of two commands saves the new one
    command, *rest = words[:end]
    argv = (*words[end + 1 :], *(codes[0].argv if codes else ()))
    file, launcher = facts.get("hosts_file"), facts.get("launcher") or "ssh"
    reached = ["-H", str(file)] if file else ["--launcher", str(launcher)]
    where = ["-w", str(facts["fleet_host"]), *reached] if on_fleet else []
    is_fleet_run = on_fleet and command != "time"  # `time` takes the options of `where` itself
    is_single = not argv and not plan.is_of_two_codes and repeat == 1
    has_starts = is_single and not is_fleet_run and command not in ("survey", "thresholds")
    simulation = plan.simulation
    if simulation is not None and plan.is_of_two_codes:  # as it was before `in_turn._part`, with three agents a pair
        pair = str(facts.get(model.DUET)).rpartition(".")[2]
        seed = simulation.seed - (3 * int(pair) - plan.turns if pair.isdecimal() else 0)
        simulation = replace(simulation, seed=seed, side_factor=model.Simulation().side_factor)
    elif simulation is not None:  # each run of a series has the next seed
        simulation = replace(simulation, seed=simulation.seed - repeat + 1)
    # `--rounds` sets the least and the most; a duet has a fixed number anyway.
    has_rounds = plan.max_rounds == plan.rounds and not plan.is_of_two_codes
    usual_device = "all" if is_fleet_run else "auto"
    has_devices = not plan.beside and command != "thresholds"  # of which the command has no choice
    devices = [device for device in plan.devices if has_devices and device != usual_device]
    line = ["cpugpu-tui", *(["fleet", "run", *where] if is_fleet_run else [command])]
    line += code_words(codes) if codes else []
    line += ["--n" if codes and word == "--size" else word for word in rest]
    line += where if not is_fleet_run else []
    line += option_words({
        "--workloads": [file.path for file in plan.own_files] if not codes else [],
        "--device": devices, "--parallel": plan.parallel,
        "--scale": plan.scale if plan.scale != defaults.scale else None,
        "--mnist": plan.mnist, "--rounds": plan.rounds if has_rounds else None,
        "--repeat": repeat if repeat > 1 else None,
        "--starts": plan.starts if plan.starts != STARTS and has_starts else None,
        "--energy": model.ENERGY in plan.metrics, "--cache": plan.cache if plan.cache != defaults.cache else None,
        "--max-seconds": plan.max_seconds and plan.max_seconds * repeat, "--case-timeout": facts.get("case_timeout_s"),
        "--worker": "thread" if facts.get("worker") == "thread" else None, "--python": facts.get("python_option"),
        "--simulate": simulation_text(simulation) if simulation is not None else None,
        "--db": paths.typed_database,
    })  # fmt: skip
    return shlex.join([*line, *(["--", *argv] if argv else [])])


def code_words(codes: Sequence[model.OwnCode]) -> list[str]:
    """Return the words after `time` that name typed code: its statement, setup and parameters.

    If the code is a command (`argv`), its own words are left out: they come last, after all options.
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


def pair_words(
    new: Sequence[model.OwnCode], old: Sequence[model.OwnCode], options: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """Return the words of the command that compares two codes.

    `options` name the old code; by default, `--against` and `--against-setup` do.
    """
    argv, setup = new[0].argv, list(old[0].setup) if old[0].setup != new[0].setup else None
    options = options or {"--against": old[0].statement, "--against-setup": setup}
    return ("time", *code_words(new), *option_words(options), *(["--", *argv] if argv else []))


def let_texts(codes: Sequence[model.OwnCode]) -> list[str]:
    """Return the parameters of typed code with all their values, `k=1,2,4`."""
    values: dict[str, dict[str, None]] = {}
    for code in codes:
        for name, value in code.lets:
            values.setdefault(name, {})[value] = None
    return [f"{name}={','.join(found)}" for name, found in values.items()]


def code_sizes(plan: model.Plan) -> str | None:
    """Return the sizes of a plan of typed code, as `--n` takes them; None if it had none."""
    from cpugpu_tui.workloads.own_code import needs_size

    sizes = list(dict.fromkeys(case.size for case in plan.cases))
    if not sizes or (sizes == [1] and not any(map(needs_size, plan.codes))):
        return None
    return f"{min(sizes)}:{max(sizes)}" if plan.search is not None else sizes_text(sizes)


def simulation_text(simulation: model.Simulation) -> str:
    """Return the value of `--simulate` for this simulated machine."""
    defaults = model.to_plain(model.Simulation())
    return ",".join(f"{k}={v}" for k, v in model.to_plain(simulation).items() if v != defaults[k]) or "default"
