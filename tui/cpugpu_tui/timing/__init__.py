"""How work is timed: timers, one case step by step, the schedule of a sweep, ceilings; travels with the agent."""
