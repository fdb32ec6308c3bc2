"""Comparisons of series: the commands `compare`, `baseline` and `gate`."""
