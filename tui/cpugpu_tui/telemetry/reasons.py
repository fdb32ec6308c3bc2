"""Why a value of the machine is not known."""

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
    "no-value": "driver gave no number",
    "out-of-range": "impossible number",
    "call-failed": "asking for it failed",
    "in-used": "counted as used (old driver)",
    "unknown": "driver gave an unknown error",
}
"""Why a reading has no number, in words for a person."""
