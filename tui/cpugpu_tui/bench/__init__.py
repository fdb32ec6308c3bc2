"""HOW it is timed: the agent side. Everything that reads a clock lives in `timers`."""
