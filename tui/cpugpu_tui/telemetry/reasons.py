"""Reasons for missing readings, as text."""

from __future__ import annotations

REASONS = {
    "not-supported": "not supported here",
    "no-permission": "no permission",
    "gpu-lost": "GPU is lost",
    "function-missing": "driver too old for this value",
    "no-driver": "no NVIDIA driver",
    "mig": "not available in MIG mode",
    "timeout": "driver does not answer",
    "not-yet": "not read yet",
    "not-asked": "not asked for",
    "window-too-short": "too short for its sensor",
    "counter-reset": "counter was reset",
    "window-too-long": "too long for its counter",
    "no-value": "driver reported no number",
    "out-of-range": "impossible value",
    "call-failed": "reading it failed",
    "not-in-run": "not read during a run",
    "no-sample": "idle, or no sample",
    "unresolved": "not visible here (another container, or ended)",
    "in-used": "counted as used (old driver)",
    "unknown": "unknown driver error",
}
"""Code of a reading without a number → text for people."""
