"""A made-up CPU and GPUs with known constants (`model.Simulation`) and virtual time: no torch, no NVML."""
