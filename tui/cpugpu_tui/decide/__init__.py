"""Intervals, verdict, crossover and the next size to time; travels with the agent."""
