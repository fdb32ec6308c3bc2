"""`compare` and `baseline` say what a person has to know: edited code, missing cores, too few runs."""

from tests.helpers.command_line import FAST

from cpugpu_tui.analysis.compare import GATE_RUNS


def test_code_that_was_edited_between_two_series_is_named(cpugpu, tmp_path):
    for number in (1, 2):
        (tmp_path / "mine.py").write_text(f"import torch\n\ndef forward(n):\n    return torch.ones(n) * {number}\n")
        cpugpu.here(
            "time", f"{tmp_path}/mine.py:forward", "--n", "16,32", "--simulate", FAST, "--worker", "thread", code=0
        )
    (found,) = cpugpu.here("compare", "1", "2", "--json").objects
    (code,) = (each for each in found["differences"] if each["what"] == "code")
    assert code["base"].startswith("mine.py ")
    assert code["base"] != code["new"]
    said = cpugpu.here("compare", "1", "2").out
    assert "mine.py" in said
    assert "No difference" not in said


def test_a_baseline_that_no_gate_takes_says_so_when_it_is_made(cpugpu):
    run = ("run", "matmul", "--size", "16", "--rounds", "6", "--simulate", FAST)
    assert cpugpu.here(*run).code == 0
    said = cpugpu.here("baseline", "main", "latest", code=0)
    assert f"command with `cpugpu-tui show 1` and run it with --repeat {GATE_RUNS}, without --max-seconds." in said.out
    assert cpugpu.here("gate", "--baseline", "main").code == 4
    assert cpugpu.here(*run, "--repeat", str(GATE_RUNS)).code == 0
    assert cpugpu.here("baseline", "main", "latest").out == "Baseline main is runs 2-6 (was run 1).\n"


def test_sizes_that_only_one_run_has_stand_in_one_sentence_and_in_no_verdict(cpugpu):
    """A search chooses its sizes: 16 of 46 verdicts of two equal searches were NOT COMPARABLE."""
    for sizes in ("16,32,64", "16,48,64"):
        assert cpugpu.here("run", "matmul", "--size", sizes, "--rounds", "6", "--simulate", FAST).code == 0
    said = cpugpu.here("compare", "1", "2").out
    assert "NOT COMPARABLE" not in said
    assert "Only in run 1: matmul 32.\nOnly in run 2: matmul 48.\n" in said
    (found,) = cpugpu.here("compare", "1", "2", "--json").objects
    assert {each["trouble"] for each in found["verdicts"]} == {None, "not in the new series", "not in the base series"}
