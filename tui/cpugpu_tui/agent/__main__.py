"""`python -m cpugpu_tui.agent`: the agent of this very interpreter."""

from cpugpu_tui.agent.guardian import guard

guard()  # before anything else is imported: it is to stay small

from cpugpu_tui.agent.main import main  # noqa: E402

main()
