"""The headless faces: tables, progress, listings."""
