"""Training on handwritten digits, publication P5: data, network, and the workloads made of them."""

from __future__ import annotations

from cpugpu_tui.workloads.mnist import mlp  # noqa: F401 - importing registers
