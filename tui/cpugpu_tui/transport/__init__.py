"""Starts agents in this or another interpreter, or on another machine, and talks to them."""
