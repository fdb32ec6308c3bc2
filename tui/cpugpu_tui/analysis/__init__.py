"""Pure functions from numbers to results: no I/O, no torch, no clock."""
