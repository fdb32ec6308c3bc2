"""The agent's code as one zip, so that any interpreter with torch can run it without an installation."""

from __future__ import annotations

import io
import os
import zipfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

ROOMS = (
    "__init__.py", "errors.py", "model", "workloads", "machine", "decide", "timing", "simulation", "agent",
)  # fmt: skip
"""The rooms in the zip; an import contract limits them to the standard library, torch and pynvml."""

MAIN = "agent/__main__.py"
"""The file that becomes the zip's `__main__.py`."""


@lru_cache(maxsize=1)
def agent_zip() -> bytes:
    """Return a zip that runs as a script: the rooms above and NVML's bindings.

    Cached: making it takes 50 ms, and a fleet needs it for each host.
    """
    package = Path(__file__).resolve().parents[1]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for room in ROOMS:
            path = package / room
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                name = str(file.relative_to(package))
                archive.write(file, "__main__.py" if name == MAIN else f"cpugpu_tui/{name}")
        bindings = find_spec("pynvml")
        if bindings is not None and bindings.origin is not None:
            archive.write(bindings.origin, "pynvml.py")
    return buffer.getvalue()


def open_agent_zip() -> int:
    """Return a descriptor of the zip in anonymous memory, so that nothing is left on disk after kill -9."""
    descriptor = os.memfd_create("cpugpu-tui-agent.zip")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(agent_zip())
    return descriptor
