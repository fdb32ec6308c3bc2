"""What a person sets, by file, environment and flag, checked once."""
