"""The chart of a run: its pane in the main screen, and its page."""
