"""What version 0.1 wrote stays readable; `tests/golden/0.1` holds files that its code made, or read, on 2026-11-22.

Its databases are held to this by test_store_golden.py, its telemetry traces (`tests/traces`) by test_trace.py.
"""

import json
import shutil

import pytest
from tests.helpers.command_line import FAST, ROOT
from tests.helpers.fleet.fleet_command import QUICK, ends, fleet, inventory, states
from tests.helpers.machine.fake_interpreters import interpreter

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK
from cpugpu_tui.ui.themes import load_themes

WRITTEN = ROOT / "tests" / "golden" / "0.1"


def extremes(results):
    """Return (case, device, metric) → samples, shortest and longest of them, ns. Medians have another estimator now."""
    return {
        (result["case"], device, metric): (found["samples"], found["min_ns"], found["max_ns"])
        for result in results
        for device, times in result["devices"].items()
        for metric, found in times["metrics"].items()
    }


@pytest.mark.parametrize("name", ["run.json", "run.ndjson"])
def test_an_export_comes_in_with_its_numbers_and_its_environment(cpugpu, name):
    """Made by `run matmul --size 64,2048 --rounds 5 --simulate default` and `export --anonymize`."""
    (before,) = json.loads((WRITTEN / "run.json").read_text())["runs"]
    assert cpugpu.here("import", WRITTEN / name).code == EXIT_OK
    (after,) = json.loads(cpugpu.here("export", "1", "--format", "json").out)["runs"]
    assert extremes(after["results"]) == extremes(before["results"])
    assert (after["run_id"], after["started"], after["devices"]) == (
        before["run_id"], before["started"], before["devices"],
    )  # fmt: skip
    assert after["environment"]["version"] == "0.1.0"
    shown = cpugpu.here("show", "1")
    assert (shown.code, "34.6 ms" in shown.out) == (EXIT_OK, True)


def test_a_workload_file_runs(cpugpu):
    """Made by `new-workload relu6`."""
    done = cpugpu("run", "relu6", "--workloads", WRITTEN / "relu6.py", "--size", "16,64", "--simulate", FAST, "--json")
    assert (done.code, done.err) == (EXIT_OK, "")
    assert {event.case for event in done.events if type(event).__name__ == "CaseFinished"} == {
        "relu6/by-hand/16/float32/tall", "relu6/by-hand/64/float32/tall",
    }  # fmt: skip


def test_a_config_file_means_what_it_meant(cpugpu, tmp_path):
    """With a preset, keys, and a theme of the person's own, as `config show --json` said then."""
    folder = tmp_path / "config" / "cpugpu-tui"
    folder.mkdir(parents=True)
    for name in ("config.toml", "relu6.py"):
        shutil.copy(WRITTEN / name, folder)
    told = (WRITTEN / "config-show.ndjson").read_text().replace("{folder}", str(folder))
    then = [json.loads(line) for line in told.replace("{home}", str(tmp_path)).splitlines()]
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    now = cpugpu("config", "show", "--json", **home).objects
    # The test's own history is named by a variable, which stands above the file.
    assert [line for line in then if line not in now] == [line for line in then if line.get("key") == "database"]


def test_a_theme_can_be_chosen():
    (theme,), broken = load_themes(WRITTEN)
    assert (theme.name, theme.dark, theme.primary) == ("mine", True, "#6f9fd8")
    assert theme.variables["series-gpu"] == "#f2a65a"
    assert [each.path.name for each in broken] == ["config.toml"], "which is no theme"


def test_an_agent_of_another_version_is_named_and_costs_its_host_alone(cpugpu, tmp_path):
    hello = '{"event":"Hello","protocol":0,"environment":{}}'
    text = f"echo '{{\"event\":\"HostReached\"}}'\necho '{hello}'\nexec cat >/dev/null"
    agent = interpreter(tmp_path / "agent", text)
    hosts = inventory(
        tmp_path,
        f"""[launchers]
old = "{agent} {{host}}"
[[hosts]]
host = "older"
launcher = "old"
[[hosts]]
host = "fine"
launcher = "local"
""",
    )
    outcome = fleet(cpugpu, "-H", hosts, *QUICK)
    assert outcome.code == EXIT_CASES_FAILED
    assert states(outcome) == {"older": "version", "fine": "done"}
    assert "protocol 0" in ends(outcome)["older"]["message"]
