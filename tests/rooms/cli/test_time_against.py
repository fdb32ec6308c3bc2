"""`time NEW --against OLD` as a person meets it: the answer over sizes, wrong results, the history, errors."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.helpers.command_line import FAST, CommandLine
from tests.helpers.golden import GoldenWords

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_USAGE
from cpugpu_tui.model import RunStarted

SIMULATED = f"{FAST},noise=0.002,duet_factor=1.05"
PAIR = ("time", "x @ x", "--against", "torch.mm(x, x)", "--setup", "x = torch.rand(n, n)")


def test_the_answer_says_at_which_sizes_it_is_slower_and_the_history_says_the_same(
    cpugpu: CommandLine, words: GoldenWords
) -> None:
    done = cpugpu.here(*PAIR, "--n", "64,1024", "--simulate", SIMULATED, "--json")
    assert done.code == EXIT_OK, done.err
    told = json.loads(done.out.splitlines()[-1])
    words("\n".join(told["answer"]))
    started = [event for event in done.events if isinstance(event, RunStarted)]
    assert {event.plan.codes[0].statement for event in started} == {"x @ x", "torch.mm(x, x)"}
    saved = cpugpu.here("compare", told["base"]["numbers"][0], told["new"]["numbers"][0], "--json")
    assert json.loads(saved.out)["verdicts"] == told["verdicts"]
    again = cpugpu.here("show", told["base"]["numbers"][0]).out.split("Again: cpugpu-tui ")[1]
    repeated = cpugpu.here(*shlex.split(again), "--json", "--no-save", "--max-seconds", "0.01")  # one pair
    plan = next(event for event in repeated.events if isinstance(event, RunStarted)).plan
    assert (plan.cases, plan.codes) == (started[0].plan.cases, started[0].plan.codes)


def test_different_results_are_refused_by_size_after_one_pair(cpugpu: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "codes.py"
    file.write_text("import torch\ndef inputs(n):\n    return torch.rand(n)\ndef new(x):\n    return x * 2\n"
                    "def old(x):\n    return x * 2 + (x.numel() == 64) * 0.1\n")  # fmt: skip
    done = cpugpu.here("time", f"{file}:new", "--against", f"{file}:old", "--n", "64", "--device", "cpu",
                       "--threads", "1", "--json")  # fmt: skip
    assert done.code == EXIT_CASES_FAILED, done.err
    assert done.err.count("n = 64: different results: by about") == 1
    runs = [event for event in done.events if isinstance(event, RunStarted)]
    assert len(runs) == 2, "one pair"
    if (told := json.loads(done.out.splitlines()[-1])).get("event") == "Comparison":  # else, no core was free
        assert [each["verdict"] for each in told["verdicts"]] == ["NOT COMPARABLE"]
        assert "different results" in told["verdicts"][0]["trouble"]


@pytest.mark.parametrize(
    "more", [("--python", "a", "--python", "b"), ("--repeat", "2"), ("--starts", "3"), ("--against", "x +")]
)
def test_what_two_codes_cannot_follow_is_refused(
    cpugpu: CommandLine, more: tuple[str, ...], words: GoldenWords
) -> None:
    done = cpugpu.here(*PAIR, "--n", "64", "--simulate", SIMULATED, *more)
    assert (done.code, done.out) == (EXIT_USAGE, "")
    words(done.err)
