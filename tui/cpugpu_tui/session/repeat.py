"""The command that repeats a run: its words are made from the request, saved in the plan, and printed with the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

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
    if _is_anonymized(run):
        return ()
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
    if _is_anonymized(run):
        return "No command repeats this run: its code or names were left out of an anonymized export."
    return "" if _saved_words(run.plan) else "No command repeats this run: none was saved with it."


def _is_anonymized(run: model.RunStarted) -> bool:
    """Whether words of the command were left out."""
    plan, facts = run.plan, run.environment
    paths = (plan.mnist, facts.get("python_option"), facts.get("hosts_file"), *(file.path for file in plan.own_files))
    left_out = {CODE, PLACE, LEFT_OUT} & {*plan.words, *(code.statement for code in plan.codes), *map(str, paths)}
    return bool(left_out) or facts.get("fleet_host") == HOST


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
    file, launcher = facts.get("hosts_file"), facts.get("launcher") or "ssh"
    reached = ["-H", str(file)] if file else ["--launcher", str(launcher)]
    where = ["-w", str(facts["fleet_host"]), *reached] if fleet else []
    fleet = fleet and command != "time"
    has_starts = not fleet and command != "survey" and not argv and not plan.is_of_two_codes
    simulation = plan.simulation
    if simulation is not None and plan.is_of_two_codes:  # the planted difference is that of one side
        simulation = replace(simulation, slow_factor=model.Simulation().slow_factor)
    has_rounds = plan.max_rounds == plan.rounds and not plan.is_of_two_codes
    line = ["cpugpu-tui", *(["fleet", "run", *where] if fleet else [command])]
    line += code_words(codes) if codes else []
    line += ["--n" if codes and word == "--size" else word for word in rest]
    line += where if not fleet else []
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
        "--db": paths.typed_database,
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


def pair_words(
    new: Sequence[model.OwnCode], old: Sequence[model.OwnCode], options: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """Return the command that compares two codes, and the words that name them.

    `options` name the old code; if they are missing, its statement and setup do.
    """
    argv, setup = new[0].argv, list(old[0].setup) if old[0].setup != new[0].setup else None
    options = options or {"--against": old[0].statement, "--against-setup": setup}
    return ("time", *code_words(new), *option_words(options), *(["--", *argv] if argv else []))


def let_texts(codes: Sequence[model.OwnCode]) -> list[str]:
    """Return the parameters of typed code with all their values, `k=1,2,4`."""
    values: dict[str, dict[str, None]] = {}
    for name, value in (each for code in codes for each in code.lets):
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
    usual = model.to_plain(model.Simulation())
    return ",".join(f"{k}={v}" for k, v in model.to_plain(simulation).items() if v != usual[k]) or "default"
