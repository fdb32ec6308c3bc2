"""The error of a result, as the check of a run computes it."""

from typing import Any

from cpugpu_tui.timing.result_check import pairs, relative_error
from cpugpu_tui.workloads import Workload


def error_of(item: Workload, result: Any, reference: Any, doubles: tuple[Any, ...]) -> float:
    return max(relative_error(own, other, item.scale(other, *doubles)) for own, other in pairs(result, reference))
