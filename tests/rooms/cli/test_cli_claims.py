"""`cpugpu-tui claims`: what five publications say, from saved runs, as a table and as JSON; it measures nothing."""

import shlex

from tests.helpers.command_line import FAST

from cpugpu_tui.errors import EXIT_OK

SIMULATED = f"{FAST},noise=0.001"


def claims_of(cpugpu, *arguments):
    done = cpugpu.here("claims", "--json", *arguments)
    assert (done.code, done.err) == (EXIT_OK, "")
    return {item["id"]: item for item in done.objects}


def test_without_a_history_every_claim_is_open_and_none_is_made(cpugpu, words):
    done = cpugpu.here("claims")
    assert (done.code, done.err) == (EXIT_OK, "")
    words(next(line for line in done.out.splitlines() if line.startswith("22 ")))
    assert "jacobian --size 100 --variant loop,vectorized --rounds 6\n" in done.out
    assert not cpugpu.database.exists()


def test_a_saved_run_is_what_it_judges_by(cpugpu, words):
    cpugpu.here("run", "mnist-mlp", "--size", "32", "--variant", "pageable", "--simulate", SIMULATED, "--rounds", "5")
    found = claims_of(cpugpu, "--simulate", SIMULATED)
    small = found["p5-small"]
    words(small["sentence"])
    assert (small["publication"], small["simulated"]) == ("P5", True)
    assert small["outcome"] not in ("not measured yet", "outdated")
    assert small["here"].startswith("GPU ")
    assert small["sources"] == ["run 1"]
    assert small["command"].endswith(f"mnist-mlp --size 32 --variant pageable --simulate {SIMULATED}")
    assert found["p3-batch-100"]["outcome"] == "not measured yet"
    assert found["old-variables"]["outdated"]
    assert found["old-variables"]["command"] is None
    done = cpugpu.here("claims", "--simulate", SIMULATED)
    assert "(run 1)" in done.out
    assert "\nSIMULATED: " in done.out
    assert done.out.endswith(f" --scale small --simulate {SIMULATED}\n")


def test_made_up_numbers_say_nothing_about_this_machine(cpugpu):
    cpugpu.here("run", "mnist-mlp", "--size", "32", "--variant", "pageable", "--simulate", SIMULATED, "--rounds", "5")
    assert {item["outcome"] for item in claims_of(cpugpu).values()} == {"not measured yet", "outdated"}


def test_the_card_of_the_machine_answers_what_is_said_of_arithmetic_units(cpugpu):
    assert (
        claims_of(cpugpu, "--simulate", "default")["p4-units"]["command"]
        == "cpugpu-tui machine --measure --simulate default"
    )
    cpugpu.here("machine", "--measure", "--simulate", "default")
    assert claims_of(cpugpu, "--simulate", "default")["p4-units"]["outcome"] == "holds"


def test_an_undecided_claim_keeps_its_command_which_decides_it(cpugpu):
    """Three rounds of calls of minutes left it undecided, and no command was told any more."""
    words = ("run", "jacobian", "--size", "1000", "--variant", "loop", "--simulate", "default")
    cpugpu.here(*words, "--rounds", "1")
    assert claims_of(cpugpu, "--simulate", "default")["p3-batch-1000"]["outcome"] == "undecided here"
    told = cpugpu.here("claims", "--simulate", "default").out.splitlines()
    (line,) = [each for each in told if "jacobian --size 1000" in each]
    cpugpu.here(*shlex.split(line)[1:])
    assert claims_of(cpugpu, "--simulate", "default")["p3-batch-1000"]["outcome"] in ("holds", "does not hold here")
