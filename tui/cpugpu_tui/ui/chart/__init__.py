"""The chart of both times over size, as text."""
