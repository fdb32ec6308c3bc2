"""A run as a whole: its plan, one agent or several, series, resuming, saving."""
