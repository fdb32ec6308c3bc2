"""THE MACHINE: what GPUs and host are doing, sampled; every value a number with its age or a reason."""
