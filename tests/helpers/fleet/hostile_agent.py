"""An agent that lies, floods or dies, as a program: `hostile_agent.py VARIANT RECORDED [whatever follows]`.

RECORDED is the stream of a real agent for the same plan, hello first. A variant is a function that returns the lines
to send after the hello; `mutation:SEED` is the recorded stream with random faults. Standard library only.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count, repeat
from pathlib import Path
from typing import Any

Data = dict[str, Any]
Lines = Iterable[Any]
"""Dictionaries, which become JSON, or bytes as they are."""

REACHED = b'{"event":"HostReached"}\n'
MANY = 100_000
MEGABYTE = b"x" * 1_000_000


class Recorded:
    """The stream of a real agent, and where to find what in it."""

    def __init__(self, path: Path) -> None:
        self.lines: list[Data] = [json.loads(line) for line in path.read_bytes().splitlines()]
        self.hello, self.events = self.lines[0], self.lines[1:]

    def first(self, name: str, **changes: Any) -> Data:
        return {**next(each for each in self.events if each["event"] == name), **changes}

    def until(self, name: str) -> list[Data]:
        """All before the first event of this name."""
        return self.events[: [each["event"] for each in self.events].index(name)]

    def with_first(self, name: str, **changes: Any) -> list[Data]:
        """All, with fields of the first event of this name changed."""
        place = [each["event"] for each in self.events].index(name)
        return [*self.events[:place], {**self.events[place], **changes}, *self.events[place + 1 :]]

    def with_samples(self, values: Any) -> list[Data]:
        return self.with_first("HalfRoundTimed", samples={"latency": values})

    @property
    def case(self) -> str:
        return str(self.first("CaseStarted")["case"])


def rising(lines: Lines) -> Iterator[Any]:
    """Number events after the last one, as an agent does, so that only the variant's fault is wrong."""
    seq = 10**6
    for line in lines:
        seq += 1
        yield {**line, "seq": seq} if isinstance(line, dict) else line


def flood(name: str, times: int = MANY, **changes: Any) -> Callable[[Recorded], Lines]:
    """All up to the first event of a name, then that one again and again."""

    def variant(r: Recorded) -> Lines:
        one = r.first(name, **changes)
        return [*r.until(name), *rising([one])] if times == 1 else _chained(r.until(name), repeat(one, times))

    return variant


def made(name: str, times: int = MANY, **fields: Any) -> Callable[[Recorded], Lines]:
    """Events that the recorded stream does not have, while its first case is at work."""

    def variant(r: Recorded) -> Lines:
        one = {"event": name, "case": r.case, "device": "cpu", **fields}
        return _chained(r.until("HalfRoundTimed"), repeat(one, times))

    return variant


def _chained(before: list[Data], after: Lines) -> Iterator[Any]:
    yield from before
    yield from rising(after)


def raw(line: bytes, times: int = MANY) -> Callable[[Recorded], Lines]:
    return lambda _: repeat(line, times)


def stderr(piece: bytes, times: int) -> Callable[[Recorded], Lines]:
    def variant(r: Recorded) -> Lines:
        for _ in range(times):
            os.write(2, piece)
        return r.events

    return variant


def ending(**fields: Any) -> Callable[[Recorded], Lines]:
    """End the run after its first case."""
    return lambda r: [*r.until("CaseFinished"), {**DONE, **fields, "seq": 10**6}]


def ends(exit_code: int | None, name: str, torn: bytes = b"") -> Callable[[Recorded], Lines]:
    """All up to an event, part of a line, and death."""

    def variant(r: Recorded) -> Iterator[Any]:
        yield from r.until(name)
        yield torn
        sys.stdout.flush()
        if exit_code is None:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(exit_code or 0)

    return variant


def stubborn(r: Recorded) -> Iterator[Any]:
    """Ignore SIGTERM and keep writing after the end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield from r.events
    yield from repeat(b"still here\n", 10**6)


def silent_stdout(r: Recorded) -> Iterator[Any]:
    """Close stdout but do not exit."""
    yield from r.until("CaseFinished")
    sys.stdout.flush()
    os.close(1)
    time.sleep(600)


def swapped(r: Recorded) -> Lines:
    place = [each["event"] for each in r.events].index("CaseFinished")
    return [*r.events[: place - 1], r.events[place], r.events[place - 1], *r.events[place + 1 :]]


FAILED: Data = {"event": "CaseFailed", "kind": "oom", "message": "m"}
DONE: Data = {"event": "RunFinished", "status": "done"}
LABEL = {"name": "cpu", "label": "x" * 5000}
ABSURD_CEILINGS: Data = {
    "device": "cpu", "label": "x", "uuid": None, "hostname": "other", "torch": "2", "measured_wall_ns": 1, "threads": 1,
    "flops": {"float32": 1.0}, "matmul_sizes": {}, "copy_bytes_per_s": 1.0, "copy_bytes": 1, "launch_ns": 1.0,
}  # fmt: skip
PEER: Data = {
    "source": {"name": "cuda:0", "label": "a"},
    "target": {"name": "cuda:1", "label": "b"},
    "has_access": True,
}
LINE: Data = {"file": "x.py", "line": 1, "source_line": "y = x", "reason": "operators", "elapsed_ns": 1.0}
CHOSEN: Data = {"cases": [{"workload": "matmul", "size": 96}]}

VARIANTS: dict[str, Callable[[Recorded], Lines]] = {
    # floods of events that may come, too often
    "flood-case-finished": flood("CaseFinished"),
    "flood-case-started": flood("CaseStarted"),
    "flood-progress": flood("Progressed", 10**6),
    "flood-gaps": made("Gap", 10**6, duration_ms=50.0),
    "flood-half-rounds": flood("HalfRoundTimed"),
    "flood-rounds": lambda r: _chained(
        r.until("HalfRoundTimed"), ({**r.first("HalfRoundTimed"), "round_index": n} for n in range(1, MANY))
    ),
    "flood-once": flood("HalfRoundTimed", round_index=0),
    "flood-calibrated": flood("Calibrated"),
    "flood-tensors": flood("TensorsPlaced"),
    "flood-edges": made("MachineRead", edge="end", readings={}),
    "flood-epochs": made("EpochFinished", epoch=1, epochs=9, loss=0.1, accuracy=None, elapsed_ns=1.0, steps=1),
    "flood-energy": made("EnergyMeasured", calls=1),
    "flood-idle-energy": made("EnergyMeasured", case=""),
    "flood-kernels": made("KernelsProfiled", count=1, elapsed_ns=1.0),
    "flood-lines": made("LinesProfiled", lines=[], profiled_ns=1.0, unprofiled_ns=1.0),
    "flood-compiled": made("CodeCompiled", elapsed_ns=1.0, variant="default"),
    "flood-peers": made("PeerMeasured", **PEER),
    "flood-case-failed": made("CaseFailed", kind="error", message="x" * 900, device=None),
    "flood-devices": flood("DevicesFound"),
    "flood-hello": lambda r: repeat(r.hello, MANY),
    "flood-loading": made("WorkloadsLoading", source="/x.py"),
    "flood-unknown-events": made("CaseDreamt"),
    "flood-ceilings": made("CeilingsMeasured", ceilings=ABSURD_CEILINGS),
    "flood-chosen": made("CasesChosen", **CHOSEN),
    # floods of what is none
    "garbage-lines": raw(b"garbage\n", 10**6),
    "garbage-bytes": lambda _: (random.Random(n).randbytes(65536) for n in range(3000)),
    "empty-lines": raw(b"\n", 10**7),
    "json-lines": raw(b'{"a":[1,2,3]}\n', 10**6),
    "endless-line": raw(MEGABYTE, 3000),
    "endless-event": lambda _: _joined(b'{"event":"Gap","duration_ms":1,"x":"', MEGABYTE, 3000),
    "nested": raw(b'{"event":"Gap","duration_ms":' + b"[" * 400_000 + b"\n", 50),
    "reached-again": raw(REACHED, 10**6),
    "stderr-gigabytes": stderr(b"y" * 99 + b"\n" + MEGABYTE, 3000),
    "stderr-endless-line": stderr(MEGABYTE, 3000),
    "stderr-short-lines": stderr(b"y\n" * 500_000, 3000),
    # lies about cases
    "done-at-once": lambda _: [{**DONE, "seq": 2}],
    "done-early": lambda r: [*r.until("CaseFinished"), {**DONE, "seq": 10**6}],
    "done-without-a-case": lambda r: [r.first("DevicesFound"), {**DONE, "seq": 10**6}],
    "foreign-case": flood("CaseFinished", 1, case="matmul/default/999/float32/tall"),
    "foreign-half-round": flood("HalfRoundTimed", 1, case="matmul/default/999/float32/tall"),
    "foreign-progress": flood("Progressed", 1, case="rm -rf/"),
    "finished-twice": flood("CaseFinished", 2),
    "finished-before-it-began": lambda r: [*r.until("CaseStarted"), r.first("CaseFinished")],
    "finished-without-times": lambda r: [*r.until("HalfRoundTimed"), r.first("CaseFinished")],
    "failed-then-finished": lambda r: _chained(
        r.until("CaseFinished"), [{**FAILED, "case": r.case}, {"event": "CaseFinished", "case": r.case}]
    ),
    "unknown-failure": made("CaseFailed", 1, kind="evil", message="m", device=None),
    "chosen-without-a-search": made("CasesChosen", 1, **CHOSEN),
    "stopped-unasked": ending(status="stopped"),
    "failed-with-exit-0": ending(status="failed"),
    "failed-with-exit-5": ending(status="failed", exit_code=5),
    "unknown-status": lambda r: [*r.until("RunFinished"), {**DONE, "status": "victory", "seq": 10**6}],
    "done-with-exit-99": lambda r: r.with_first("RunFinished", exit_code=99),
    # numbers
    "absurd-lines": made("LinesProfiled", 1, lines=[LINE] * 11, profiled_ns=1.0, unprofiled_ns=1.0),
    "line-without-a-reason": made(
        "LinesProfiled", 1, lines=[{**LINE, "reason": "magic"}], profiled_ns=1.0, unprofiled_ns=1.0
    ),
    "absurd-compile-time": made("CodeCompiled", 1, elapsed_ns=-1.0, variant="default"),
    "negative-time": lambda r: r.with_samples([-1.0]),
    "nan-time": lambda r: _replaced(r.with_samples(["@"]), b"NaN"),
    "infinite-time": lambda r: _replaced(r.with_samples(["@"]), b"Infinity"),
    "overflowing-time": lambda r: _replaced(r.with_samples(["@"]), b"1e999"),
    "absurd-time": lambda r: r.with_samples([1e300]),
    "time-as-text": lambda r: r.with_samples(["soon"]),
    "million-samples": lambda r: r.with_samples([1.0] * 200_000),
    "million-metrics": lambda r: r.with_first("HalfRoundTimed", samples={f"m{n}": [1.0] for n in range(10_000)}),
    "million-marks": lambda r: r.with_first("HalfRoundTimed", marks=["m"] * 100_000),
    "round-of-10-to-the-18": lambda r: r.with_first("HalfRoundTimed", round_index=10**18),
    "huge-clock": lambda r: r.with_first("HalfRoundTimed", wall_ns=10**30),
    "negative-clock": lambda r: r.with_first("CaseStarted", wall_ns=-5),
    "negative-estimate": lambda r: r.with_first("Calibrated", estimate_ns=-1.0),
    "absurd-work": lambda r: r.with_first("CaseStarted", flops=1e308),
    "negative-seconds": lambda r: r.with_first("Progressed", seconds_left=-1e300),
    "sequence-back": lambda r: r.with_first("CaseFinished", seq=1),
    "sequence-again": lambda r: [r.events[0], r.events[0]],
    "out-of-order": swapped,
    # who it says it is
    "hello-twice": lambda r: [r.hello, *r.events],
    "devices-twice": flood("DevicesFound", 2),
    "same-device-twice": lambda r: r.with_first("DevicesFound", devices=[{"name": "cpu", "label": "a"}] * 2),
    "device-with-escapes": lambda r: r.with_first("DevicesFound", devices=[{"name": "\x1b]0;x\x07", "label": "a"}]),
    "million-devices": lambda r: r.with_first(
        "DevicesFound", devices=[{"name": f"cuda:{n}", "label": "a"} for n in range(5_000)]
    ),
    "long-label": lambda r: r.with_first("DevicesFound", devices=[LABEL]),
    "foreign-device": flood("HalfRoundTimed", 1, device="cuda:99"),
    "no-devices": lambda r: r.events[1:],
    "run-started": made("RunStarted", 1, run_id="a", series_id="b", plan={"name": "x", "cases": []}, environment={}),
    "telemetry": made("TelemetryRead"),
    "other-machines-ceilings": made("CeilingsMeasured", 1, ceilings=ABSURD_CEILINGS),
    # how it ends
    "dies-in-a-line": ends(0, "CaseFinished", b'{"event":"CaseFin'),
    "killed-in-a-line": ends(None, "CaseFinished", b'{"event":"CaseFin'),
    "closes-its-stdout": silent_stdout,
}
"""Variants that must end in `misbehaving`, or in a failed run on this machine."""

FACTS: dict[str, Callable[[Recorded], Data]] = {
    "facts-of-another-type": lambda r: {**r.hello, "environment": {**r.hello["environment"], "threads": "many"}},
    "long-hostname": lambda r: {**r.hello, "environment": {**r.hello["environment"], "hostname": "h" * 9000}},
    "nested-facts": lambda r: {**r.hello, "environment": {"deep": json.loads("[" * 400 + "]" * 400)}},
    "numbers-in-facts": lambda r: {**r.hello, "environment": {**r.hello["environment"], "big": 1e300}},
}
"""Hellos that must end likewise."""

SPECIAL = ("banner", "before-the-plan")
"""Played by `main`: what a host prints before it is reached, and an event before the plan. They end likewise."""

HARMLESS: dict[str, Callable[[Recorded], Lines]] = {
    "recorded": lambda r: r.events,
    "another-hosts-name": lambda r: [{**each, "host": "good", "run_id": "x"} for each in r.events],
    "zero-times": lambda r: [
        {**each, "samples": {name: [0.0] * len(taken) for name, taken in each["samples"].items()}}
        if each["event"] == "HalfRoundTimed" else each
        for each in r.events
    ],
    "talks-on-after-its-end": stubborn,
    "some-garbage": lambda r: [b"a line\n", b"\xff\xfe\n", *r.events],
}  # fmt: skip
"""Odd but harmless variants: the run is done."""

BAD = (*VARIANTS, *FACTS, *SPECIAL)
"""All that must end in `misbehaving`."""

LOCAL_CRASHES = ("dies-in-a-line", "killed-in-a-line")
"""Here an agent may be killed in the middle of a line: that costs a case, as any death does."""


def _joined(first: bytes, piece: bytes, times: int) -> Iterator[bytes]:
    yield first
    yield from repeat(piece, times)


def _replaced(lines: list[Data], number: bytes) -> list[bytes]:
    return [json.dumps(line).encode().replace(b'"@"', number) + b"\n" for line in lines]


# ------------------------------------------------------------------ random faults

VALUES: tuple[Any, ...] = (
    -1, 0, 1e308, -1e308, 2**63, 10**30, "", "x" * 20_000, "\x1b[2J\x1b]0;x\x07", "\u202e", None, True, [], {}, [[]],
    "done", "stopped", "failed", "cpu", "cuda:0", "matmul/default/64/float32/tall", 0.5, [1.0] * 500, {"latency": [-1]},
)  # fmt: skip


def mutated(r: Recorded, seed: int) -> list[Any]:
    """Return the recorded stream with one to five random faults."""
    rng = random.Random(seed)
    lines: list[Any] = [dict(each) for each in r.events]
    for _ in range(rng.randint(1, 5)):
        place = rng.randrange(len(lines))
        line = lines[place]
        match rng.randrange(8):
            case 0:
                del lines[place]
            case 1:
                lines.insert(rng.randrange(len(lines)), line)
            case 2:
                other = rng.randrange(len(lines))
                lines[place], lines[other] = lines[other], line
            case 3 if isinstance(line, dict):
                lines[place] = {**line, rng.choice(list(line)): rng.choice(VALUES)}
            case 4 if isinstance(line, dict):
                lines[place] = {key: value for key, value in line.items() if key != rng.choice(list(line))}
            case 5 if isinstance(line, dict):
                whole = bytearray(json.dumps(line).encode() + b"\n")
                for _ in range(rng.randint(1, 4)):
                    whole[rng.randrange(len(whole))] = rng.randrange(256)
                lines[place] = bytes(whole)
            case 6:
                lines[place:] = lines[place : place + 1]
            case _:
                lines[place:place] = lines[place : place + 1] * rng.choice((2, 50, 5000))
        if not lines:
            return []
    return lines


# ------------------------------------------------------------------ the program


IN_A_PROCESS = ("dies-in-a-line", "killed-in-a-line", "closes-its-stdout", "talks-on-after-its-end")
"""Variants that do more than send lines; so do those whose name begins with `stderr`."""


def lines_of(variant: str, r: Recorded) -> Lines:
    """Return what a variant sends after its hello."""
    kind, _, seed = variant.partition(":")
    return mutated(r, int(seed)) if kind == "mutation" else {**VARIANTS, **HARMLESS}.get(kind, lambda r: r.events)(r)


def encoded(line: Any) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line, separators=(",", ":")).encode() + b"\n"


def wait_for_plan() -> None:
    """Read the agent's zip, if one comes, and the plan behind it."""
    seen = b""
    while b'"cases":' not in seen or not seen.endswith(b"\n"):
        piece = os.read(0, 1 << 16)
        if not piece:
            os._exit(1)
        seen = (seen + piece)[-(1 << 17) :]


def main() -> None:
    variant, path, *rest = sys.argv[1:]
    out = sys.stdout.buffer
    recorded = Recorded(Path(path))
    if variant == "banner":
        out.write(b"Welcome!\n" * 10**6)
    if rest and rest[0] == "host":
        out.write(b"\n" + REACHED)
    out.write(encoded(FACTS.get(variant, lambda r: r.hello)(recorded)))
    if variant == "before-the-plan":
        out.write(encoded(recorded.events[0]))
    out.flush()
    if variant == "reads-nothing":
        time.sleep(600)
    wait_for_plan()
    for number, line in zip(count(), lines_of(variant, recorded), strict=False):
        out.write(encoded(line))
        if number % 100 == 0:
            out.flush()
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
