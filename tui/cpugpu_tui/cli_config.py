"""Commands of `config` and `new-workload`."""

from __future__ import annotations

import typer

commands = typer.Typer()
