"""The two sentences of a survey."""

from __future__ import annotations

from tests.helpers.golden import GoldenWords
from tests.helpers.runs.planted_report import planted, with_copies

from cpugpu_tui.render.survey_sentences import survey_sentences
from cpugpu_tui.render.sweep_words import where, who_wins


def test_two_sentences_say_what_belongs_on_the_gpu(words: GoldenWords) -> None:
    surveys = [
        {"a": ("GGG", "GGG"), "b": ("GGG", "CCC"), "c": ("CCC", "CCC"), "d": ("CCGG", "CCCC"), "e": ("GGGG", "CCGG")},
        {"a": ("GGG", "GGG"), "b": ("CCC", "CCC")},
        {"a": ("CCGG", "CCCG")},
        {"a": ("GGG", ""), "b": ("===", "")},
        {"a": ("?", "")},
        {"a": ("GGG?", "CC??"), "b": ("CC?", "")},
        {"a": ("GG?GG", "GGGGG"), "b": ("CC=CC", ""), "c": ("GGGG", "GG=GG")},
    ]
    told = [survey_sentences([(name, with_copies(*each)) for name, each in found.items()]) for found in surveys]
    assert all(len(lines) == 2 for lines in told)
    words([line for lines in told for line in lines])


def test_a_device_that_wins_at_both_ends_wins_from_one_to_the_other() -> None:
    """`up to , except 20` stood in the table of a survey whose time was short."""
    both_ends, cpu = (planted(letters).resident for letters in ("G~~G", "C~C"))
    assert where(both_ends) == "from 10 to 80, except 20 and 40"
    assert who_wins(cpu, "") == "the CPU wins from 10 to 40; no winner at 20 (too noisy)"
