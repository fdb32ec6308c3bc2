"""What the machine says of itself: NVML and the kernel, each a value or a reason; travels with the agent."""
