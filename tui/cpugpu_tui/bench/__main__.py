"""`python -m cpugpu_tui.bench`: the agent of this very interpreter."""

from cpugpu_tui.bench.agent import main

main()
