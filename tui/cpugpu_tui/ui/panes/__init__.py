"""Panes of the main screen: they draw the state and post messages."""
