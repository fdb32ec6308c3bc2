"""Commands of `export` and `import`."""

from __future__ import annotations

import typer

commands = typer.Typer()
