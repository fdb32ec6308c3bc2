"""A GPU whose event clock is wrong: rows have latency, winners and a crossover, and each face says why kernels miss."""

import json

import pytest

from cpugpu_tui.errors import EXIT_OK
from cpugpu_tui.model import DEVICE, LATENCY

RUN = ("run", "matmul", "--size", "64,1024", "--rounds", "6", "--simulate")


@pytest.mark.parametrize("wrong", ["slow5", "hang"])
def test_a_run_has_latency_and_winners_and_names_the_reason(cpugpu, tmp_path, wrong, words):
    file = tmp_path / "run.json"
    done = cpugpu.here(*RUN, f"event_clock={wrong}", "--export", file, code=EXIT_OK)
    assert "cold kernels" in done.out, "a column of dashes, not a missing column"
    words([line for line in done.out.splitlines() if "kernel times" in line])
    (run,) = json.loads(file.read_text())["runs"]
    assert run["clocks"]["cuda:0"]["sound"] is False
    for result in run["results"]:
        assert result["lead"]["verdict"] in ("CPU", "GPU")
        gpu = result["devices"]["cuda:0"]
        assert LATENCY in gpu["metrics"]
        assert DEVICE not in gpu["metrics"]
    shown = cpugpu.here("show", "latest")
    assert [line for line in shown.out.splitlines() if "kernel times" in line], "the saved run says it, too"


def test_a_sound_clock_is_in_the_export_and_nothing_is_said(cpugpu, tmp_path):
    file = tmp_path / "run.json"
    done = cpugpu.here(*RUN, "default", "--export", file)
    assert "clock" not in done.out
    (run,) = json.loads(file.read_text())["runs"]
    assert run["clocks"]["cuda:0"]["sound"] is True
    assert run["clocks"]["cuda:0"]["floor_ns"] > 0


def test_the_card_and_doctor_say_what_the_check_found(cpugpu, words):
    for simulated in ("default", "gpus=2,event_clock=back"):
        card = cpugpu.here("machine", "--simulate", simulated, "--measure", "--no-save", code=EXIT_OK)
        words([line for line in card.out.replace("\n1.20", " 1.20").splitlines() if "event clock" in line])
        told = [json.loads(line) for line in cpugpu.here("doctor", "--simulate", simulated, "--json").out.splitlines()]
        (finding,) = [each for each in told if each["check"] == "cuda.clock"]
        words([finding["verdict"], finding["found"], finding["cause"], finding["remedy"]])
