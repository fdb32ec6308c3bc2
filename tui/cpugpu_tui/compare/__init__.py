"""Comparisons of two series, baselines, and judging claims by runs."""
