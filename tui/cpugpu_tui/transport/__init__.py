"""Starts an agent here, in another interpreter or on another machine, and talks to it."""
