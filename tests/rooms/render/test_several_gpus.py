"""Several GPUs in one run, timed in turn by one agent; tables, answers and exports name the GPU."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from tests.helpers.command_line import FAST, CommandLine
from tests.helpers.golden import assert_golden, paragraphs
from tests.helpers.runs.recorder import QUICK, Call, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.decide.comparison import GPU_WINS
from cpugpu_tui.render import gpus
from cpugpu_tui.render.answers import answer_lines, answers, as_data
from cpugpu_tui.render.rows import lines_of
from cpugpu_tui.report.report import judged
from cpugpu_tui.state.folding import Remaining

FOUR = replace(QUICK, gpus=4, slow_gpu=2, slow_factor=1.3)
ALL = ("cpu", "cuda")
RUN = ("run", "matmul", "--size", "256,2048", "--simulate", f"{FAST},gpus=4,slow_gpu=2,slow_factor=1.3", "--no-save")


def run_of(*sizes, simulation=FOUR, devices=ALL, **more):
    plan = plan_of(*sizes, simulation=simulation, devices=devices, **more)
    return state_of(plan, swept(plan)[1])


# ------------------------------------------------------------------ in turn


def test_every_round_has_each_device_once_in_an_order_that_turns_round():
    _, recorder = swept(plan_of(256, simulation=replace(QUICK, gpus=3), devices=ALL))
    orders: dict[int, list[str]] = {}
    for half in recorder.rounds:
        orders.setdefault(half.round_index, []).append(half.device)
    there = ["cpu", "cuda:0", "cuda:1", "cuda:2"]
    assert len(orders) >= 8
    assert all(order == (there if index % 2 else there[::-1]) for index, order in orders.items())


def test_a_half_round_asks_one_device_alone():
    _, recorder = swept(plan_of(256, simulation=replace(QUICK, gpus=3), devices=ALL))
    asked: set[str] = set()
    for entry in recorder.log:
        if isinstance(entry, Call):
            asked.add(entry.device)
        elif isinstance(
            entry, (model.DeviceSampled, model.Calibrated)
        ):  # before it: first calls, and each one's warm-up
            if isinstance(entry, model.DeviceSampled) and entry.round_index:
                assert asked == {entry.device}
            asked = set()


def test_a_search_narrows_the_crossover_of_every_model():
    """The other model has another crossover, whose bracket needs sizes of its own."""
    laws = model.Simulation(gpus=2, other_gpus=1, other_factor=10.0, noise=0.005)
    cases = tuple(model.Case("matmul", size) for size in (16, 64, 256, 1024, 4096))
    plan = model.Plan("test", cases, devices=ALL, search=model.Search(most_cases=20), rounds=5, max_rounds=24,
        blocks=3, window=20,
                budget_s=1.5, simulation=laws)  # fmt: skip
    found = {
        answer.gpu.name: answer.report.resident.crossover
        for answer in answers(state_of(plan, swept(plan)[1]))
        if answer.gpu
    }
    first, second = found["cuda:0"], found["cuda:1"]
    assert second.point > 1.3 * first.point
    assert max(first.ratio, second.ratio) <= 1.25


def test_a_search_without_a_cpu_times_its_first_sizes_and_compares_no_gpu_with_another():
    cases = tuple(model.Case("matmul", size) for size in (16, 256, 2048))
    plan = model.Plan("test", cases, devices=("cuda",), search=model.Search(), rounds=5, max_rounds=24, blocks=3,
        window=20,
                budget_s=1.5, simulation=replace(QUICK, gpus=2))  # fmt: skip
    state = state_of(plan, swept(plan)[1])
    assert [row.case.size for row in state.rows.values()] == [16, 256, 2048]
    assert all(row.own_comparison is None for row in state.rows.values())


def test_what_a_search_has_found_out_is_told_the_next_agent_for_each_gpu():
    plan = plan_of(256, simulation=replace(QUICK, gpus=2), devices=ALL, search=model.Search())
    state, left = state_of(plan, swept(plan)[1]), Remaining(plan)
    left.note(model.RunStarted(run_id="r", series_id="s", plan=plan, environment={}))
    for event in swept(plan)[1].events:
        left.note(event)
    search = left.plan(0.0).search
    told = [(found.device, found.moved) for found in search.found]
    assert told == [("cuda:0", False), ("cuda:0", True), ("cuda:1", False), ("cuda:1", True)]
    assert all(isinstance(found, model.Found) and found.speedup for found in search.found)
    assert set(state.rows) == {model.Case("matmul", 256).key}


# ------------------------------------------------------------------ rows and who is slow


def test_each_gpu_has_its_own_comparison_with_the_cpu():
    run = run_of(2048)
    (row,) = run.rows.values()
    found = [judged(run, row.on(gpu)).comparison for gpu in row.gpus]
    speedups = [each.speedup for each in found if each is not None]
    assert len(speedups) == 4
    assert judged(run, row).comparison == found[0]
    assert speedups[0] / speedups[2] == pytest.approx(1.25, abs=0.06)


def test_the_first_gpu_is_torchs_first_whatever_came_first():
    (row,) = run_of(256).rows.values()
    turned = replace(row, times=dict(reversed(row.times.items())))
    assert turned.gpu.device == "cuda:0"


def test_the_planted_slow_gpu_is_marked_in_its_rows_and_said_with_numbers():
    state = run_of(256, 1024, 2048)
    assert [name for name, each in gpus.run_standings(state).items() if each.is_slow] == ["cuda:2"]
    marks = {told.gpu: told.slow for told in lines_of(state, state.rows.values())}
    assert marks["cuda:0"] == marks["cuda:1"] == marks["cuda:3"] == ""
    assert re.fullmatch(r"slow: kernels \+(29|30|31) %", marks["cuda:2"])


def _without_own_time(times):
    samples = {metric: values for metric, values in times.samples.items() if metric != model.DEVICE}
    return replace(times, samples=samples, other_round_ns={})


def test_a_busy_host_makes_no_gpu_slow():
    """Latency contains the launch on the host, so kernel times decide if all GPUs have them."""
    state = run_of(256, simulation=replace(QUICK, gpus=4))
    (row,) = state.rows.values()
    times = row.times["cuda:1"]
    late = replace(times, round_ns={index: 2 * ns for index, ns in times.round_ns.items()})
    state = replace(state, rows={row.case.key: replace(row, times={**row.times, "cuda:1": late})})
    assert not any(each.is_slow for each in gpus.run_standings(state).values())
    without = {name: _without_own_time(each) for name, each in row.times.items()} | {"cuda:1": _without_own_time(late)}
    state = replace(state, rows={row.case.key: replace(row, times=without)})
    assert [n for n, each in gpus.run_standings(state).items() if each.is_slow] == ["cuda:1"]


# ------------------------------------------------------------------ answers


def test_the_answer_names_the_gpu_it_speaks_of_and_tells_how_the_others_differ():
    lines = answer_lines(run_of(64, 256, 2048, simulation=model.Simulation(gpus=4, slow_gpu=2, slow_factor=1.3)))
    assert lines[0].startswith("cuda:0 (simulated GPU): ")
    assert lines[1].startswith("cuda:2 is slow: ")
    assert "cuda:1 to cuda:3" in lines[2]
    assert re.search(r"≈ \d+ to ≈ \d+; .*2,048.* \d.*× to \d.*× faster", lines[2])
    assert all(line.startswith(("cuda:0: ", "cuda:0 (")) for line in (lines[0], *lines[3:]))


def test_the_other_gpus_of_a_model_are_slower_in_words(words):
    lines = answer_lines(run_of(16, 64, simulation=model.Simulation(gpus=3, noise=0.0, slow_gpu=2, slow_factor=2.0)))
    words([line for line in lines if "cuda:1 and cuda:2" in line])


def test_gpus_without_a_cpu_say_so_after_who_is_slow(words):
    lines = answer_lines(run_of(256, 2048, devices=("cuda",)))
    assert lines[0].startswith("cuda:2 is slow: ")
    words(lines[1])


def test_data_has_the_answer_for_every_gpu():
    told = as_data(run_of(256, 2048))
    assert [each["gpu"] for each in told] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert all(each["sentences"] for each in told)
    assert as_data(run_of(2048, simulation=QUICK))[0]["gpu"] == "cuda:0"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["cuda:1"], "cuda:1"),
        (["cuda:1", "cuda:2"], "cuda:1 and cuda:2"),
        (["cuda:1", "cuda:2", "cuda:3"], "cuda:1 to cuda:3"),
        (["cuda:0", "cuda:2", "cuda:3", "cuda:4", "cuda:9"], "cuda:0, cuda:2 to cuda:4 and cuda:9"),
    ],
)
def test_names_in_a_row_are_said_by_the_first_and_the_last(names, text):
    assert gpus.listed(names) == text


# ------------------------------------------------------------------ copies between GPUs

TRANSFER = model.Case("transfer", 4096, variant="d2d")


def copied(simulation, *devices, cases=(TRANSFER,)):
    plan = replace(plan_of(simulation=simulation), cases=cases, devices=devices or ("auto",))
    return state_of(plan, swept(plan)[1])


def test_the_experiment_about_copies_times_every_way_between_all_visible_gpus():
    laws = replace(QUICK, gpus=3, noise=0.01)
    state = copied(laws)
    assert [gpu.name for gpu in state.gpus] == ["cuda:0"], "the cases stay on the first GPU"
    assert set(state.peers) == {(f"cuda:{a}", f"cuda:{b}") for a in range(3) for b in range(3) if a != b}
    for found in state.peers.values():
        assert gpus.bytes_per_s(found) == pytest.approx(laws.peer_bytes_per_ns * 1e9, rel=0.02)
        assert gpus.latency_ns(found) == pytest.approx(laws.peer_alpha_ns, rel=0.02)
        assert found.has_access


@pytest.mark.parametrize(
    ("devices", "pairs"), [(("cuda:0", "cuda:2"), 2), (("cuda:1",), 0), (("cpu",), 0), (("cpu", "cuda"), 6)]
)
def test_gpus_that_are_named_leave_the_others_alone(devices, pairs):
    assert len(copied(replace(QUICK, gpus=3), *devices).peers) == pairs


def test_no_other_experiment_copies_between_gpus():
    assert copied(replace(QUICK, gpus=3), cases=(model.Case("matmul", 64),)).peers == {}


def test_matrices_have_a_row_for_each_source_and_a_column_for_each_target():
    rates, waits = gpus.matrices(copied(replace(QUICK, gpus=3, noise=0.0)))
    assert rates.heads == waits.heads == ("from", "cuda:0", "cuda:1", "cuda:2")
    assert rates.rows[1] == ("cuda:1", "300", "–", "300")
    assert waits.rows[1] == ("cuda:1", "12.0", "–", "12.0")


def test_without_peer_access_everywhere_a_third_matrix_says_where():
    state = copied(replace(QUICK, gpus=4, peer_group=2, noise=0.0))
    rates, _, access = gpus.matrices(state)
    assert access.rows[0] == ("cuda:0", "–", "yes", "no", "no")
    assert rates.rows[0] == ("cuda:0", "–", "300", "25.0", "25.0")
    assert sum(each.has_access is False for each in state.peers.values()) == 8


def test_a_way_that_failed_says_why_and_costs_the_others_nothing():
    state = copied(replace(QUICK, gpus=2))
    broken = state.peers["cuda:1", "cuda:0"]
    failed = model.PeerMeasured(source=broken.source, target=broken.target, has_access=True, problem="Out of memory.")
    state = state.apply(failed)
    assert gpus.matrices(state)[0].rows[1] == ("cuda:1", "failed", "–")
    assert [each["problem"] for each in gpus.peers_data(state)] == ["", "Out of memory."]


# ------------------------------------------------------------------ in words


def test_golden_several_gpus():
    laws = {
        "four, one slow": replace(QUICK, gpus=4, slow_gpu=2, slow_factor=1.3), "four alike": replace(QUICK, gpus=4),
        "two, one slow": replace(QUICK, gpus=2, slow_gpu=1, slow_factor=1.3),
        "one of another model": replace(QUICK, gpus=3, other_gpus=1),
    }  # fmt: skip
    told = {name: "\n".join(answer_lines(run_of(256, 2048, simulation=each))) for name, each in laws.items()}
    copies = copied(replace(QUICK, gpus=4, peer_group=2, noise=0.0))
    failed = replace(copies.peers["cuda:1", "cuda:0"], elapsed_ns=(), latencies_ns=(), problem="Out of memory.")
    told |= {
        "copies": "\n".join(gpus.peer_sentences(copies)),
        "no copy": "\n".join(gpus.peer_sentences(copies.apply(failed))),
    }
    assert_golden("several-gpus", paragraphs(told))


# ------------------------------------------------------------------ as a person calls it


def test_the_table_has_a_line_for_each_gpu_of_a_row(cpugpu):
    done = cpugpu(*RUN, "--device", "cpu", "--device", "cuda", COLUMNS="160")
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    at = next(index for index, words in enumerate(lines) if words[:2] == ["256", "cuda:0"])
    assert [words[0] for words in lines[at + 1 : at + 4]] == ["cuda:1", "cuda:2", "cuda:3"]
    assert "slow:" in lines[at + 2]
    assert GPU_WINS in lines[at + 7]
    assert "4 × simulated GPU" in done.out
    assert "cpugpu-tui run matmul --size 256,2048 --device cpu --device cuda" in done.out


def test_without_a_cpu_the_table_leaves_out_what_compares_with_it(cpugpu):
    done = cpugpu(*RUN, "--device", "cuda")
    head = next(line for line in done.out.splitlines() if line.split()[:2] == ["size", "on"])
    columns = ["size", "on", "GPU", "cold kernels", "95 % interval", "paper's error", "remarks"]
    assert re.split(r"\s{2,}", head.strip()) == columns


def test_exports_tell_each_gpu_and_the_copies_between_them(cpugpu, tmp_path):
    laws = f"{FAST},gpus=2,slow_gpu=1,slow_factor=1.3"
    files = [tmp_path / name for name in ("x.json", "x.csv", "x.md", "x.html")]
    words = [word for file in files for word in ("--export", str(file))]
    cpugpu("run", "transfer", "--size", "1048576", "--variant", "h2d-pinned", "--simulate", laws, *words,
                  "--device", "cpu", "--device", "cuda", code=0)  # fmt: skip
    (run,) = json.loads(files[0].read_text())["runs"]
    assert [(pair["source"], pair["target"], pair["peer_access"]) for pair in run["peers"]] == [
        ("cuda:0", "cuda:1", True), ("cuda:1", "cuda:0", True),
    ]  # fmt: skip
    assert [(gpu["device"], gpu["slow"]) for gpu in run["gpus"]] == [("cuda:0", False), ("cuda:1", True)]
    first = run["results"][0]["devices"]
    assert first["cuda:0"]["lead"]["speedup"] > first["cuda:1"]["lead"]["speedup"]
    assert first["cuda:1"]["is_slow"]
    rows = list(csv.DictReader(io.StringIO(files[1].read_text())))
    latency = {row["device"]: row for row in rows if row["metric"] == "latency" and row["workload"] == "transfer"}
    assert [latency[name]["slow"] for name in ("cpu", "cuda:0", "cuda:1")] == ["", "no", "yes"]
    assert float(latency["cuda:0"]["speedup"]) > float(latency["cuda:1"]["speedup"])
    peers = [(row["device"], row["metric"], row["peer_access"]) for row in rows if row["variant"] == "peer"]
    assert peers[:2] == [("cuda:0>cuda:1", "peer_latency", "yes"), ("cuda:0>cuda:1", "peer_copy", "yes")]
    for file in files[2:]:
        text = file.read_text()
        assert "Copies between GPUs, GB/s" in text
        assert "slow: kernels +13 %" in text
    shown = cpugpu("show", "latest")
    assert "Copies between GPUs, GB/s" in shown.out, "the history keeps them"
    copy = CommandLine(tmp_path / "other.db")
    assert copy("import", files[0]).code == 0
    assert "Copies between GPUs, GB/s" in copy("show", "latest").out
