"""Export runs as files. The output depends only on a run's events: the same run gives the same bytes, unrounded."""
