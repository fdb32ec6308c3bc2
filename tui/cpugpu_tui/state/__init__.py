"""The state of a run, and the values computed from it row by row."""
