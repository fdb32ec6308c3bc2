"""Panes of the main screen: they take data, post messages, and know nothing of runs."""
