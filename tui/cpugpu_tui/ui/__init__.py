"""The terminal app. Textual is imported here and nowhere else."""
