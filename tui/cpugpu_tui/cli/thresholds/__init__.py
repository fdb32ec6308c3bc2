"""Thresholds for programs: measured, shown and verified."""
