"""Threads, messages and the backend that connect a run with the app."""
