"""The agent of this very interpreter (`python -m cpugpu_tui.agent`), and what the agent's zip runs as elsewhere."""

from cpugpu_tui.agent.guardian import guard

guard()  # before anything else is imported: it is to stay small

from cpugpu_tui.agent.main import main  # noqa: E402

main()
