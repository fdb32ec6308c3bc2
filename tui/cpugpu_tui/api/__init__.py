"""Time code from Python: `crossover` and `time_on`, imported from `cpugpu_tui`."""
