"""Untrusted names, from /proc to the strips that Textual writes, hold no control characters."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.segment import Segment
from tests.helpers.app.machine_readings import gpu, state, sweep
from textual.strip import Strip

from cpugpu_tui.machine.procfs import process_owner
from cpugpu_tui.model import GpuProcess, MigInstance, Reading
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.panes.lines import plain, width_of
from cpugpu_tui.ui.panes.telemetry.arrangements import telemetry_lines
from cpugpu_tui.ui.screens.gpu import gpu_lines

NAMES_AT_ONCE = 100
"""Random names per example; 100 examples make ten thousand."""
SIZES = ((36, 56), (78, 5), (116, 10))

hostile_bytes = st.one_of(
    st.binary(min_size=1, max_size=60),
    st.lists(
        st.sampled_from([b"\x1b[2J", b"\x1b]52;c;Zm9v\x07", b"\x1bP", b"\x9b31m", b"\xc2\x9b2J", b"\xe2\x80\xae", b"\0",
                         b"\r\n", b"\x07", b"python", b"\xff", b"\xed\xa0\x80", "東京".encode(), b"[red]", b"\x7f"]),
        min_size=1, max_size=12,
    ).map(b"".join),
)  # fmt: skip


def strips_of(lines):
    """Return lines as `Lines.render_line` passes them to Textual, without styles."""
    return [Strip([Segment(text) for text, _ in line if text]) for line in lines]


def unprintable(strips):
    """Return control characters, and those without a cell."""
    text = "".join(segment.text for strip in strips for segment in strip)
    text.encode()
    return {
        character
        for character in text
        if unicodedata.category(character)[0] == "C" or unicodedata.category(character) in ("Zl", "Zp")
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A /proc of `NAMES_AT_ONCE` processes; every second one has a command line, the others only a name."""
    root = tmp_path_factory.mktemp("root")
    for pid in range(NAMES_AT_ONCE):
        folder = root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "status").write_text("Name:\tx\nUid:\t0\t0\t0\t0\n")
    return root


@pytest.mark.slow
@settings(max_examples=100)
@given(names=st.lists(hostile_bytes, min_size=NAMES_AT_ONCE, max_size=NAMES_AT_ONCE),
       glyphs=st.sampled_from([UNICODE, ASCII]))  # fmt: skip
def test_ten_thousand_process_names_of_random_bytes_print_as_text(root, names, glyphs):
    processes = []
    for pid, name in enumerate(names):
        (root / "proc" / str(pid) / ("comm" if pid % 2 else "cmdline")).write_bytes(name)
        processes.append(GpuProcess(pid, 2**30, *process_owner(pid, str(root)), own=False))
    read = sweep(gpu(processes=tuple(processes)))
    for width, height in SIZES:
        lines = telemetry_lines(state(read), width, height, glyphs)
        assert not unprintable(strips_of(lines))
        assert all(width_of(line) <= width for line in lines)
    lines = gpu_lines(read.gpus[0], state(read), (), 76, glyphs)
    table = [plain(line) for line in lines]
    table = table[table.index("Processes") :]
    assert [int(pid) for line in table for pid in re.findall(r"^  (\d+) ", line)] == list(range(len(names)))
    assert not unprintable(strips_of(lines))


@pytest.mark.parametrize("width", [50, 76])
def test_a_name_that_takes_no_cell_is_an_unknown_command(width):
    """The page of its GPU crashed."""
    read = sweep(gpu(processes=(GpuProcess(7, None, "ann", "\u0301", own=False),)))
    lines = gpu_lines(read.gpus[0], state(read), (), width, UNICODE)
    assert any("command unknown" in plain(line) for line in lines)


@given(st.text(st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x9d\x07\\[]0;m\u202e\ud800\n")), max_size=40),
       st.sampled_from([UNICODE, ASCII]))  # fmt: skip
def test_an_event_from_a_file_or_another_machine_is_made_harmless_here(text, glyphs):
    """Such names were not cleaned by our reader of /proc."""
    process = GpuProcess(7, None, text, text, own=False)
    slices = (MigInstance(0, f"MIG-{text}", text, {"memory_used_bytes": Reading(1e9)}, (process,)),)
    found = gpu(processes=(process,), name=text, uuid=f"GPU-{text}", pci_bus_id=text, instances=slices,
                throttle=(text,))  # fmt: skip
    for seen in (found, gpu(problem=text or "lost", name=text)):
        read = sweep(seen, problem=text or None)
        for width, height in SIZES:
            assert not unprintable(strips_of(telemetry_lines(state(read), width, height, glyphs)))
        assert not unprintable(strips_of(gpu_lines(seen, state(read), (), 76, glyphs)))
