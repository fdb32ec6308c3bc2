"""A later state of a run judges only the sweeps again whose rows have changed, and says the same as without that."""

import gzip

import pytest
from tests.helpers.command_line import ROOT

from cpugpu_tui import model
from cpugpu_tui.render.answers import answer_lines, answers, as_data
from cpugpu_tui.report import report as reports
from cpugpu_tui.report.report import carry_over, judged, report
from cpugpu_tui.state.folding import folded
from cpugpu_tui.transport.agent_output import decode


@pytest.fixture(scope="module")
def events():
    """A survey of twenty workloads on an H200."""
    lines = gzip.decompress((ROOT / "tests" / "golden" / "h200-survey.ndjson.gz").read_bytes()).splitlines()
    return [event for line in lines if (event := decode(line)) is not None]


def shown(run):
    """Everything that the app asks of a report in a gap."""
    return [judged(run, row) for row in run.rows.values()], as_data(run), answer_lines(run)


def test_a_half_round_of_one_case_judges_one_sweep_again(events, monkeypatch):
    last = max(index for index, event in enumerate(events) if isinstance(event, model.DeviceSampled))
    before = folded(events[:last])
    shown(before)
    after = folded(events[last : last + 1], before)
    carry_over(before, after)
    asked = []
    condition_of = reports.condition_of

    def noted(key, rows):
        asked.extend(row.case.sweep for row in rows)
        return condition_of(key, rows)

    monkeypatch.setattr(reports, "condition_of", noted)
    shown(after)
    assert set(asked) == {after.rows[events[last].case].case.sweep}
    assert len(answers(after)) > 5


def test_it_says_the_same_as_a_report_of_its_own(events):
    """Also where a state in between was not shown, and after the last event, which changes all rows."""
    before = folded(events[:1])
    report(before)
    for start in range(1, len(events), 197):
        after = folded(events[start : start + 197], before)
        carry_over(before, after)
        if start % 2:
            assert shown(after) == shown(folded(events[: start + 197]))
        before = after
    assert before.status == "done"


def test_the_sentences_of_an_answer_are_made_only_if_someone_reads_them(events, monkeypatch):
    made = []
    monkeypatch.setattr("cpugpu_tui.render.answers.sentences", made.append)
    run = folded(events)
    assert answers(run)
    assert not made
