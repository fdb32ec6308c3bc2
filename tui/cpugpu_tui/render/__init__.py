"""What is said of a run: rows, sentences and numbers, once for app, terminal and exports."""
