"""Entry point of the agent: `python -m cpugpu_tui.agent` in this interpreter, `__main__.py` of the zip in others."""

from cpugpu_tui.agent.guardian import guard

guard()  # before other imports, to keep the forked process small

from cpugpu_tui.agent.main import main  # noqa: E402

main()
