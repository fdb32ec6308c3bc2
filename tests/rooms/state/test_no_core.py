"""A row whose threads lacked a core has no winner, bracket or baseline, and shows why."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from tests.helpers.command_line import FAST
from tests.helpers.golden import assert_golden, paragraphs
from tests.helpers.runs.recorder import plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.errors import EXIT_OK, EXIT_UNFIT
from cpugpu_tui.model import NO_CORE, CoreUse, CoreUser, CoreWait, DeviceSampled, Simulation
from cpugpu_tui.render.answers import answer_lines
from cpugpu_tui.render.columns import Key
from cpugpu_tui.render.fleet import FleetRow
from cpugpu_tui.render.rows import run_table
from cpugpu_tui.report.report import judged
from cpugpu_tui.state.condition import no_core_lines, reason_lines, use_lines
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.folding import measured_state
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.glyphs import UNICODE
from cpugpu_tui.ui.screens.detail import detail_lines

LAWS = Simulation(first_call_ns=0.0, starved_share=0.4, starved_size=64)
SIZES = (16, 64, 256, 1024)
STARVED = "starved_share=0.4,starved_size=64"


@pytest.fixture(scope="module")
def run():
    """Four sizes around the crossover. In one of them the threads lacked a core."""
    plan = plan_of(*SIZES, simulation=LAWS)
    return state_of(plan, swept(plan)[1])


# ------------------------------------------------------------------ what it does not give


def test_there_is_no_winner_in_any_world(run):
    for row in run.rows.values():
        is_starved = row.case.size == 64
        assert row.is_starved == is_starved
        assert (row.own_comparison is None) == is_starved
        assert (row.in_worlds == {}) == is_starved
        assert (judged(run, row, END_TO_END).comparison is None) == is_starved
        assert row.cpu.latency_ns is not None, "what was measured is still shown"


def test_it_is_no_time_of_a_baseline(run):
    found = measured_state(run)
    starved = {case.case.size: case.starved for case in found.cases.values()}
    assert starved == {16: (), 64: ("CPU",), 256: (), 1024: ()}
    assert {case.case.size: set(case.median_ns) for case in found.cases.values()}[64] == {"GPU"}


def test_half_rounds_that_were_repeated_leave_a_result_and_are_counted(words):
    plan = plan_of(64, simulation=replace(LAWS, starved_tries=2))
    state = state_of(plan, swept(plan)[1])
    (row,) = state.rows.values()
    assert row.own_comparison is not None
    assert no_core_lines(state) == ()
    assert len(row.cpu.cores.discarded) == 2
    (told, *_) = reason_lines(row.cpu)
    words(told)


# ------------------------------------------------------------------ what is said


def test_the_answer_says_why_what_one_thread_takes_and_what_to_do(run, words):
    (said,) = no_core_lines(run)
    assert answer_lines(run)[1] == said
    stopped = model.CaseFailed(case=model.Case("matmul", 64).key, kind="skipped", message="Stopped.")
    assert no_core_lines(run.apply(stopped)) == (), "a case that a stop ended is no row of the table"
    words(re.sub(r"[\d.]+ [nµm]s", "TIME", said))


def test_a_run_without_a_core_anywhere_has_this_as_its_answer(words):
    plan = plan_of(*SIZES, simulation=replace(LAWS, starved_size=0))
    (said,) = answer_lines(state_of(plan, swept(plan)[1]))
    words(re.sub(r"[\d.]+ [nµm]s", "TIME", said))


def test_a_run_on_one_device_is_not_said_to_lack_a_winner():
    plan = plan_of(64, devices=("cpu",), simulation=LAWS)
    state = state_of(plan, swept(plan)[1])
    (row,) = state.rows.values()
    assert row.is_starved
    assert run_table(state).lines[0][Key.PLUS_MINUS] == "–", "`10.3 ms, 0–27,800 s` was shown"
    detail = "\n".join("".join(text for text, _ in line) for line in detail_lines(row, state, 120, UNICODE))
    assert "threads waited for a CPU core" in detail
    assert "winner" not in detail


def test_typed_code_is_named_as_it_was_typed(cpugpu):
    done = cpugpu("time", "x + 1", "--setup", "x = torch.rand(n)", "--n", "64", "--simulate", STARVED)
    assert "x + 1 n = 64: no core: " in done.err + done.out
    done = cpugpu("time", "torch.ones(9) + 1", "--simulate", "starved_share=0.4,starved_size=1")
    assert "torch.ones(9) + 1: no core: " in done.err + done.out, "code without n was given the size 1"


def test_the_table_has_a_word_in_place_of_the_winner(run):
    lines = {line[Key.SIZE]: line for line in run_table(run).lines}
    assert (lines["64"][Key.SPEEDUP], lines["64"][Key.VERDICT]) == ("–", "no core")
    assert NO_CORE in lines["64"][Key.REMARKS]
    assert lines["256"][Key.VERDICT] in ("CPU", "GPU")


def test_the_live_table_has_the_word_and_its_filter_finds_it(run):
    look = rows.look_of(run, UNICODE, 9)
    words = {row.case.size: "".join(text for text, _ in rows.verdict(run, row, look)) for row in run.rows.values()}
    assert "no core" in words[64]
    assert "no core" not in words[256]
    found = [row.case.size for row in run.rows.values() if rows.matches(run, row, "no core", look.varying)]
    assert found == [64]


def test_in_a_fleet_it_has_no_winner_either(run):
    found = [FleetRow("here", run, run.gpus[0], row) for row in run.rows.values()]
    assert {each.row.case.size for each in found if each.row.own_comparison is None} == {64}
    assert [each.text(Key.VERDICT) for each in found if each.row.is_starved] == ["no core"]


def lacking(**more):
    usual = CoreWait(2, 2, 43.0, 100.0, one_thread_ns=(8_800.0,), one_thread_share=0.001)
    cores = replace(usual, **more)  # type: ignore[arg-type]
    return DeviceTimes("cpu", marks=(NO_CORE,), cores=cores)


LACKS = {
    "two threads": lacking(),
    "one thread waited too": lacking(one_thread_share=0.31),
    "more threads than cores": lacking(threads=8),
    "a single thread": lacking(threads=1, one_thread_ns=()),
    "a quota": lacking(use=CoreUse(1e9, 0.5, throttled_periods=5, throttled_ns=6e8)),
    "the thread that launches": replace(lacking(threads=1, one_thread_ns=()), device="cuda:0"),
}
USES = {
    "two others": CoreUse(1e9, 0.7, (CoreUser("python", 1.1), CoreUser("sshd", 0.2)), 2, 1.3, 0.0, 0.0, 0.0),
    "what is not seen": CoreUse(1e9, 1.0, (), 0, 0.0, 0.3, 0.9, 0.4, 5, 6e8),
}


def test_golden_no_core():
    told = {f"lack of a core, {name}": " ".join(reason_lines(times)) for name, times in LACKS.items()}
    told |= {f"who used the cores, {name}": " ".join(use_lines(use)) for name, use in USES.items()}
    assert_golden("no-core", paragraphs(told))


# ------------------------------------------------------------------ from the command line


def test_the_history_the_exports_and_the_baseline_know_it(cpugpu):
    cpugpu("run", "matmul", "--size", "64,256", "--simulate", STARVED, code=EXIT_OK)
    assert "no core" in cpugpu("show", "latest").out
    (exported,) = json.loads(cpugpu("export", "latest", "--format", "json").out)["runs"]
    starved, sound = exported["results"]
    assert (starved["lead"], sound["lead"] is not None) == (None, True)
    cpu = starved["devices"]["cpu"]
    assert NO_CORE in cpu["marks"]
    assert (cpu["discarded"], round(cpu["waited_share"], 2), cpu["one_thread_ns"] > 0) == (3, 0.4, True)
    table = list(csv.DictReader(io.StringIO(cpugpu("export", "latest", "--format", "csv").out)))
    assert {row["verdict"] for row in table if row["size"] == "64"} == {""}
    anonymous = cpugpu("export", "latest", "--format", "json", "--anonymize").out
    assert "simulated-neighbour" not in anonymous
    assert "1 of 2 cases" in cpugpu("baseline", "main", "latest").out


@pytest.mark.parametrize("sizes", ["64,256", pytest.param("64", marks=pytest.mark.slow)])
def test_the_gate_does_not_pass_a_case_without_a_core(cpugpu, sizes):
    """All other cases pass; this one has no time. The exit code is 4, even if it is the only case."""
    device = ("--device", "cpu") if sizes == "64" else ()
    cpugpu("run", "matmul", "--size", sizes, *device, "--repeat", "5", "--simulate", f"{FAST},seed=1")
    assert cpugpu("baseline", "main", "latest").code == EXIT_OK
    assert cpugpu("gate", "--baseline", "main", "--simulate", f"{FAST},seed=7").code == EXIT_OK
    done = cpugpu("gate", "--baseline", "main", "--simulate", f"{FAST},seed=7,{STARVED}", code=EXIT_UNFIT)
    assert "core" in done.out + done.err


def test_a_half_round_carries_the_mark_on_the_wire(cpugpu):
    done = cpugpu("run", "matmul", "--size", "64", "--simulate", STARVED, "--json")
    timed = [event for event in done.events if isinstance(event, DeviceSampled) and event.device == "cpu"]
    assert any(NO_CORE in event.marks for event in timed)
