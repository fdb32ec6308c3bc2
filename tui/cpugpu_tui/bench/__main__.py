"""`python -m cpugpu_tui.bench`: the agent of this very interpreter."""

from cpugpu_tui.bench.guardian import guard

guard()  # before anything else is imported: it is to stay small

from cpugpu_tui.bench.agent import main  # noqa: E402

main()
