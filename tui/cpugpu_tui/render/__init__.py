"""Sentences, tables and words about a run, shared by all faces."""
