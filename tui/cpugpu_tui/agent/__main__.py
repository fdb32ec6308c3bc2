"""Entry point of the agent: `python -m cpugpu_tui.agent` in this interpreter, `__main__.py` of the zip in others."""

from cpugpu_tui.agent.guardian import guard

guard()  # before other imports, to keep the forked process small

import sys  # noqa: E402

from cpugpu_tui.timing.channel import ALIVE  # noqa: E402
from cpugpu_tui.timing.compiler_cache import keep_bytecode  # noqa: E402

if ALIVE not in sys.argv:  # on another machine nothing is written
    keep_bytecode()  # before the imports that it makes faster

from cpugpu_tui.agent.main import main  # noqa: E402

main()
