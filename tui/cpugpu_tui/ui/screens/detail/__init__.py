"""The detail of one row."""
