"""Training on handwritten digits as in publication P5: data, network and workloads."""

from __future__ import annotations

from cpugpu_tui.workloads.mnist import mlp  # noqa: F401 - importing registers
