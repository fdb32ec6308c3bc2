"""What a person types first on a real GPU: `doctor`, and the app on a pseudo-terminal."""

import sys

import psutil
import pytest
import torch
from tests.helpers.app.pty_app import PtyApp

pytestmark = [pytest.mark.gpu, pytest.mark.alone]  # beside others its CPU rows had no core, and no winner

COMMAND = (sys.executable, "-m", "cpugpu_tui")


@pytest.mark.alone
def test_a_machine_that_works_has_no_failed_check(cpugpu):
    done = cpugpu("doctor", "--json")
    failed = [found for found in done.objects if found["verdict"] == "fail"]
    assert (done.code, failed) == (0, []), done.err
    found = {line["check"]: line["found"] for line in done.objects}
    assert "CUDA" in found["driver"]
    assert "cuda:0" in found["cuda.devices"]
    assert "NVML" in found["cuda.devices"]


def test_a_run_in_the_app_shows_the_gpu_and_answers(tmp_path):
    """It names the GPU, times both devices, answers, and leaves no process."""
    name = torch.cuda.get_device_name().split()[1]  # "NVIDIA H100 80GB HBM3": the model, which every width shows
    with PtyApp(COMMAND, env={"CPUGPU_DB": str(tmp_path / "runs.db"), "CPUGPU_STARTS": "1"}) as app:
        app.until_text("Press r")
        app.until_text(name)
        app.send("r")
        app.until(lambda shown: "✓ done" in shown.text and "run 1" in shown.text)
        assert "temperature" in app.text  # telemetry of the driver
        assert "The GPU wins from" in app.text, app.text  # some size of `quick`, on every GPU so far
        left = psutil.Process(app.pid).children(recursive=True)
        app.quit()
    _, alive = psutil.wait_procs(left, timeout=30)
    assert alive == []
