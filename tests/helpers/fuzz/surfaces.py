"""The surfaces that are tried inside this process, thousands of times a minute, and those that start processes."""

import json
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from tests.helpers.command_line import FAST, CommandLine
from tests.helpers.fuzz import hostile_values as hostile
from tests.helpers.fuzz.trying import Surface, WrongError

from cpugpu_tui import thresholds
from cpugpu_tui.analysis.compare import BANDS
from cpugpu_tui.api import arguments
from cpugpu_tui.cli.running import modes
from cpugpu_tui.cli.time import typed_codes
from cpugpu_tui.config import config_file, parsing
from cpugpu_tui.config import sizes as size_texts
from cpugpu_tui.config.hosts import hosts_of, read_hosts
from cpugpu_tui.errors import ProtocolError, UsageError
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.state import RunState
from cpugpu_tui.transport.agent_output import Garbage
from cpugpu_tui.transport.guard import MisbehavedError, StreamGuard

PARSERS: tuple[Callable[[str], object], ...] = (
    size_texts.parse_size, parsing.parse_threads, parsing.parse_percent, parsing.parse_simulation, parsing.check_device,
    parsing.full_dtype, lambda text: parsing.parse_bands(text, BANDS), lambda text: hosts_of([text]),
)  # fmt: skip


def refused(call: Callable[[], object], *expected: type[Exception]) -> str:
    """Make a call that may be refused, by a usage error with a sentence; return `taken` or `refused`."""
    try:
        call()
    except UsageError as error:
        if not str(error.message).strip():
            raise WrongError("refused without a word") from error
        return "refused"
    except expected:
        return "refused"
    return "taken"


def sizes(random: Random) -> str:
    """A text in the place of sizes, threads, percents, devices; sizes that are printed must be read as the same."""
    text = hostile.text(random, hostile.SIZES if random.random() < 0.6 else hostile.WORDS)
    if random.random() < 0.4:
        return refused(lambda: random.choice(PARSERS)(text))

    def round_trip() -> None:
        found = size_texts.parse_sizes(text)
        if len(found) < 2_000 and size_texts.parse_sizes(size_texts.sizes_text(found)) != found:
            raise WrongError(f"{text!r} is printed as {size_texts.sizes_text(found)!r}, which means other sizes")

    return refused(round_trip)


def own_code(random: Random) -> str:
    """A statement, setup and parameters as text."""
    statement, setup = hostile.text(random, hostile.STATEMENTS), random.choice(("", hostile.text(random)))
    lets = [hostile.text(random) for _ in range(random.randint(0, 2))]
    return refused(lambda: typed_codes(statement, setup, lets, None, in_place=random.random() < 0.3))


def types(random: Random) -> str:
    """Objects of any type as arguments of the Python API."""
    usual: dict[str, Any] = {
        "setup": "", "let": None, "inputs": None, "dtype": None, "threads": None, "device": "auto", "in_place": False,
        "rounds": None, "starts": None, "max_seconds": None, "simulate": "default", "save": False,
    }  # fmt: skip
    wrong = {name: hostile.python_object(random) for name in random.sample(list(usual), random.randint(0, 2))}
    what = hostile.python_object(random) if random.random() < 0.5 else "x @ x"
    n = hostile.python_object(random) if random.random() < 0.5 else 64

    def call() -> None:
        asked = arguments.checked(what, n, **{**usual, **wrong})
        size_texts.parse_sizes(asked.sizes)

    return refused(call)


OPTIONS = {
    "run": ("--size", "--dtype", "--threads", "--variant", "--device", "--rounds", "--max-seconds", "--case-timeout",
            "--repeat", "--simulate", "--max-size", "--worker", "--export", "--tensorboard", "--find-crossover",
            "--energy", "--json", "--parallel", "--full", "--preset", "--cache", "--python"),
    "time": ("--n", "--setup", "--let", "--in-place", "--dtype", "--threads", "--variant", "--device", "--rounds",
             "--repeat", "--max-seconds", "--find-crossover", "--cache", "--startup", "--json", "--worker", "--export"),
    "list": ("--json",), "show": ("--json", "--samples"), "rm": ("--yes", "--older-than", "--keep"), "tag": (),
    "history": ("--json", "--filter", "--limit"), "compare": ("--json", "--band"), "baseline": ("--json",),
    "export": ("--format", "-o", "--samples"), "claims": ("--json",), "config": (), "thresholds": (),
    "gate": ("--new", "--max-slowdown", "--junit", "--json"),
}  # fmt: skip
"""Command → options, most of which exist. What starts runs is stopped once its plan is made."""


class _PlanMadeError(Exception):
    """Raised where agents would be started."""


class Files:
    """Surfaces that need a folder, with a real history, its exports and a recorded agent."""

    def __init__(self, folder: Path, recorded: Path) -> None:
        self._folder = folder
        self.cpugpu = CommandLine(folder / "results.db")
        plan = ("run", "matmul", "--size", "16,64,256", "--simulate", FAST, "--repeat", "2")
        for name in ("run.json", "run.ndjson"):
            self.cpugpu(*plan, "--export", folder / name, code=0)
        self._exports = {name: (folder / name).read_bytes() for name in ("run.json", "run.ndjson")}
        search = ("run", "matmul", "--find-crossover", "--size", "16:4096", "--simulate", "default", "--rounds", "10")
        assert self.cpugpu(*search).code == 0
        path = folder / "thresholds.json"
        self.cpugpu("export", "latest", "-o", path, code=0)
        self._thresholds = json.loads(path.read_bytes())
        self._events = [json.loads(line) for line in recorded.read_bytes().splitlines()]

    def _written(self, name: str, data: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(data)
        return path

    def options(self, random: Random) -> str:
        """A command line; what starts a run ends once its plan is made."""
        command = random.choice(("run", "time", *OPTIONS))
        known = hostile.STATEMENTS if command == "time" else hostile.WORDS
        words = [command, *(hostile.text(random, known) for _ in range(random.randint(0, 2)))]
        if random.random() < 0.5:
            words = [command, *({"run": ["matmul"], "time": ["x @ x"]}.get(command, []))]
        for option in random.choices(OPTIONS[command], k=random.randint(0, 3)) if OPTIONS[command] else ():
            words.append(option)
            if random.random() < 0.8:
                words.append(random.choice(hostile.WORDS) if random.random() < 0.6 else hostile.text(random))
        if any(word in ("-o", "--export", "--tensorboard", "--junit") for word in words):
            words = [word for word in words if "/" not in word]
        words = [word.replace("\0", "") for word in words]  # no program can be given one
        with mock.patch.object(modes, "Agents", side_effect=_PlanMadeError), suppress(_PlanMadeError):
            return self.ended(words)
        return "planned"

    def ended(self, words: Sequence[object], allowed: Sequence[int] = (0, 1, 2, 3, 4)) -> str:
        """Run a command here, check how it ended, and return its exit code as text."""
        done = self.cpugpu.here(*words)
        shown = shlex.join(map(str, words))
        if done.code not in allowed:
            raise WrongError(f"exit code {done.code} of {shown!r}: {done.err[-300:]}")
        if "Traceback" in done.err or "\x1b" in done.err:
            raise WrongError(f"a traceback or an escape sequence of {shown!r}: {done.err[-600:]}")
        if done.code == 2 and not (done.err + done.out).strip():
            raise WrongError(f"exit code 2 without a word of {shown!r}")
        return f"exit {done.code}"

    def config(self, random: Random) -> str:
        """A config file, an inventory, or a plain file of hosts."""
        name = random.choice(("config.toml", "hosts.toml", "hosts.txt"))
        whole = CONFIG if name == "config.toml" else HOSTS if name == "hosts.toml" else "gpu1\ngpu[2-4] # rack\n"
        data = hostile.changed(random, whole).encode()
        path = self._written(name, data if random.random() < 0.7 else hostile.changed_bytes(random, data))
        return refused(lambda: (config_file.read if name == "config.toml" else read_hosts)(path))

    def thresholds(self, random: Random) -> str:
        """A file of thresholds, and choices by it."""
        data = json.dumps(hostile.changed_json(random, self._thresholds)).encode()
        path = self._written("t.json", data if random.random() < 0.8 else hostile.changed_bytes(random, data))

        def call() -> None:
            found = thresholds.load(path)
            found.choose("matmul", random.choice((1, 64, 10**9)))

        return refused(call, thresholds.ThresholdsError)

    def imports(self, random: Random) -> str:
        """An export that is damaged, imported into a history of its own, shown and exported again."""
        name = random.choice(list(self._exports))
        whole = self._exports[name]
        if random.random() < 0.4:
            data = hostile.changed_bytes(random, whole)
        elif name == "run.json":
            data = json.dumps(hostile.changed_json(random, json.loads(whole))).encode()
        else:
            lines = [json.loads(line) for line in whole.splitlines()]
            data = b"\n".join(json.dumps(each).encode() for each in hostile.changed_json(random, lines))
        path = self._written(f"damaged-{name}", data)
        other = Path(f"{self._folder}/imported.db")
        for each in self._folder.glob("imported.db*"):
            each.unlink()
        ended = self.ended(("import", path, "--db", other))
        if ended == "exit 0":
            self.ended(("show", "latest", "--db", other, *random.choice(((), ("--json",)))))
            ending = random.choice(("json", "csv", "md", "html", "svg", "ndjson"))
            self.ended(("export", "latest", "--db", other, "-o", self._folder / f"again.{ending}"))
        return ended

    def agent_lines(self, random: Random) -> str:
        """The lines of an agent with damaged ones among them, up to what the table is made of."""
        guard, state = StreamGuard(), RunState()
        guard.expect(build_plan(PlanRequest(("matmul",), sizes="64,128")))
        place = random.randrange(len(self._events))
        for index, each in enumerate(self._events):
            line = json.dumps(hostile.changed_json(random, each) if index == place else each).encode()
            if index == place and random.random() < 0.3:
                line = hostile.changed_bytes(random, line)
            try:
                guard.read(len(line) + 1)
                event = guard.event_on(line)
            except Garbage:
                continue
            except (MisbehavedError, ProtocolError):
                return "refused"
            if event is not None:
                state = state.apply(event)
        return "taken"

    def runs(self, random: Random) -> str:
        """Code or a file of workloads that an agent runs for real, on the simulated machine."""
        if random.random() < 0.5:
            path = self._written("own.py", hostile.changed(random, WORKLOAD).encode(errors="replace"))
            words: tuple[object, ...] = ("run", "relu", "--workloads", path, "--size", "64")
        else:
            words = ("time", hostile.text(random, hostile.STATEMENTS), "--n", "8", "--setup", "x = torch.ones(n, n)")
        return self.ended((*words, "--simulate", FAST, "--no-save", "--case-timeout", "20"))

    def surfaces(self) -> tuple[Surface, ...]:
        """Return all surfaces, the ones inside this process first."""
        return (
            Surface("sizes", sizes), Surface("own code", own_code), Surface("types", types),
            Surface("config", self.config), Surface("thresholds", self.thresholds),
            Surface("agent lines", self.agent_lines), Surface("options", self.options),
            Surface("imports", self.imports), Surface("runs", self.runs, starts_processes=True),
        )  # fmt: skip


CONFIG = """\
simulate = "default"
theme = "slate"
max_slowdown = "5%"
workloads = ["a.py"]
mouse = false
case_timeout = 20.0
[keys]
run = ["r", "F5"]
[presets.mine]
workload = "matmul"
sizes = [16, "64:256:2"]
dtypes = "float32"
summary = "Ours"
"""
HOSTS = """\
hosts = ["gpu[1-3]", "n1"]
[defaults]
launcher = "ssh"
python = "/usr/bin/python3"
env = { A = "1" }
[launchers]
mine = ["env", "{host}"]
"""
WORKLOAD = """\
from cpugpu_tui import Workload, workload
import torch

@workload
class Relu(Workload):
    name = "relu"
    axis = "elements"
    sizes = (64, 128)

    def inputs(self, n, dtype, generator):
        return (torch.ones(n, dtype=dtype),)

    def step(self, x):
        return x.relu()
"""
