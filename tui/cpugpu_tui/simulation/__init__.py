"""A simulated CPU and GPUs with known constants (`model.Simulation`) in virtual time, without torch and NVML."""
