"""The ranges of a file of thresholds around single sizes."""

import pytest

from cpugpu_tui.cli.thresholds.measuring import _parts_text
from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, UNDECIDED, Comparison, SweepPoint
from cpugpu_tui.export.threshold_ranges import points_of, ranges_of, with_sizes
from cpugpu_tui.report.conditions import judged_sizes
from cpugpu_tui.thresholds import Threshold

GPU_LEADS = Comparison(1.3, 1.25, 1.35, 20, GPU_WINS)
CPU_IS_CHEAP = Comparison(0.95, 0.85, 1.08, 20, UNDECIDED)
CPU_LEADS = Comparison(0.5, 0.48, 0.52, 20, CPU_WINS)


@pytest.mark.parametrize(
    ("middle", "text"),
    [
        # `GPU 164–499, CPU 500, GPU 501–2,048` was made of a size that had no winner.
        (CPU_IS_CHEAP, "GPU 100–499 and 501–2,000"),
        (CPU_LEADS, "GPU 100–200, CPU 500, GPU 1,000–2,000"),
    ],
)
def test_one_size_between_two_of_the_other_device_is_named_as_such_or_left_open(middle, text):
    points = [SweepPoint(size, middle if size == 500 else GPU_LEADS) for size in (100, 200, 500, 1000, 2000)]
    assert _parts_text(ranges_of(judged_sizes(points)).faster) == text


def test_a_file_is_judged_again_from_what_was_found_at_each_size_and_not_from_what_was_judged():
    """Each judging widens intervals of one start by those over starts. What was widened was then widened again."""
    cpu = Comparison(0.17, 0.153, 0.197, 28, CPU_WINS, 5, 4)
    one_start = Comparison(0.266, 0.1686, 0.3558, 16, CPU_WINS)
    doubtful = Comparison(1.885, 1.4695, 2.283, 27, GPU_WINS, 5, 4)
    points = [SweepPoint(100 * place, cpu) for place in range(1, 13)]
    points += [SweepPoint(1300, one_start), SweepPoint(1400, doubtful)]
    judged = judged_sizes(points)
    assert (judged[-2].winner, judged[-1].winner, judged[-1].own.winner) == (CPU_WINS, None, GPU_WINS)
    file = with_sizes(Threshold("matmul", "default", "float32", 0, True, True, "n", (), (), ()), judged)
    assert with_sizes(file, judged_sizes(points_of(file))) == file


def test_a_device_is_named_once_for_all_its_sizes():
    parts = [("cpu", 16, 16), ("cpu", 50, 208), ("cuda", 210, 2048), ("cuda", 10_000_000, 10_000_000)]
    assert _parts_text(parts) == "CPU 16 and 50–208, GPU 210–2,048 and 10M"
