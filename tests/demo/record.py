"""Makes the recording of the demo: `python -m tests.demo.record OUT DATABASE [RUN…]`, or `… OUT EXPORT.ndjson…`.

On a machine with a GPU, into a database of its own:

    cpugpu-tui machine --measure --db demo.db
    cpugpu-tui run quick --db demo.db
    cpugpu-tui run matmul-sweep --starts 1 --db demo.db
    cpugpu-tui run vector-dot --starts 1 --max-seconds 230 --db demo.db
    cpugpu-tui run jacobian --size 100 --variant loop,vectorized --rounds 6 --starts 1 --db demo.db
    cpugpu-tui run jacobian --size 1000 --variant loop --rounds 3 --starts 1 --db demo.db
    cpugpu-tui run elementwise --starts 1 --max-seconds 200 --db demo.db
    cpugpu-tui run transfer --starts 1 --db demo.db
    cpugpu-tui run mnist-mlp --starts 1 --db demo.db
    cpugpu-tui run mnist-width --starts 1 --db demo.db
    cpugpu-tui run mnist-batch --starts 1 --db demo.db
    cpugpu-tui run conv2d matmul --size 9,72,144,576 --starts 1 --db demo.db
    python -m tests.demo.record tui/cpugpu_tui/demo/recorded.ndjson.gz demo.db

The shipped runs took 53 minutes, on five H200 servers on 2026-11-28 and 29, with version 0.3.0: P2 and the Jacobian of
1,000 at 4d5cc1c0, the copies at 554b92a5, the matrix products at d0840c46, the Jacobian of 100 at 16ea802e, the others
at 4ceedc41.
The machine is measured first, so that every run knows its ceilings. Names of machines and people, paths and UUIDs are
left out, and of the kernel's version what its builder added; else the runs are whole. The same runs give the same file.
"""

import gzip
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from cpugpu_tui.demo.recording import KIND, SCHEMA, Recording, whole
from cpugpu_tui.errors import CpuGpuError, UsageError
from cpugpu_tui.export.anonymize import anonymized
from cpugpu_tui.export.json_document import read_runs
from cpugpu_tui.export.stream import ExportedRun, exported, ndjson
from cpugpu_tui.store import open_to_read

MAX_BYTES = 3_300_000
"""Largest size of the shipped file."""


def packed(runs: Sequence[ExportedRun]) -> bytes:
    """Return the file for these runs; the same runs give the same bytes with the same zlib.

    Raises:
        UsageError: `runs` is empty, or a run has no end.
    """
    found = whole(Recording(tuple(runs)), "the recording")
    header = {"recording": KIND, "schema": SCHEMA, "tag": found.tag, "machine": list(found.machine),
              "runs": [run.name for run in runs]}  # fmt: skip
    plain = b"".join([msgspec.json.encode(header), b"\n", *ndjson(runs)])
    out = io.BytesIO()
    # No name and time in the gzip header, so that the file is always the same.
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as file:
        file.write(plain)
    return out.getvalue()


def recording(source: Path, others: Sequence[str]) -> bytes:
    """Return the file: of the runs named `others` of a database (all of them if none), or of exports."""
    if source.suffix == ".db":
        runs = from_database(source, others)
    else:
        runs = [run for path in (source, *map(Path, others)) for run in read_runs(path.read_bytes(), path.name)]
    bare = [run.name for run in runs if not run.started.plan.ceilings]
    if bare:
        raise UsageError(f"{', '.join(bare)} knows no ceilings.", "Measure the machine before its runs.")
    return packed([_without_builder(run) for run in anonymized(runs, messages=True)])


def from_database(path: Path, names: Sequence[str]) -> list[ExportedRun]:
    """Return runs of a database, oldest first if none is named."""
    store = open_to_read(path)
    try:
        ids = [store.find(name) for name in names] or [run.run_id for run in reversed(store.runs())]
        return [exported(store.load(run_id)) for run_id in ids]
    finally:
        store.close()


def _without_builder(run: ExportedRun) -> ExportedRun:
    """Return the run with `6.8.0` in place of `6.8.0-45-somebody`."""
    facts = dict(run.started.environment)
    found = re.match(r"[\d.]+", str(facts.get("kernel") or ""))
    if found:
        facts["kernel"] = found[0]
    return ExportedRun((replace(run.started, environment=facts), *run.events[1:]))


def main(arguments: Sequence[str]) -> int:
    """Write the file and say how large it is."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        data = recording(Path(arguments[1]), arguments[2:])
    except (CpuGpuError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if len(data) > MAX_BYTES:
        print(f"{len(data):,} bytes are more than the wheel takes ({MAX_BYTES:,}).", file=sys.stderr)
        return 1
    Path(arguments[0]).write_bytes(data)
    print(f"{arguments[0]}: {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
