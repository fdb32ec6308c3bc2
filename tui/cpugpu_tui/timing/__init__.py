"""Timing: timers, the protocol of one case, the scheduler of a plan, calibration. Part of the agent."""
