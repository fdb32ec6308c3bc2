"""TensorBoard reads the same from our files as from those written in the publication's way."""

from dataclasses import replace

import pytest
from tests.helpers.runs import export_runs

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cpugpu_tui.export.stream import exported
from cpugpu_tui.export.tensorboard import LiveTensorboard, write_tensorboard
from cpugpu_tui.model import CaseFailed, CaseFinished, Simulation
from cpugpu_tui.state.state import RunState

Scalars = dict[str, dict[str, list[tuple[int, float]]]]


def read(folder):
    """Folder of a series → tag → (step, value), as TensorBoard has them."""
    found: Scalars = {}
    for file in sorted(folder.rglob("*tfevents*")):
        reader = EventAccumulator(str(file.parent))
        reader.Reload()
        name = str(file.parent.relative_to(folder))
        found[name] = {tag: [(s.step, s.value) for s in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    return found


def bytes_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def live(folder, events):
    board, state = LiveTensorboard(folder), RunState()
    for event in events:
        state = state.apply(event)
        board.see(state, event)
    return board


def test_it_is_what_torch_writes(tmp_path):
    """The publication: `writer.add_scalars('GPU vs CPU', {'GPU': …, 'CPU': …}, n)`, in seconds."""
    from torch.utils.tensorboard import SummaryWriter

    run = export_runs.run()
    (ours,) = write_tensorboard([run], tmp_path / "ours")
    writer = SummaryWriter(str(tmp_path / "torch"))
    for row in run.state.rows.values():
        if row.cpu is not None and row.gpu is not None:
            seconds = {"GPU": (row.gpu.latency_ns or 0) / 1e9, "CPU": (row.cpu.latency_ns or 0) / 1e9}
            writer.add_scalars("GPU vs CPU", seconds, row.case.size)
    writer.close()
    theirs = {name: tags for name, tags in read(tmp_path / "torch").items() if name != "."}
    assert read(ours) == theirs
    assert [step for step, _ in theirs["GPU vs CPU_GPU"]["GPU vs CPU"]] == [16, 64, 256]


def test_what_is_written_live_is_what_an_export_writes(tmp_path):
    live(tmp_path / "live", export_runs.stream()).close()
    write_tensorboard([export_runs.run()], tmp_path / "export")
    assert bytes_of(tmp_path / "live") == bytes_of(tmp_path / "export")


def test_simulated_times_are_marked_in_the_name_of_the_chart(tmp_path):
    first, *rest = export_runs.stream()
    simulated = exported([replace(first, plan=replace(first.plan, simulation=Simulation())), *rest])
    (folder,) = write_tensorboard([simulated], tmp_path)
    assert {tag for tags in read(folder).values() for tag in tags} == {"GPU vs CPU (SIMULATED)"}


def test_it_can_be_read_while_the_run_goes_on(tmp_path):
    stream = export_runs.stream()
    second = [index for index, event in enumerate(stream) if isinstance(event, CaseFinished)][1]
    board = live(tmp_path / "tb", stream[: second + 1])
    points = read(tmp_path / "tb" / "matmul-20260101-aaaa")["GPU vs CPU_CPU"]["GPU vs CPU"]
    assert [step for step, _ in points] == [16, 64]
    board.close()


def test_a_failed_case_and_a_mismatch_are_no_points(tmp_path):
    stream = [
        replace(CaseFailed(case=event.case, kind="mismatch", message=""), seq=event.seq)
        if isinstance(event, CaseFinished) and "/64/" in event.case
        else event
        for event in export_runs.stream()
    ]
    live(tmp_path / "tb", stream).close()
    points = read(tmp_path / "tb" / "matmul-20260101-aaaa")["GPU vs CPU_GPU"]["GPU vs CPU"]
    assert [step for step, _ in points] == [16, 256]


def test_each_sweep_of_a_run_has_its_own_chart(tmp_path):
    first, *rest = export_runs.stream()
    other = tuple(replace(case, dtype="float16") for case in first.plan.cases)
    ended = [
        replace(event, case=event.case.replace("float32", "float16"))
        for event in rest
        if getattr(event, "case", "").startswith("matmul")
    ]
    both = replace(first, plan=replace(first.plan, cases=(*first.plan.cases, *other)))
    (folder,) = write_tensorboard([exported([both, *rest[:-1], *ended, rest[-1]])], tmp_path / "tb")
    assert sorted(read(folder)) == [
        f"GPU vs CPU (matmul {dtype})_{series}" for dtype in ("float16", "float32") for series in ("CPU", "GPU")
    ]
