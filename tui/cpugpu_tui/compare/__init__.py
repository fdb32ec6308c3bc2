"""Two series of runs, baselines, and publications' claims against what was measured."""
