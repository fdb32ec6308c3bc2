"""Commands of `compare`, `gate` and `baseline`."""

from __future__ import annotations

import typer

commands = typer.Typer()
