"""The tools of our tests: golden words belong to a test, lines of `make gpu` appear as tests end, faults are found."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.helpers.fuzz import trying
from tests.helpers.fuzz.surfaces import own_code, sizes, types
from tests.helpers.fuzz.trying import Surface, Tally, WrongError, one_try, tries_of
from tests.helpers.golden import WORDS, GoldenWords, sections_of

TESTS = Path(__file__).resolve().parents[1]


def test_each_golden_text_belongs_to_a_test():
    """Remove the section of a test that was renamed or deleted by hand."""
    orphans = []
    for file in WORDS.glob("*.txt"):
        folder = TESTS / "rooms" / file.stem if (TESTS / "rooms" / file.stem).is_dir() else TESTS / file.stem
        sources = {source.name: source.read_text("utf-8") for source in folder.rglob("test_*.py")}
        for section in sections_of(file):
            module, _, test = section.partition("::")
            if f"def {test.partition('[')[0]}(" not in sources.get(module, ""):
                orphans.append(f"{file.name}: {section}")
    assert not orphans


def test_another_wording_fails_until_it_is_renewed(tmp_path, monkeypatch):
    file = tmp_path / "room.txt"
    monkeypatch.setenv("RENEW_GOLDEN", "1")
    first = GoldenWords(file, "test_a.py::test_b")
    first("One size.")
    first(["Two", "lines"])
    monkeypatch.delenv("RENEW_GOLDEN")
    again = GoldenWords(file, "test_a.py::test_b")
    again("One size.")
    again("Two\nlines")
    with pytest.raises(AssertionError, match="make golden"):
        GoldenWords(file, "test_a.py::test_b")("Another size.")
    with pytest.raises(AssertionError, match="make golden"):
        again("A third text.")


SUITE = """
import os, time
import pytest

def test_first_fails():
    assert 1 == 2, "the cause"

def test_second_sees_the_line_of_the_first():
    ends = time.monotonic() + 60
    while "the cause" not in open(os.environ["GPU_RESULTS"]).read():
        assert time.monotonic() < ends
        time.sleep(0.05)

@pytest.mark.skip(reason="no second GPU")
def test_third_is_skipped():
    pass
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_each_test_has_one_line_as_it_ends(workers, tmp_path):
    (tmp_path / "test_suite.py").write_text(SUITE)
    results = tmp_path / "results.ndjson"
    results.touch()
    words = ["-p", "tests.gpu.lines", "-p", "no:cacheprovider", "-m", "", "-n", workers, "-q", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        env={**os.environ, "GPU_RESULTS": str(results), "PYTEST_XDIST_WORKER": "", "PART": "1/1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = [json.loads(line) for line in results.read_text().splitlines()]
    outcomes = {each["test"].rpartition("::")[2]: each["outcome"] for each in found}
    assert len(found) == 3, done.stdout
    assert outcomes == {
        "test_first_fails": "failed",
        "test_second_sees_the_line_of_the_first": "passed",
        "test_third_is_skipped": "skipped",
    }
    assert done.stdout.count(" s  ") == 3
    assert any("the cause" in line for each in found for line in each["cause"])


def test_the_fuzzer_names_the_try_that_repeats_a_fault(monkeypatch):
    """A traceback, a wrong end, a hang and a left-over process, each in the third try of a seed."""
    monkeypatch.setattr(trying, "TRY_S", 0.2)
    monkeypatch.setattr(trying, "left_over", lambda: ["77 sleep"] if faults == ["process"] else [])
    third = Random("5 planted 2").random()
    for faults, word in ((["crash"], "ZeroDivisionError"), (["wrong"], "exit code 9"), (["hang"], "no end within"),
                         (["process"], "77 sleep")):  # fmt: skip

        def attempt(random, fault=faults[0]):
            if random.random() == third:
                match fault:
                    case "crash":
                        return str(1 / 0)
                    case "wrong":
                        raise WrongError("exit code 9")
                    case "hang":
                        signal.pause()
            return "fine"

        tally = Tally()
        one_try(Surface("planted", attempt, starts_processes=faults == ["process"]), 5, 2, tally)
        (text,) = tally.failures.values()
        assert text.startswith("BENCH_SEED=5 BENCH_TRY='planted:2': ")
        assert word in text
    assert tries_of(Surface("planted", lambda _: "fine"), 5, 0.0).tries == 1


@pytest.mark.parametrize("attempt", [sizes, own_code, types])
def test_a_few_thousand_hostile_values_are_taken_or_refused(attempt):
    tally = Tally()
    for number in range(700):
        one_try(Surface(attempt.__name__, attempt), 33, number, tally)
    assert not tally.failures
    assert set(tally.outcomes) == {"taken", "refused"}
