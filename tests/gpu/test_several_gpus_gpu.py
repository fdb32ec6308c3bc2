"""On a machine with two real GPUs or more: each is timed on its own streams, copies between them, one agent each.

The times themselves are printed: run with `-s`.
"""

import os
import subprocess
import sys
from itertools import pairwise

import pytest

from cpugpu_tui.decide.stats import median
from cpugpu_tui.machine.nvml.probe import GpuProbe
from cpugpu_tui.machine.nvml.session import Nvml
from cpugpu_tui.model import (
    DEVICE,
    LATENCY,
    Case,
    CaseFailed,
    DeviceSampled,
    DevicesFound,
    Event,
    PeerMeasured,
    Plan,
    RunFinished,
    RunStarted,
)
from cpugpu_tui.render.gpus import bytes_per_s, gpu_sentences, latency_ns, peer_sentences
from cpugpu_tui.session.devices import with_gpu_names
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.folding import folded
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.transport.agent_pool import Agents

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu_count")]

ENVIRONMENT = {"threads": 1, "cpu": "host"}
LARGE = Case("matmul", 4096)
SMALL = Case("matmul", 64)


def swept(plan):
    machine, emitted = TorchMachine(plan, ENVIRONMENT), list[Event]()
    assert Scheduler(plan, machine, CallEmitter(emitted.append), Control()).run() == "done"
    machine.release()
    return folded([
        RunStarted(run_id="r", series_id="s", plan=plan, environment={}), DevicesFound(devices=machine.devices),
        *emitted, RunFinished(status="done"),
    ]), emitted  # fmt: skip


@pytest.fixture(scope="module")
def timed(gpu_count):
    """One small and one large product on every GPU, in turn."""
    del gpu_count
    return swept(Plan("test", (SMALL, LARGE), devices=("cuda",), metrics=(LATENCY, DEVICE), rounds=5, budget_s=0.5))


def test_every_gpu_is_timed_by_its_own_clock_and_streams(timed, gpu_count):
    state, emitted = timed
    assert [event for event in emitted if isinstance(event, CaseFailed)] == []
    for row in state.rows.values():
        assert list(row.times) == [f"cuda:{index}" for index in range(gpu_count)]
        for name, times in row.times.items():
            own, waited = times.median_ns(DEVICE), times.latency_ns
            print(f"{row.case.size} {name}: device {own} ns, call {waited} ns, marks {times.marks}")
            assert own is not None, "an event of another GPU's stream has no time here"
            assert own < waited or row.case == LARGE


@pytest.mark.alone  # beside other tests one GPU took 3.5 times as long as the other
def test_a_graph_is_captured_on_each_gpu(gpu_count):
    """torch's capture stream belongs to the first GPU: work on the second would not be captured."""
    case = Case("mnist-mlp", 32, variant="cuda-graph")
    state, emitted = swept(Plan("test", (case,), devices=("cuda",), metrics=(LATENCY, DEVICE), rounds=5, budget_s=0.5))
    assert [event for event in emitted if isinstance(event, CaseFailed)] == []
    waited = {name: times.latency_ns or 0.0 for name, times in state.rows[case.key].times.items()}
    print(f"mnist-mlp cuda-graph: {waited}")
    assert len(waited) == gpu_count
    assert max(waited.values()) / min(waited.values()) < 3


def test_gpus_of_one_model_agree_on_a_large_product(timed):
    """An event on the wrong GPU measures a launch, 20 µs, although the product takes milliseconds."""
    row = timed[0].rows[LARGE.key]
    own = {name: times.median_ns(DEVICE) or 0.0 for name, times in row.times.items()}
    labels = {gpu.name: gpu.label for gpu in timed[0].gpus}
    for model in set(labels.values()):
        alike = [ns for name, ns in own.items() if labels[name] == model]
        assert max(alike) / min(alike) < 1.5, own
    print(gpu_sentences(timed[0]))


def test_one_agent_never_times_two_gpus_at_once_and_turns_the_order_round(timed):
    halves = [event for event in timed[1] if isinstance(event, DeviceSampled) and event.round_index]
    for before, after in pairwise(halves):
        assert before.ended_mono_ns <= after.started_mono_ns
    rounds: dict[tuple[str, int], list[str]] = {}
    for event in halves:
        rounds.setdefault((event.case, event.round_index), []).append(event.device)
    assert rounds[LARGE.key, 1] == rounds[LARGE.key, 2][::-1]


def test_the_driver_is_asked_about_the_gpu_that_torch_means(timed):
    nvml = Nvml()
    rows, problem = nvml.read()
    nvml.close()
    assert problem is None
    known = {row.uuid for row in rows} | {each.uuid for row in rows for each in row.instances}
    for gpu in timed[0].gpus:
        assert gpu.uuid in known
        assert GpuProbe(gpu.uuid or "").sm_clock_mhz() is not None


def test_copies_between_all_gpus_have_rate_wait_and_peer_access(gpu_count):
    case = Case("transfer", 4096, variant="d2d")
    state, emitted = swept(Plan("test", (case,), devices=("cuda",), metrics=(LATENCY,), rounds=1, max_rounds=1))
    pairs = [event for event in emitted if isinstance(event, PeerMeasured)]
    assert len(pairs) == gpu_count * (gpu_count - 1)
    for pair in pairs:
        assert not pair.problem
        rate, wait_ns = bytes_per_s(pair) or 0.0, latency_ns(pair) or 0.0
        print(f"{pair.source.name} to {pair.target.name}: {rate / 1e9:.1f} GB/s, {wait_ns / 1e3:.1f} us, "
              f"peer access {pair.has_access}, {pair.elapsed_ns}")  # fmt: skip
        assert 1e9 < rate < 2e12
        assert 1e3 < wait_ns < 1e6
        assert max(pair.elapsed_ns) < 2 * median(pair.elapsed_ns), "a hold was too short, or something else was copied"
    print(peer_sentences(state))


VISIBLE = """
import json, sys
from cpugpu_tui.timing.torch_machine import TorchMachine
from cpugpu_tui.model import Plan
found = TorchMachine(Plan("test", (), devices=("cuda",)), {"threads": 1}).devices
print(json.dumps([(device.name, device.uuid) for device in found]))
"""


@pytest.mark.parametrize("form", ["index", "uuid"])
def test_what_is_visible_is_known_by_its_uuid(timed, form):
    """Then the last GPU is `cuda:0`, with its own UUID."""
    last, inherited = timed[0].gpus[-1], os.environ.get("CUDA_VISIBLE_DEVICES")
    index = inherited.split(",")[-1] if inherited else last.name.partition(":")[2]
    visible = index if form == "index" else last.uuid or ""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": visible}
    environment.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    done = subprocess.run(
        [sys.executable, "-c", VISIBLE], capture_output=True, text=True, timeout=60, env=environment, check=True
    )
    assert done.stdout.strip().splitlines()[-1] == f'[["cuda:0", "{last.uuid}"]]'


@pytest.fixture
def agents():
    found = Agents()
    yield found
    found.close()


def test_an_agent_for_each_gpu_makes_one_run(agents, gpu_count):
    plan = Plan(
        "test", (SMALL, LARGE), metrics=(LATENCY, DEVICE), rounds=5, budget_s=0.5, devices=("cuda",), parallel=True
    )
    plan = with_gpu_names(plan, agents)
    assert plan.devices == tuple(f"cuda:{index}" for index in range(gpu_count))
    events: list[Event] = []
    finished = Session(plan, agents).run(events.append)
    state = folded(events)
    assert (finished.status, finished.exit_code) == ("done", 0)
    halves = [event for event in events if isinstance(event, DeviceSampled) and event.round_index]
    spans = [(event.started_mono_ns, event.ended_mono_ns, event.device) for event in halves]
    assert any(one[0] < other[1] and other[0] < one[1] for one in spans for other in spans if one[2] != other[2]), (
        "no two GPUs were ever at work together"
    )
    for row in state.rows.values():
        assert row.status == "ok"
        assert len(row.gpus) == gpu_count
        print(row.case.size, {name: times.latency_ns for name, times in row.times.items()})
    print(gpu_sentences(state))


def test_a_run_without_gpus_opens_no_way_between_them():
    assert TorchMachine(Plan("test", (), devices=("cpu",)), ENVIRONMENT).peers() == ()
