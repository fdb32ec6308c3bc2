"""What is known of a run so far, and what follows from it row by row."""
