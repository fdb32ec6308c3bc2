"""Random bytes, pastes and sizes for the app on a real pseudo-terminal, screen by screen.

A visit opens one screen, types inputs of every kind and ends with SIGTERM or with ctrl+c, both of which must work from
wherever the inputs have led. An input that quits begins the visit anew; what was not read before that is not counted.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from tests.helpers.app.fuzzed_app import COUNT_BYTES, QUICK_MACHINE
from tests.helpers.app.pty_app import PtyApp, TooLateError
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS

from cpugpu_tui.ui.keys import COMMANDS
from cpugpu_tui.ui.shell import INTERNAL_ERROR

SCRIPT = Path(__file__).with_name("fuzzed_app.py")
WAIT_S = 90.0
"""How long anything may take before it hangs: others may use the machine."""
LONGEST_PASTE = 1_000_000

Way = tuple[str, str]
"""Keys, and the screen that they open."""

SAVED: tuple[Way, ...] = (("h", "HistoryScreen"), ("\r", "MainScreen"))
"""Puts the last saved run on the screen, in place of a run that takes its time."""

PLACES: dict[str, tuple[str, tuple[Way, ...]]] = {
    "main": ("app", ()),
    "main with a run": ("app", SAVED),
    "detail": ("app", (*SAVED, ("\r", "DetailScreen"))),
    "detail of several GPUs": ("gpus", (*SAVED, ("\r", "DetailScreen"))),
    "several GPUs": ("gpus", (("r", "MainScreen"),)),
    "chart": ("app", (*SAVED, ("g", "ChartScreen"))),
    "claims": ("app", (("K", "ClaimsScreen"),)),
    "machine": ("app", (("m", "MachineScreen"),)),
    "history": ("app", (("h", "HistoryScreen"),)),
    "filter of the history": ("app", (("h", "HistoryScreen"), ("/", "HistoryScreen"))),
    "delete": ("app", (("h", "HistoryScreen"), ("d", "DeleteScreen"))),
    "compare": ("app", (*SAVED, ("c", "CompareScreen"))),
    "help": ("app", (("?", "HelpScreen"),)),
    "palette": ("app", ((":", "PaletteScreen"),)),
    "themes": ("app", (("T", "ThemesScreen"),)),
    "export": ("app", (*SAVED, ("e", "ExportForm"))),
    "workload form": ("app", (("\r", "WorkloadForm"),)),
    "filter of the rows": ("app", (*SAVED, ("/", "MainScreen"))),
    "GPU page": ("gpus", (("\tz", "GpuScreen"),)),
    "confirm": ("gpus", (("r", "MainScreen"), ("q", "ConfirmScreen"))),
    "demo": ("demo", ()),
    "chart of the demo": ("demo", (("g", "ChartScreen"),)),
    "fleet": ("fleet", ()),
    "host of a fleet": ("fleet", (("\r", "HostScreen"),)),
}
"""Place → which program, and the way there."""

FILLED = {"HistoryScreen": "tags, devices", "MainScreen": "▸"}
"""What stands on a screen once it obeys keys."""

NAMES = {"space": b" ", "tab": b"\t", "enter": b"\r", "escape": b"\x1b", "ctrl+c": b"\x03", "ctrl+z": b"\x1a"}
KEYS = tuple(NAMES.get(key, key.encode()) for command in COMMANDS for key in command.keys)
SUSPEND = b"\x1a"
"""Never sent: it suspends the app, and the following input would be lost. Other tests suspend the app."""
KEYS = tuple(key for key in KEYS if key != SUSPEND)
QUITS = (b"q", b"\x03", b"\x11", SUSPEND)
SEQUENCES = tuple(sequence.encode() for sequence in ANSI_SEQUENCES_KEYS)
BEGIN, END = b"\x1b[200~", b"\x1b[201~"
BROKEN = (
    b"\x1b[", b"\x1b", b"\x1bO", b"\x1b[38;2;", b"\x1b]0;title", b"\x1bPq", b"\x1b[1114112u", b"\x1b[97;;55296u",
    b"\x1b[48;9999;9999;0;0t", b"\x1b[?2048;2$y", b"\x1b[<0;3;3M", b"\x1b[M   ", b"\x1b[5;5R", b"\x1b[I", b"\x1b[O",
    BEGIN, END, b"\xff", b"\xc3", b"\xf0\x9f", b"\xed\xa0\x80", b"\xc2\x9b31m", "漢".encode(), "e\u0301\u202e".encode(),
)  # fmt: skip
WORDS = (
    b"red\x1b[31mtext ",
    b"matmul ",
    b"64,256:512:2\r",
    b"\x1b[Htop",
    b"\xff\xfe",
    "größe µ 漢字 ".encode(),
    b"'\";-- ",
)


@dataclass(frozen=True)
class Resize:
    """A new size of the terminal."""

    columns: int
    rows: int


Input = bytes | Resize


def inputs(random: Random, count: int, resizes: int) -> list[Input]:
    """Return so many inputs of every kind, with so many sizes among them."""
    found: list[Input] = [one(random) for _ in range(count)]
    for _ in range(resizes):
        size = Resize(random.choice((1, random.randint(1, 220))), random.choice((1, random.randint(1, 70))))
        found.insert(random.randrange(len(found) + 1), size)
    return found


def one(random: Random) -> bytes:
    kind = random.random()
    if kind < 0.45:
        key = random.choice(KEYS)
        # A key that quits is pressed now and then; most visits would end with it otherwise.
        return key if key not in QUITS or random.random() < 0.2 else b"j"
    if kind < 0.65:
        byte = bytes([random.randrange(256)])
        return byte if byte not in QUITS else b"k"
    if kind < 0.80:
        sequence = random.choice(SEQUENCES)
        return sequence if sequence not in QUITS else b"\x1b[A"
    if kind < 0.92:
        return random.choice(BROKEN)
    return paste(random)


def paste(random: Random) -> bytes:
    """Return pasted text of up to a megabyte: bracketed or not, whole or cut."""
    length = int(10 ** random.uniform(0.5, 6))
    text = b"".join(random.choices(WORDS, k=20))
    data = (text * (length // len(text) + 1))[: min(length, LONGEST_PASTE)]
    kind = random.random()
    if kind < 0.15:
        return data.replace(b"\r", b"")
    return BEGIN + data + (END if kind < 0.85 else b"")


# ------------------------------------------------------------------ visits


def prepare(folder: Path) -> None:
    """Put two runs of one machine, and two of several GPUs, into the histories that the visits open."""
    for name, sizes, machine in (("app", "16,64,256,512", QUICK_MACHINE), ("gpus", "64,256", "gpus=3")):
        command = [sys.executable, "-m", "cpugpu_tui", "run", "matmul", "--size", sizes, "--simulate", machine]
        command += ["--repeat", "2", "--db", str(folder / f"{name}.db")]
        subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)


@dataclass
class Outcome:
    """What was really delivered, and what was seen."""

    inputs: int = 0
    resizes: int = 0
    bytes: int = 0
    starts: int = 0
    quits: int = 0
    """Visits that an input ended."""
    left_by: dict[str, int] = field(default_factory=lambda: {"SIGTERM": 0, "ctrl+c": 0})
    screens: set[str] = field(default_factory=set)


class FuzzError(AssertionError):
    """Something that must hold did not; holds the last inputs."""


def visit(
    place: str, steps: Sequence[Input], folder: Path, outcome: Outcome, random: Random, ends_s: float = math.inf
) -> None:
    """Type all of this at one place until this time of the monotonic clock, in as many starts as it takes.

    Raises:
        FuzzError: the app crashed, stopped reading, or could not be left.
    """
    kind, way = PLACES[place]
    rest, tried = list(steps), list[Input]()
    while rest and (not tried or time.monotonic() < ends_s):
        outcome.starts += 1
        running = Running(kind, folder, outcome)
        try:
            with running:
                running.go(way)
                while rest and running.alive:
                    together = [rest.pop(0) for _ in range(min(random.randint(1, 12), len(rest)))]
                    tried = [*tried, *together][-40:]
                    running.obey(together)
                    if time.monotonic() > ends_s:
                        break
                running.leave(("SIGTERM", "ctrl+c")[outcome.starts % 2])
        except (TooLateError, AssertionError) as error:
            last = [short(each) for each in tried]
            raise FuzzError(f"{place}: {error}\n{running.last_words()}\nlast inputs: {last}") from error


def short(step: Input) -> str:
    if isinstance(step, Resize):
        return f"{step.columns}x{step.rows}"
    return repr(step) if len(step) < 60 else f"{step[:40]!r}… {len(step)} bytes"


class Running:
    """One start of the app."""

    def __init__(self, kind: str, folder: Path, outcome: Outcome) -> None:
        self._outcome, self._seen, self._sent = outcome, folder / "seen", 0
        self._quit_codes = (0, 3, 130) if kind == "fleet" else (0,)
        self._seen.write_bytes(bytes(COUNT_BYTES))
        self._seen.with_name("crash").unlink(missing_ok=True)
        home = {name: str(folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
        env = {**home, "CPUGPU_DB": str(folder / "fleet.db"), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.app = PtyApp([sys.executable, SCRIPT, kind, folder], env=env, cwd=folder)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *exception: object) -> None:
        self._outcome.screens |= set(self._screens())
        self.app.__exit__(None, None, None)

    @property
    def alive(self) -> bool:
        return self.app.ended is None

    def _screens(self) -> list[str]:
        return self._seen.read_bytes()[COUNT_BYTES:].decode(errors="replace").split("\n")[:-1]

    def _read(self) -> int:
        return int.from_bytes(self._seen.read_bytes()[:COUNT_BYTES], "little")

    def go(self, way: Sequence[Way]) -> None:
        """Open the screen, and be sure that it is open."""
        self._wait(lambda: len(self._screens()) > 0)
        for keys, screen in way:
            self._sent += self.app.send(keys)
            self._wait(lambda: self._read() >= self._sent)
            self._wait(partial(self._shows, screen))
        if not self.alive:
            raise AssertionError(f"it ended on its way with {self.app.ended}:\n{self.app.text}")

    def _shows(self, screen: str) -> bool:
        """Whether a screen is open and holds what it reads on a thread."""
        return self._screens()[-1] == screen and FILLED.get(screen, "") in self.app.text

    def obey(self, steps: Sequence[Input]) -> None:
        """Type and drag; wait until all is read, and count what was."""
        ends = []
        for step in steps:
            if isinstance(step, Resize):
                self.app.resize(step.columns, step.rows)
            else:
                self._sent += self.app.send(step)
            ends.append(self._sent)
        self._wait(lambda: self._read() >= self._sent)
        read = self._read()
        for step, end in zip(steps, ends, strict=True):
            if end > read:
                break
            if isinstance(step, Resize):
                self._outcome.resizes += 1
            else:
                self._outcome.inputs += 1
                self._outcome.bytes += len(step)

    def _wait(self, reached: Callable[[], bool]) -> None:
        """Wait for this, or for the end of the app; go on whenever a key suspends it."""

        def happened(app: PtyApp) -> bool:
            if app.ended is not None:
                return True
            app.continue_if_stopped()
            return reached()

        try:
            self.app.poll_until(happened, WAIT_S)
        except TooLateError:
            self.app.signal(signal.SIGUSR1)  # it says where its threads are
            self.app.bytes_until_quiet()
            raise

    def last_words(self) -> str:
        """Return the traceback of a crash, or of all threads of an app that hangs."""
        files = [self._seen.with_name(name) for name in ("crash", "hang")]
        said = re.sub(r"\x1b[\[\]()][0-9;?]*[a-zA-Z]|\r|│", "", bytes(self.app.output[-6000:]).decode(errors="replace"))
        return "\n".join([*(file.read_text() for file in files if file.exists()), re.sub(r"\s+", " ", said)[-1500:]])

    def leave(self, by: str) -> None:
        """End it, unless an input has."""
        if self.alive:
            self._outcome.left_by[by] += 1
            self._rest()
            if by == "SIGTERM":
                self.app.signal(signal.SIGTERM)
                self.app.signal(signal.SIGCONT)
            else:
                self._press_until_gone()
            self._wait(lambda: False)
            # It may have been leaving already; and ctrl+c is SIGINT again once the terminal has been given back.
            wanted = (143, *self._quit_codes) if by == "SIGTERM" else (*self._quit_codes, 130, -signal.SIGINT)
        else:
            self._outcome.quits += 1
            wanted = self._quit_codes
        code = self.app.exit_code(WAIT_S)
        if by == "SIGTERM" and b"\x1b[?1049l" in self.app.output:
            wanted = (*wanted, -signal.SIGTERM)  # the terminal was given back already, and the handlers were gone
        said = bytes(self.app.output[-20_000:]).decode(errors="replace")
        assert code in wanted, f"it ended with {code}"
        assert "Traceback" not in said
        assert INTERNAL_ERROR not in said

    def _press_until_gone(self) -> None:
        """Press ctrl+c, after the end of a paste that may have been cut.

        Not a number of times: an app that gets little of the CPU drops presses while keys of a paste wait.
        """
        ends_s = time.monotonic() + WAIT_S
        while self.alive and time.monotonic() < ends_s:
            before = self._sent
            self._sent += self.app.send(END + b"\x03")
            if self._sent == before:
                return
            self._wait(lambda: self._read() >= self._sent)
            self._rest()

    def _rest(self) -> None:
        """Wait until nothing is painted any more; ctrl+c would be SIGINT while a key has suspended the app."""
        self.app.bytes_until_quiet()
        while self.alive and self.app.continue_if_stopped():
            self.app.bytes_until_quiet()
