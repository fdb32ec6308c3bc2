"""Runs as files for others: pure functions of a run's events, the same bytes for the same run, numbers in full."""
