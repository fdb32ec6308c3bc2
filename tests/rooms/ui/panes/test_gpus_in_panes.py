"""Several GPUs in the app: columns or bars, slow GPUs, and the copies between GPUs in the detail."""

import pytest
from tests.helpers.app.several_gpus import run_of

from cpugpu_tui.model import Case, Device
from cpugpu_tui.render.columns import Key
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.glyphs import ASCII, UNICODE
from cpugpu_tui.ui.panes.answer import pane_lines
from cpugpu_tui.ui.panes.fields import option_names, toggled
from cpugpu_tui.ui.panes.timing_columns import LEAST_ROUNDS, PADDING, columns, shape_of
from cpugpu_tui.ui.screens.detail import detail_lines


@pytest.fixture(scope="module")
def eight():
    return run_of(8)


@pytest.fixture(scope="module")
def two():
    return run_of(2)


def keys(run, width):
    return [column.key for column in columns(width, shape=shape_of(run, UNICODE))]


def text_of(lines):
    return ["".join(text for text, _ in line) for line in lines]


# ------------------------------------------------------------------ columns


@pytest.mark.parametrize("width", [77, 112, 117, 197])
@pytest.mark.parametrize("devices", [("cpu", "cuda"), ("cuda",)])
@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_the_columns_fit_and_keep_the_sparkline(width, devices, gpus):
    run = run_of(gpus, devices, cases=(Case("matmul", 64),))
    found = columns(width, shape=shape_of(run, UNICODE))
    assert sum(column.width + PADDING for column in found) - 1 <= width
    assert found[-1].key == Key.ROUNDS
    assert found[-1].width >= LEAST_ROUNDS
    shown = {column.key for column in found}
    assert {rows.gpu_key(f"cuda:{index}") for index in range(1, gpus)} <= shown or Key.GPUS in shown


def test_two_gpus_have_a_column_each_at_80_columns(two):
    assert keys(two, 77)[:4] == [Key.CASE, Key.CPU, Key.GPU, rows.gpu_key("cuda:1")]


def test_eight_gpus_have_a_bar_each_at_80_columns_and_a_column_each_at_160(eight):
    assert Key.GPUS in keys(eight, 77)
    assert Key.GPUS not in keys(eight, 157)
    assert rows.gpu_key("cuda:7") in keys(eight, 157)


# ------------------------------------------------------------------ cells


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_a_slow_gpu_has_a_sign_in_its_cell_and_among_the_bars(eight, glyphs):
    row = eight.rows[Case("matmul", 2048).key]
    cells = rows.cells(row, rows.look_of(eight, glyphs, 9), eight)
    bars = "".join(text for text, _ in cells[Key.GPUS])
    assert len(bars) == 8
    assert [index for index, sign in enumerate(bars) if sign == "!"] == [6]
    assert bars[7] == glyphs.dot, "the only one of its model is beside nobody"
    assert next(text for text, _ in cells[rows.gpu_key("cuda:6")]) == "!"
    assert "!" not in "".join(text for text, _ in cells[rows.gpu_key("cuda:5")])
    assert "".join(text for text, _ in cells[Key.GPU]) == f"879 {glyphs.micro}s"


# ------------------------------------------------------------------ answer and detail


def test_the_answer_pane_says_which_gpu_it_speaks_of(eight):
    from cpugpu_tui.ui.app_state import AppState
    from cpugpu_tui.ui.keys import Situation

    state = AppState(run=eight, situation=Situation(ran=True))
    said = text_of(pane_lines(state, 117, 4, 4, UNICODE))
    assert said[0].startswith("workload ")
    assert any(line.startswith("cuda:6 ") and " slow" in line for line in said)


def test_the_detail_has_a_line_for_each_gpu(eight):
    row = eight.rows[Case("matmul", 2048).key]
    lines = text_of(detail_lines(row, eight, 78, UNICODE))
    found = {line.split()[0]: line for line in lines if line.split() and line.strip().startswith("cuda:")}
    assert [name for name in found if len(name) == 6] == [f"cuda:{index}" for index in range(8)]
    assert "! slow +20%" in next(line for line in lines if "! slow" in line)
    assert any("only one" in line and "other simulated" in line for line in lines)
    assert lines[0].startswith("speedup of cuda:0 ")
    assert all(len(line) <= 78 for line in lines)


def test_the_detail_of_a_copy_has_the_matrices_and_that_of_a_product_has_not(eight):
    copy = text_of(detail_lines(eight.rows[Case("transfer", 1 << 20, variant="d2d").key], eight, 78, UNICODE))
    at = next(index for index, line in enumerate(copy) if line.split()[:2] == ["from", "cuda:0"])
    assert copy[at].split() == ["from", *(f"cuda:{index}" for index in range(8))]
    assert copy[at + 1].split()[:2] == ["cuda:0", "–"]
    assert any("peer access" in line for line in copy[:at])
    product = text_of(detail_lines(eight.rows[Case("matmul", 64).key], eight, 78, UNICODE))
    assert not any("Copies between" in line for line in product)


# ------------------------------------------------------------------ choosing devices

FOUND = (Device("cpu", "Xeon"), Device("cuda:0", "NVIDIA H200"), Device("cuda:1", "NVIDIA H200"))


def test_every_gpu_can_be_chosen_at_once_where_there_are_several():
    assert option_names(("auto",), FOUND) == ["auto", "cpu", "cuda", "cuda:0", "cuda:1"]
    assert option_names(("auto",), FOUND[:2]) == ["auto", "cpu", "cuda:0"]


@pytest.mark.parametrize(
    ("chosen", "name", "then"),
    [
        (("auto",), "cuda", ("cuda",)),
        (("cpu",), "cuda", ("cpu", "cuda")),
        (("cpu", "cuda:0", "cuda:1"), "cuda", ("cpu", "cuda")),
        (("cpu", "cuda"), "cuda:1", ("cpu", "cuda:1")),
        (("cuda", "cpu"), "cpu", ("cuda",)),
        (("cuda:0",), "cuda:1", ("cuda:0", "cuda:1")),
        (("cuda",), "cuda", ("auto",)),
    ],
)
def test_every_gpu_and_one_of_them_are_not_chosen_together(chosen, name, then):
    assert toggled(chosen, name) == then
