"""Intervals, verdict, crossover and the next size to time: the one implementation; travels with the agent."""
