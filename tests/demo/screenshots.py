"""Makes the README's pictures from the demo: `python -m tests.demo.screenshots FOLDER [COLUMNSxROWS]`.

`screenshot.svg` is the app when `quick` has ended, `screenshot-chart.svg` its chart, `screenshot-telemetry.svg` all of
the GPU while it works. The same recording gives the same pictures.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from cpugpu_tui.runs.demo.recording import Recording, shipped
from cpugpu_tui.ui.demo import DemoApp
from cpugpu_tui.ui.options import AppOptions

SIZE = (120, 40)


async def ended(pilot: Pilot[Any]) -> None:
    """Wait until everything has been played and the screen shows it."""
    app = pilot.app
    assert isinstance(app, DemoApp)
    while app.picture.situation.live or not app.picture.run.rows:
        await pilot.pause(0.02)
    await pilot.pause()
    app.change(notice=None)  # the picture is of the run, not of what a person could do after a demo
    await pilot.pause()


async def picture(recording: Recording, keys: Sequence[str], path: Path, size: tuple[int, int]) -> None:
    """Play at once, press keys, and keep what the screen shows then."""
    app = DemoApp(AppOptions(demo=recording, demo_pace=1000.0))
    async with app.run_test(size=size) as pilot:
        await ended(pilot)
        await pilot.press(*keys)
        await pilot.pause()
        path.write_text(plain(app.export_screenshot(title="cpugpu-tui demo")))
        app.bridge.close()


def plain(svg: str) -> str:
    """Return a picture whose names in the SVG do not change from one making to the next."""
    found = re.search(r"terminal-(\d+)-", svg)
    return svg.replace(f"terminal-{found[1]}", "terminal-demo") if found else svg


def main(arguments: Sequence[str]) -> int:
    """Write the pictures."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    width, _, height = (arguments[1] if len(arguments) > 1 else "{}x{}".format(*SIZE)).partition("x")
    size = (int(width), int(height))
    whole = shipped()
    quick = Recording(whole.runs[:1])
    wanted: dict[str, tuple[Recording, Sequence[str]]] = {
        "screenshot.svg": (quick, ()),
        "screenshot-chart.svg": (quick, ("g",)),
        "screenshot-telemetry.svg": (whole, ("tab", "z")),
    }
    for name, (recording, keys) in wanted.items():
        asyncio.run(picture(recording, keys, folder / name, size))
        print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
