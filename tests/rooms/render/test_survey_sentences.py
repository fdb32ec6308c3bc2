"""The two sentences of a survey."""

from __future__ import annotations

from tests.helpers.golden import GoldenWords
from tests.helpers.runs.planted_report import with_copies

from cpugpu_tui.render.survey_sentences import survey_sentences


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
