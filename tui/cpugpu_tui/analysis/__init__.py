"""WHAT IT MEANS: pure functions on numbers; no I/O, no torch, no clock."""
