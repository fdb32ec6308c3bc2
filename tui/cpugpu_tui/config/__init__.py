"""Settings from flags, environment and file, checked in one place."""
