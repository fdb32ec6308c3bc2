"""A run as a whole: its plan, its agents, series, resuming and saving."""
