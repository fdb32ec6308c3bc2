"""What the detail of a row says about a person's own code."""

from tests.rooms.ui.screens.test_detail import ALL, PARTS, read, run_of, section, timed

from cpugpu_tui.model import CodeCompiled, CodeTraced, LineCost, LinesProfiled
from cpugpu_tui.state.folding import folded


def test_own_code_shows_where_it_ran_and_its_five_slowest_lines(words):
    lines = tuple(
        LineCost("my_model.py", number, f"y = f'{{run}}{number}'", "synchronisation", 1e6 / number, share=0.5 / number)
        for number in range(1, 8)
    )
    key = ALL.key
    run = run_of(
        *timed(gpu=PARTS), LinesProfiled(case=key, device="cuda:0", lines=lines, profiled_ns=1.9e6, unprofiled_ns=6e5)
    )
    assert "Where it ran" not in read(run)
    traced = CodeTraced(case=key, device="cuda:0", operators=7, copies_to_host=1, bytes_to_host=4, synchronisations=1)
    compiled = CodeCompiled(case=key, device="cpu", elapsed_ns=1.7e9, variant="eager")
    said = read(folded([traced, CodeTraced(case=key, device="cpu", operators=7), compiled], run), 76)
    words([line for title in ("Where it ran", "Slowest lines on cuda:0", "Compiled") for line in section(said, title)])
    assert len([line for line in said if "my_model.py:" in line]) == 5
